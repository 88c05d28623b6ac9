"""Word shading shared by all views: text segments, strengths of the shades, strongest words.

Shapes: T words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lamatext.data.tokenizer import Span
from lamatext.explain.contributions import Floats
from lamatext.explain.explanation import Explanation

AROUND = 6  # words that are shown on each side of a strong one in a long text
WEAKEST = 0.05  # words with a smaller share of the largest contribution are not listed


class StrongWord(NamedTuple):
    """Distinct word of a text with its total contribution to a class."""

    word: str
    occurrences: int
    contribution: float


def strongest_words(
    explanation: Explanation, column: int, *, limit: int
) -> tuple[list[StrongWord], list[StrongWord]]:
    """List the words that most support and most oppose a class, strongest first.

    Repeated words, in upper or lower case, are added up; weak words are left out.
    """
    totals: dict[str, StrongWord] = {}
    for word, value in zip(explanation.words, explanation.relative[column].tolist(), strict=True):
        if word:
            known = totals.get(word.casefold(), StrongWord(word, 0, 0.0))
            totals[word.casefold()] = StrongWord(
                known.word, known.occurrences + 1, known.contribution + value
            )
    order = sorted(totals.values(), key=lambda one: -one.contribution)
    least = WEAKEST * max((abs(one.contribution) for one in order), default=0.0)
    supporting = [one for one in order if one.contribution > least]
    opposing = [one for one in reversed(order) if one.contribution < -least]
    return supporting[:limit], opposing[:limit]


def reasons(explanation: Explanation, *, limit: int) -> list[tuple[str, list[StrongWord]]]:
    """List the strongest words for and against each label of an explanation.

    Returns:
        Pairs of a title and words. The titles are ``for`` and ``against``, followed by the label if
        a text may have several.
    """
    pairs = []
    for column in explanation.columns(None):
        label = "" if explanation.thresholds is None else f" {explanation.labels[column]}"
        sides = strongest_words(explanation, column, limit=limit)
        pairs += [(f"for{label}", sides[0]), (f"against{label}", sides[1])]
    return [(title, words) for title, words in pairs if words]


def segments(text: str, spans: Sequence[Span]) -> Iterator[tuple[int | None, str]]:
    """Split a text into words to shade, each with its index, and the unshaded text between them."""
    at = 0
    for t, (start, end) in enumerate(spans):
        if start > at:
            yield None, text[at:start]
        yield t, text[max(at, start) : end]
        at = max(at, end)
    if at < len(text):
        yield None, text[at:]


def excerpt_segments(
    explanation: Explanation, scores: Floats, *, words: int
) -> Iterator[tuple[int | None, str]]:
    """Shorten a long text to excerpts around its strongest words, for word shading."""
    text, spans, end = explanation.text, explanation.spans, 0
    for number, places in enumerate(strongest_ranges(scores, words=words)):
        whole = len(places) == len(spans)
        start = 0 if whole else spans[places.start][0]
        end = len(text) if whole else spans[places.stop - 1][1]
        if number or start:
            yield None, " … " if number else "… "
        shifted = [
            (first - start, last - start) for first, last in spans[places.start : places.stop]
        ]
        for t, characters in segments(text[start:end], shifted):
            yield None if t is None else places.start + t, characters
    if end < len(text):
        yield None, " …"


def strongest_ranges(scores: Floats, *, words: int) -> list[range]:
    """Return the ranges of words to keep when shortening a text for word shading."""
    if len(scores) <= words:
        return [range(len(scores))]
    chosen = np.zeros(len(scores), dtype=bool)
    for t in np.argsort(-np.abs(scores), kind="stable"):
        chosen[max(t - AROUND, 0) : t + AROUND + 1] = True
        if chosen.sum() >= words:
            break
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [range(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def attention_scale(weights: Floats) -> float:
    """Return the attention weight that corresponds to the strongest word shading.

    It is the largest of the weights (T,), but at least 3 / T, so that uniform weights stay
    pale.
    """
    return float(max(weights.max(), min(3 / len(weights), 1)))


def contribution_scale(contributions: Floats) -> float:
    """Return the largest absolute contribution (at least 0.05), for scaling the word shading."""
    return float(max(np.abs(contributions).max(), 0.05))


def contribution_strength(explanation: Explanation, column: int) -> Floats:
    """Scale each word's contribution to a shading strength between −1 and 1."""
    relative = explanation.relative
    strength: Floats = relative[column] / contribution_scale(relative)
    return strength


def missing_attention(explanation: Explanation) -> str:
    """Return a note about a text without a word that the network knows, or an empty string."""
    if explanation.weights is None or explanation.weights.any():
        return ""
    return "The network knows none of the words in this text: there is no attention to show."


def missing_words(explanation: Explanation) -> str:
    """Return a note about a text without words to shade, or an empty string for other texts."""
    if explanation.is_empty:
        return "The text is empty: its prediction is not based on any word."
    has_known_words = any(explanation.words) and bool(explanation.contributions.any())
    if has_known_words:
        return ""
    return "The model knows none of the words in this text: its prediction does not depend on them."
