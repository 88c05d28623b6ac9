"""Character groups: readable units for explanations of texts that are written without spaces.

The tokenizer makes every character of such a text a word. For an explanation, neighbouring
characters are grouped by what the n-gram model knows about its training texts:

1. Two or three characters that occur together in more texts than by chance are a unit; the
   strongest association (pointwise mutual information) comes first. As idf_g = ln(N/df_g) + 1, it
   is (Σ idf of the characters − idf of the n-gram) / (characters − 1) − 1 per pair.
2. The remaining characters of a phonetic script (not Chinese characters) join the preceding unit. A
   run of katakana is always one unit.

A Thai or Lao vowel that is written before its consonant begins a new unit. One that is written
after it, and a Burmese final consonant, always join the preceding character.

The contributions and attention weights of a unit are the sums of its characters'.
``views/static/explain.js`` does the same. Shapes: T words.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lamatext.data.tokenizer import Script, Span, unspaced_script
from lamatext.explain.explanation import Explanation
from lamatext.ngrams.hashing import hash_ngrams
from lamatext.ngrams.model import NgramModel, NgramTable

MAX_CHARACTERS = 8  # in a unit
LEADING_VOWELS = "เแโใไເແໂໃໄ"
FOLLOWING = "ะาำๅๆฯະາຳໆຯ"  # vowels and marks written after their consonant as separate characters
ASAT = "\u103a"  # the Burmese mark of a final consonant


def group_characters(explanation: Explanation, ngrams: NgramModel) -> Explanation:
    """Merge the single characters of an explanation (in Chinese text, for example) into groups.

    The contribution of a group is the sum of those of its characters.
    """
    words = explanation.words
    scripts = [unspaced_script(word) for word in words]
    if not any(scripts):
        return explanation
    joins = [
        left[1] == right[0] and word[:1] not in LEADING_VOWELS
        for (left, right), word in zip(pairwise(explanation.spans), words[1:], strict=True)
    ]  # whether a word may join the one before
    must_join = [False] + [
        may and script is not None and (word[:1] in FOLLOWING or ASAT in word)
        for may, script, word in zip(joins, scripts, words[1:], strict=False)
    ]
    units = _associated_characters(words, scripts, joins, must_join, ngrams.tables[0])
    starts = _unit_starts(words, units, scripts, joins, must_join)
    ends = [*starts[1:], len(words)]
    spans: list[Span] = [
        (explanation.spans[start][0], explanation.spans[end - 1][1])
        for start, end in zip(starts, ends, strict=True)
    ]
    weights, parts = explanation.weights, explanation.parts
    return replace(
        explanation,
        spans=spans,
        contributions=np.add.reduceat(explanation.contributions, starts, axis=1),
        weights=None if weights is None else np.add.reduceat(weights, starts, axis=1),
        parts=None
        if parts is None
        else {name: np.add.reduceat(part, starts, axis=1) for name, part in parts.items()},
    )


def _associated_characters(
    words: Sequence[str],
    scripts: Sequence[Script | None],
    joins: Sequence[bool],
    must_join: Sequence[bool],
    table: NgramTable,
) -> list[int | None]:
    """Return the start index of each character's group in an explanation, or None if ungrouped."""
    ngrams = hash_ngrams([word.lower() for word in words], table.spec)
    idf = table.idf_steps(ngrams.keys).tolist()
    step = float(table.idf_step.item())
    candidates = []
    for number in np.flatnonzero(ngrams.width > 1).tolist():
        first, width = int(ngrams.first[number]), int(ngrams.width[number])
        inside = scripts[first : first + width]
        if not all(inside) or "katakana" in inside or not all(joins[first : first + width - 1]):
            continue
        if must_join[first]:
            continue
        association = (sum(idf[first : first + width]) - idf[number]) * step / (width - 1) - 1
        if idf[number] and association > 0:
            candidates.append((-association, first, width))
    units: list[int | None] = [None] * len(words)
    for _, first, width in sorted(candidates):
        if all(unit is None for unit in units[first : first + width]):
            units[first : first + width] = [first] * width
    return units


def _unit_starts(
    words: Sequence[str],
    units: Sequence[int | None],
    scripts: Sequence[Script | None],
    joins: Sequence[bool],
    must_join: Sequence[bool],
) -> list[int]:
    """Return the start index of each character group in an explained text."""
    starts = [0]
    for t in range(1, len(units)):
        in_unit = units[t] is not None and units[t] == units[t - 1]
        in_run = units[t] is None and scripts[t] == scripts[t - 1] in ("letters", "katakana")
        after_vowel = starts[-1] == t - 1 and words[t - 1] in LEADING_VOWELS and bool(scripts[t])
        fits = t - starts[-1] < MAX_CHARACTERS
        may_join = in_unit or (fits and (in_run or after_vowel))
        if not (must_join[t] or (joins[t - 1] and may_join)):
            starts.append(t)
    return starts
