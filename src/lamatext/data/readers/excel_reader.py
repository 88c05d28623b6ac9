"""Excel reader: the rows of one sheet of an .xlsx workbook as table batches of strings."""

import datetime
import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import IO, Any
from xml.parsers.expat import (  # nosec B407 # only counts tags, before openpyxl parses them
    ExpatError,
    ParserCreate,
)

import pyarrow as pa

from lamatext.data.read_options import MAX_RECORD, source_name
from lamatext.data.readers.input_files import missing_file_error, record_too_long
from lamatext.data.readers.parquet_reader import open_binary
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table
from lamatext.data.readers.title_rows import FIRST_ROWS, header_position, note_header
from lamatext.errors import DataError, require

_BATCH_ROWS = 4096
MAX_UNPACKED = 1 << 28  # bytes of the files in the workbook
MAX_TAGS = 10_000_000  # in these files; a cell has up to four
TAGS_PER_BYTE = 10  # of the compressed file, apart from _FREE_TAGS; worksheets have about one
_FREE_TAGS = 500_000
MAX_DEPTH = 100  # of nested tags; a worksheet has about six
MAX_EMPTY_ROWS = 100_000  # between two rows with values
MAX_COLUMNS = 1 << 14  # as in Excel
_FREE_CELLS = 2_000_000  # cells allowed in any case, plus one for each byte of the unpacked files

Cells = list[str | None]


def excel_table(source: str, max_record: int = MAX_RECORD, log: ReadLog | None = None) -> Table:
    """Open an Excel workbook as a table, reading the first sheet that looks like one.

    The first row that is neither empty nor a title has the column names. Numbers, dates and
    booleans are converted to text; a formula is read as the value that Excel computed last.
    """
    openpyxl = require("openpyxl", extra="excel", purpose="reading an Excel file")
    name = source_name(source)
    log = log or ReadLog(name)
    log.unit = "row"  # as Excel numbers them
    workbook, unpacked = _open_workbook(openpyxl, source, name)
    rows = _sheet_rows(workbook, unpacked, name, max_record, log)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{name}: no sheet has rows. Expected a header row and rows.")
    header_row, header = first
    columns = tuple(cell or f"column {number}" for number, cell in enumerate(header, start=1))

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(columns if wanted is None else wanted)
        positions = range(len(columns)) if wanted is None else [columns.index(n) for n in names]
        while batch := list(islice(rows, _BATCH_ROWS)):
            log.line_of = [number for number, _ in batch].__getitem__
            cells = [
                pa.array([row[i] if i < len(row) else None for _, row in batch], pa.string())
                for i in positions
            ]
            yield pa.RecordBatch.from_arrays(cells, names=names)

    if header_row > 1:
        note_header(log, header_row)
    return Table(name, columns, batches, log)


def _open_workbook(openpyxl: Any, source: str, name: str) -> tuple[Any, int]:
    try:
        content = open_binary(source)
        unpacked = _unpacked_size(content, name)
        content.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that do not matter here
            return openpyxl.load_workbook(content, read_only=True, data_only=True), unpacked
    except FileNotFoundError:
        raise missing_file_error(source) from None
    except DataError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged part leads to
        raise _damaged(name, error) from error


def _unpacked_size(content: Any, name: str) -> int:
    """Return the total uncompressed size of the files in an Excel workbook.

    Raises:
        DataError: they are too large for memory or have too many tags.
        ValueError: their tags are too deeply nested.
    """
    with zipfile.ZipFile(content) as archive:
        unpacked = sum(file.file_size for file in archive.infolist())
        tags = 0
        if unpacked <= MAX_UNPACKED:
            for file in archive.infolist():
                with archive.open(file) as part:
                    tags += _count_tags(part)
    content.seek(0, io.SEEK_END)
    most_tags = min(MAX_TAGS, _FREE_TAGS + TAGS_PER_BYTE * content.tell())
    if unpacked > MAX_UNPACKED or tags > most_tags:
        raise DataError(
            f"{name}: too large for an Excel file, it unpacks to more than {MAX_UNPACKED >> 20} MB "
            f"or {most_tags:,} tags. Save the data as CSV."
        )
    return unpacked


def _count_tags(part: IO[bytes]) -> int:
    """Count the XML tags in a part of an Excel workbook; raise ValueError if they nest too deep."""
    parser, depth, tags = ParserCreate(), 0, 0

    def start(_: str, __: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"tags are nested more than {MAX_DEPTH} deep")

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = start, end
    is_xml = True
    while chunk := part.read(1 << 16):
        tags += chunk.count(b"<")
        if is_xml and tags <= MAX_TAGS:
            try:
                parser.Parse(chunk)
            except ExpatError:  # an image, or damaged, which openpyxl reports
                is_xml = False
    return tags


def _sheet_rows(
    workbook: Any, unpacked: int, name: str, max_record: int, log: ReadLog
) -> Iterator[tuple[int, Cells]]:
    """Choose a sheet of an Excel workbook and yield the number and the cells of each row.

    It is the first sheet whose rows look like a table or, if there is none, the first sheet that is
    not empty.
    """
    sheets = workbook.worksheets
    title, rows = None, iter(list[tuple[int, Cells]]())
    try:
        for sheet in sheets:
            sheet.reset_dimensions()  # may be wrong in files of other programs
            all_rows = _rows(sheet, _FREE_CELLS + unpacked, name, max_record)
            first = list(islice(all_rows, FIRST_ROWS))
            if first and (title is None or _is_table(first)):
                title, rows = sheet.title, chain(_without_titles(first), all_rows)
            if _is_table(first):
                break
        if title is not None and len(sheets) > 1:
            log.sheet = (
                f"read from the sheet '{title}', the first of {len(sheets)} that is a table; to "
                "read another one, move it to the front or save it as a file of its own"
            )
            log.notes.append(log.sheet)
        yield from rows
    except DataError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged part leads to
        raise _damaged(name, error) from error


def _is_table(first: Sequence[tuple[int, Cells]]) -> bool:
    """Return whether the first rows of an Excel sheet look like a table instead of notes."""
    return len(first) == FIRST_ROWS or sum(len(cells) > 1 for _, cells in first) > 1


def _without_titles(first: Sequence[tuple[int, Cells]]) -> Iterator[tuple[int, Cells]]:
    """Skip the title rows above the header of an Excel sheet."""
    values = [sum(cell is not None for cell in cells) for _, cells in first]
    return iter(first[header_position(values) :])


def _rows(sheet: Any, max_cells: int, name: str, max_record: int) -> Iterator[tuple[int, Cells]]:
    last = 0  # row with values
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        max_cells -= len(row)
        if (
            number - last > MAX_EMPTY_ROWS or max_cells < 0
        ):  # openpyxl fills gaps with empty rows and cells
            raise DataError(f"{name}: most of its cells are empty. Save the data as CSV.")
        cells = [_as_text(value) for value in row[:MAX_COLUMNS]]
        while cells and cells[-1] is None:
            cells.pop()
        if sum(len(cell) for cell in cells if cell) > max_record:
            raise record_too_long(f"{name}, row {number}", max_record)
        if cells:
            last = number
            yield number, cells


def _as_text(value: object) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return str(value).encode("utf-8", "replace").decode()


def _damaged(name: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:100] or type(error).__name__
    return DataError(
        f"{name}: not a readable .xlsx workbook ({reason}). Save it again, or save it as CSV."
    )
