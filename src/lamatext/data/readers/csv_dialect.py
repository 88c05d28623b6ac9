"""CSV dialects: detection of the separator, the quotes and a missing header by the first rows."""

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from lamatext.data.column_detection import is_known_name
from lamatext.errors import DataError

SEPARATORS = ",;\t|"
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_SAMPLE_ROWS = 200
_CLEAR = 0.05  # other quotes than " must make this share of rows more regular,
_REGULAR = 0.98  # and nearly all of them
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")
_LONG_CELL = 100  # characters; no column name is as long


class Dialect(NamedTuple):
    """CSV dialect with a separator and a quote character, which is empty if fields are unquoted."""

    separator: str
    quote: str


def parse_separator(separator: str) -> str:
    """Parse a CSV separator that the user requested, such as ``;`` or ``tab``."""
    character = _NAMED.get(separator.lower(), separator)
    if len(character) != 1 or not character.isascii() or character in '"\r\n':
        raise DataError(
            f"--separator {separator}: expected one ASCII character other than a quote, or tab."
        )
    return character


def detect_dialect(sample: str, *, is_cut: bool, separators: str = SEPARATORS) -> Dialect:
    """Detect the CSV dialect that gives most rows the same number of fields.

    Double quotes are assumed unless other quotes make the rows clearly more regular.

    Args:
        sample: the first lines of the file.
        is_cut: whether the file goes on after the sample, so that its last row may be incomplete.
        separators: the characters to try, the preferred one first.
    """
    lines = sample.splitlines(keepends=True)
    by_quote = {}
    for quote in ('"', "", "'"):
        scored = [
            (*regularity(lines, Dialect(separator, quote), is_cut), -rank, separator)
            for rank, separator in enumerate(separators)
        ]
        by_quote[quote] = max(scored)
    best = '"'
    for quote in ("", "'"):
        regular = by_quote[quote][0]
        if regular > by_quote[best][0] + _CLEAR and regular >= _REGULAR:
            best = quote
    return Dialect(by_quote[best][-1], best)


def regularity(lines: Sequence[str], dialect: Dialect, is_cut: bool) -> tuple[float, int]:
    """Return the share of CSV rows with as many fields as the first row, and this number."""
    reader = csv.reader(
        lines,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    widths: list[int] = []
    try:
        for row in reader:
            if row:
                widths.append(len(row))
            if len(widths) > _SAMPLE_ROWS:
                break
    except csv.Error:  # a field that is too long: its quote is never closed
        is_cut = True
    if is_cut and len(widths) > 1:
        widths.pop()
    if not widths or widths[0] < 2:
        return 0.0, 1
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def lacks_header(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> bool:
    """Return whether the first row of a CSV file holds data instead of column names.

    That is the case if a cell of it is a number in a column of numbers, occurs again in a column
    of repeated values, or is longer than any name.

    Args:
        names: the cells of the first row.
        rows: the rows that follow.
    """
    if not rows or any(map(is_known_name, names)):
        return False
    if any(len(name) > _LONG_CELL for name in names):
        return True
    for position, name in enumerate(names):
        values = [row[position] or "" for row in rows]
        if _NUMBER.fullmatch(name) and all(map(_NUMBER.fullmatch, values)):
            return True
        is_repeated = len(rows) >= 4 and 2 * len(set(values)) <= len(values)
        if is_repeated and name.strip() and name in values:
            return True
    return False
