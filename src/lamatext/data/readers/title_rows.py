"""Title rows above the header of a CSV file or an Excel sheet, such as the name of a report."""

from collections.abc import Collection, Sequence
from statistics import median
from typing import NamedTuple

from lamatext.data.column_detection import is_known_name
from lamatext.data.readers.csv_reader import (
    Dialect,
    csv_rows,
    is_header,
    regularity,
    sample_dialect,
    sample_lines,
)
from lamatext.data.readers.input_files import Block
from lamatext.data.readers.read_log import ReadLog
from lamatext.errors import DataError

FIRST_ROWS = 20  # in which the header is expected
_REGULAR = 0.9  # share of the rows from the header on that have as many fields
_FEW_ROWS = 10  # below the header; with fewer, a row of texts may look like a title


def header_position(values: Sequence[int]) -> int:
    """Return the position of the header among the first rows of a table that are not blank.

    The rows above it are titles, which have far fewer values than most rows.

    Args:
        values: the number of cells with a value, for each row.
    """
    usual = median(values)
    fewest = min(usual, max(2, usual / 2))
    return next(row for row, count in enumerate(values) if count >= fewest)


def note_header(log: ReadLog, number: int) -> None:
    """Add a note to the log that there are title rows above the header, which has this number."""
    log.notes.append(f"the header is in {log.unit} {number}; {log.unit}s above it are not read")


def skip_titles(
    block: Block, separators: str, names: Collection[str], log: ReadLog, *, expects_header: bool
) -> Block | None:
    """Return the first block of a CSV file without title rows, or None if it has none.

    Args:
        block: the first lines of the file.
        separators: the possible separators.
        names: columns that the file should have.
        log: receives a note on the title rows.
        expects_header: whether the file should have a header.

    Raises:
        DataError: if the first row looks like a title, but the row below is not clearly a header.
    """
    header = _find_header(block, separators)
    if header is None or any(is_known_name(title) or title in names for title in header.titles):
        return None
    start = len("".join(sample_lines(block)[0][: header.lines_above]).encode())
    line = block.line + block.data.count(b"\n", 0, start)
    is_clear = not set(names).isdisjoint(header.cells) or is_header(header.cells, header.rows)
    if is_clear:
        note_header(log, line)
        return Block(block.data[start:], line)
    if is_clear is None and expects_header and len(header.rows) >= _FEW_ROWS:
        raise DataError(
            f"{log.name}: {header.titles[0][:60]!r} looks like a title, and the header seems to be "
            f"in line {line}. Delete the lines above it."
        )
    return None


class _Header(NamedTuple):
    """Row of a CSV file that has far more values than the rows above it."""

    regular: float  # share of the rows from here on that have as many fields
    fields: int
    dialect: Dialect
    lines_above: int
    titles: list[str]  # values of the rows above
    cells: list[str]
    rows: list[list[str]]  # that follow, with as many fields


def _find_header(block: Block, separators: str) -> _Header | None:
    lines, is_cut = sample_lines(block)
    headers = [_header_with(Dialect(one, '"'), lines, is_cut) for one in separators]
    found = [header for header in headers if header is not None]
    if found:
        detected = sample_dialect(block, separators)
        if regularity(lines, detected, is_cut)[0] > 0.5:  # most rows are like the first one
            found = [header for header in found if header.dialect == detected]
    return max(found, default=None, key=lambda header: (header.regular, header.fields))


def _header_with(dialect: Dialect, lines: Sequence[str], is_cut: bool) -> _Header | None:
    rows = [(above, row) for above, row in csv_rows(lines, dialect, is_cut) if any(_values(row))]
    if not rows:
        return None
    position = header_position([len(_values(row)) for _, row in rows[:FIRST_ROWS]])
    lines_above, cells = rows[position]
    regular, fields = regularity(lines[lines_above:], dialect, is_cut)
    if position == 0 or fields < 2 or regular < _REGULAR:
        return None
    titles = [value for _, row in rows[:position] for value in _values(row)]
    below = [row for _, row in rows[position + 1 :] if len(row) == fields]
    return _Header(regular, fields, dialect, lines_above, titles, cells, below)


def _values(row: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]
