"""What the terminal, the page and the notebook share: safe characters, shades, figures.

Shapes: T words.
"""

import html
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lamatext.data.tokenizer import Span
from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation

REPLACEMENT = 0xFFFD
KEPT = "\t\n\r"
DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class _Visible(dict[int, int]):
    """A table for ``str.translate``, one character for one, so that spans stay right."""

    def __missing__(self, code: int) -> int:
        shown = code
        if code < 0x20 and chr(code) not in KEPT:
            shown = 0x2400 + code  # its picture: ␀ ␛
        elif code == 0x7F:
            shown = 0x2421
        elif 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
            shown = REPLACEMENT  # C1 controls, lone surrogates, noncharacters
        self[code] = shown
        return shown


_VISIBLE = _Visible()
_ONE_LINE = _Visible({ord(c): ord(" ") for c in "\t\n\r\x0b\x0c\u2028\u2029"})
_ONE_LINE.update({ord(c): REPLACEMENT for c in DIRECTIONS})


def visible(text: str) -> str:
    """The text with control characters as signs, of the same length."""
    return text.translate(_VISIBLE)


def escaped(value: object) -> str:
    """A text or a label, safe in HTML and in its attributes, encodable, controls made visible."""
    return html.escape(visible(str(value)), quote=True)


def one_line(text: str) -> str:
    """The same for a terminal's line: white space as blanks, no change of direction."""
    return text.translate(_ONE_LINE)


def segments(text: str, spans: Sequence[Span]) -> Iterator[tuple[int | None, str]]:
    """The text in pieces that join up to it: (number of the word or None, characters)."""
    at = 0
    for t, (start, end) in enumerate(spans):
        if start > at:
            yield None, text[at:start]
        yield t, text[max(at, start) : end]
        at = max(at, end)
    if at < len(text):
        yield None, text[at:]


def attention_scale(weights: Floats) -> float:
    """The weight (T,) that is shaded fully: the largest, unless all are nearly alike."""
    return float(max(weights.max(), min(3 / len(weights), 1)))


def contribution_scale(contributions: Floats) -> float:
    """The contribution that is shaded fully: the text's largest, to whichever class."""
    return float(max(np.abs(contributions).max(), 0.05))


def excerpt(scores: Floats, *, words: int, around: int = 6) -> list[range]:
    """The places around the strongest words, about ``words`` words in all, in reading order."""
    if len(scores) <= words:
        return [range(len(scores))]
    chosen = np.zeros(len(scores), dtype=bool)
    for t in np.argsort(-np.abs(scores), kind="stable"):
        chosen[max(t - around, 0) : t + around + 1] = True
        if chosen.sum() >= words:
            break
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [range(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def parted(shares: Mapping[str, float]) -> str:
    """The shares of a model's parts: ``n-grams +1.200, network +0.800``; "" without."""
    return ", ".join(f"{name} {signed(value)}" for name, value in sorted(shares.items()))


def summed(explanation: Explanation, column: int) -> str:
    """What the score of a class is made of, measured against the mean of all classes.

    ``all words +2.000: of this, n-grams +1.200, network +0.800; apart from the words −0.100;
    score +1.900``
    """
    told = parted(explanation.shares(explanation.labels[column]))
    words = float(explanation.relative[column].sum())
    base = float(explanation.relative_base[column])
    return (
        f"all words {signed(words)}{f': of this, {told}' if told else ''}; "
        f"apart from the words {signed(base)}; score {signed(words + base)}"
    )


def signed(value: float) -> str:
    """A contribution: ``+0.312``, ``−0.040``."""
    return f"{value:+.3f}".replace("-", "−")


def share(value: float) -> str:
    """A weight or a probability: ``0.312``, and no zero that is not one: ``0.00004``."""
    return f"{value:.3f}" if value >= 0.0095 or not value else f"{value:.1g}"
