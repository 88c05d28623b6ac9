"""Formatting shared by all views: escaping, control characters, numbers and units."""

import html
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lamatext.errors import percent, plural

if TYPE_CHECKING:  # the command line formats its messages without loading numpy
    from datetime import date as Date

    from lamatext.explain.explanation import Explanation

REPLACEMENT = 0xFFFD
WHITE_SPACE = "\t\n\r"
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
NGRAMS_ALONE = (
    "The model decides by its n-grams alone: its network has weight 0, so attention has no effect."
)
_ENDS_IN_NUMBER = re.compile(r"(^|\s)[-+−]?[\d.]*\d\s?%?$")
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class _VisibleCharacters(dict[int, int]):
    """Translation table for ``str.translate`` that makes control characters visible.

    Each character is mapped to one character, so that spans in the text stay valid.
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
    """Replace control characters with visible symbols, without changing the text's length."""
    return text.translate(_VISIBLE)


def escaped(value: object) -> str:
    """Escape a value for HTML content and attributes, and make control characters visible."""
    return html.escape(visible(str(value)), quote=True)


def one_line(text: str) -> str:
    """Format a text as a single line without control characters or text-direction marks."""
    return text.translate(_ONE_LINE)


def terminal_text(text: object) -> str:
    """Format a text for the terminal, with control characters other than line breaks visible.

    No character of the result can move the cursor, change colours or reorder the text.
    """
    lines = str(text).replace("\r\n", "\n").split("\n")
    return "\n".join(map(one_line, lines))


def signed(value: float) -> str:
    """Format a contribution with an explicit sign, such as ``+0.31`` or ``−0.04``."""
    return f"{value:+.2f}".replace("-", "−")


def share(value: float) -> str:
    """Format a weight or probability to three decimals, or one significant digit if it is small."""
    return f"{value:.3f}" if value >= 0.0095 or not value else f"{value:.1g}"


def probability(value: float) -> str:
    """Format a probability for display, such as ``77.4 %``, ``< 0.1 %`` or ``> 99.9 %``.

    A model is never certain: its 0 and 1 are rounded.
    """
    if value < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if value >= 0.9995 else percent(value)


def points(difference: float) -> str:
    """Format a difference of two fractions in percentage points, such as ``+1.2`` or ``−0.4``."""
    text = f"{100 * difference:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def duration(seconds: float) -> str:
    """Format a duration, such as ``0.4 s``, ``48 s`` or ``12 min``."""
    if seconds >= 600:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds:,.{0 if seconds >= 10 else 1}f} s"


def day(date: "Date") -> str:
    """Format a date independently of the locale, such as ``16 November 2026``."""
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def file_size(count: float) -> str:
    """Format a number of bytes as a file size, such as ``2.9 MB`` or ``12.0 kB``."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def parted(shares: Mapping[str, float]) -> str:
    """Format the contribution of each model part, such as ``n-grams +1.20, network +0.80``."""
    return ", ".join(f"{name} {signed(value)}" for name, value in sorted(shares.items()))


def summed(explanation: "Explanation", column: int) -> str:
    """Format the score of a class as a sum of word contributions and a constant.

    For a single-label model, the numbers are relative to the mean over classes. For a multi-label
    model they are not, and the label is named:

    ``film: all words +2.00 (n-grams +1.20, network +0.80); constant −0.10; score +1.90``
    """
    name = "" if explanation.thresholds is None else f"{explanation.labels[column]}: "
    parts = parted(explanation.shares(explanation.labels[column]))
    words = float(explanation.relative[column].sum())
    base = float(explanation.relative_base[column])
    return (
        f"{name}all words {signed(words)}{f' ({parts})' if parts else ''}; "
        f"constant {signed(base)}; score {signed(words + base)}"
    )


def accuracy_comparison(own: tuple[str, float], other: tuple[str, float], texts: int) -> str:
    """Return a sentence that compares the accuracy of two models on the same texts.

    A difference smaller than 1.96 standard errors is described as possibly due to chance.
    """
    (ahead, high), (behind, low) = (own, other) if own[1] >= other[1] else (other, own)
    gap = high - low
    if not gap:
        return f"{own[0]} and {other[0]} are equally accurate."
    error = 1.96 * math.sqrt(2 * own[1] * (1 - own[1]) / texts)
    chance = f"; with {plural(texts, 'text')}, this difference can be due to chance"
    return f"{ahead} is ahead of {behind} by {100 * gap:.1f} points{chance if gap < error else ''}."


def label_names(labels: Iterable[str]) -> str:
    """Format the labels of a text as a sorted list, or as ``(no label)`` if it has none."""
    return ", ".join(map(listed_label, sorted(labels))) or "(no label)"


def listed_label(label: str) -> str:
    """Format a label for a list or before a number, with quotes if it could be misread there.

    These are labels with commas, with spaces at their ends, and numbers such as ``3`` or ``Q 3``.
    """
    is_clear = label == label.strip() and label and "," not in label
    return label if is_clear and not _ENDS_IN_NUMBER.search(label) else repr(label)
