"""Formatting shared by all views: escaping, control characters, numbers and units."""

import html
import math
from collections.abc import Mapping

from lamatext.explain.explanation import Explanation

REPLACEMENT = 0xFFFD
WHITE_SPACE = "\t\n\r"
DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class _VisibleCharacters(dict[int, int]):
    """Table for ``str.translate`` that formats control characters as visible signs.

    It maps one character to one character, so that spans stay valid.
    """

    def __missing__(self, code: int) -> int:
        sign = code
        if code < 0x20 and chr(code) not in WHITE_SPACE:
            sign = 0x2400 + code  # its picture: ␀ ␛
        elif code == 0x7F:
            sign = 0x2421
        elif 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
            sign = REPLACEMENT  # C1 controls, lone surrogates, noncharacters
        self[code] = sign
        return sign


_VISIBLE = _VisibleCharacters()
_ONE_LINE = _VisibleCharacters({ord(c): ord(" ") for c in "\t\n\r\x0b\x0c\u2028\u2029"})
_ONE_LINE.update({ord(c): REPLACEMENT for c in DIRECTIONS})


def visible(text: str) -> str:
    """Replace control characters by visible signs; the length stays the same."""
    return text.translate(_VISIBLE)


def escaped(value: object) -> str:
    """Escape a text or a label for HTML and its attributes; control characters become visible."""
    return html.escape(visible(str(value)), quote=True)


def one_line(text: str) -> str:
    """Format a text for one terminal line: no line breaks, control or direction characters."""
    return text.translate(_ONE_LINE)


def signed(value: float) -> str:
    """Format a contribution with its sign: ``+0.312``, ``−0.040``."""
    return f"{value:+.3f}".replace("-", "−")


def share(value: float) -> str:
    """Format a weight or a probability: ``0.312``; small ones never round to zero: ``0.00004``."""
    return f"{value:.3f}" if value >= 0.0095 or not value else f"{value:.1g}"


def percent(value: float, digits: int = 1) -> str:
    """Format a fraction as a percentage: ``77.4 %``."""
    return f"{100 * value:.{digits}f} %"


def file_size(count: float) -> str:
    """Format a number of bytes: ``2.9 MB``, ``12.0 kB``."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Format a number with its noun: ``1 text``, ``2 texts``."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"


def parted(shares: Mapping[str, float]) -> str:
    """Format the shares of a model's parts: ``n-grams +1.200, network +0.800``."""
    return ", ".join(f"{name} {signed(value)}" for name, value in sorted(shares.items()))


def summed(explanation: Explanation, column: int) -> str:
    """Format how the score of a class adds up, relative to the mean of all classes.

    ``all words +2.000: of this, n-grams +1.200, network +0.800; apart from the words −0.100;
    score +1.900``
    """
    parts = parted(explanation.shares(explanation.labels[column]))
    words = float(explanation.relative[column].sum())
    base = float(explanation.relative_base[column])
    return (
        f"all words {signed(words)}{f': of this, {parts}' if parts else ''}; "
        f"apart from the words {signed(base)}; score {signed(words + base)}"
    )


def wilson_interval(fraction: float, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval that is shown with a fraction of ``count`` texts."""
    z = 1.96
    middle = (fraction + z * z / (2 * count)) / (1 + z * z / count)
    variance = fraction * (1 - fraction) / count + z * z / (4 * count**2)
    half = z * math.sqrt(variance) / (1 + z * z / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def accuracy_comparison(own: tuple[str, float], other: tuple[str, float], texts: int) -> str:
    """Format the comparison of two (model, accuracy) pairs on ``texts`` texts as a sentence.

    A difference smaller than 1.96 standard errors is said to be possibly chance.
    """
    (ahead, high), (behind, low) = (own, other) if own[1] >= other[1] else (other, own)
    gap = high - low
    if not gap:
        return f"{own[0]} and {other[0]} are equally accurate."
    error = 1.96 * math.sqrt(2 * own[1] * (1 - own[1]) / texts)
    chance = f"; with {texts:,} test texts so small a difference can be chance"
    return f"{ahead} is ahead of {behind} by {100 * gap:.1f} points{chance if gap < error else ''}."
