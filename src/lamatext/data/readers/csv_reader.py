"""CSV and TSV reader: string columns, line breaks in quoted fields, errors with line numbers.

The dialect (separator and quotes) and a missing header are detected from the first rows.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from lamatext.data.column_detection import is_known_name
from lamatext.data.read_options import MAX_RECORD, Layout
from lamatext.data.readers.input_files import Block
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import MAX_COLUMNS, Table, too_many_columns
from lamatext.errors import DataError, plural

_SAMPLE = 1 << 16  # bytes to detect the dialect
_LINE_END = re.compile(rb"\r\n?|\n")
SEPARATOR_LINE = re.compile(
    rb'\s*"?sep=(?P<separator>[\t!#-&(-/:-@\[-^`{-~])"?\ *(\r?\n|\Z)', re.IGNORECASE
)
OPEN_QUOTE = "a quote is opened in this row and not closed"
SEPARATORS = ",;\t|"
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_SAMPLE_ROWS = 200
_CLEAR = 0.05  # quotes other than " must make this additional share of the rows regular,
_REGULAR = 0.98  # and at least this share in total
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")
_WORD = re.compile(r"\w+")
_LONG_CELL = 100  # characters; no column name is as long
_FEW_LINES = 10  # with fewer, a separator that training did not use may just be in the texts


class Dialect(NamedTuple):
    """CSV dialect: the separator and the quote character, which is empty if fields are unquoted."""

    separator: str
    quote: str


def csv_table(  # noqa: PLR0913 - the file and how it is written
    name: str,
    blocks: Iterator[Block],
    *,
    dialect: Dialect,
    columns: tuple[str, ...] | None = None,
    has_header: bool | None = None,
    expects_header: bool = True,
    max_record: int = MAX_RECORD,
    log: ReadLog | None = None,
) -> Table:
    """Open a CSV file as a table, reading the header immediately and the rows on demand.

    Args:
        name: the name of the file, for messages.
        blocks: the file in blocks of whole lines.
        dialect: the separator and the quotes.
        columns: the column names; None reads them from the header.
        has_header: whether the first row has the column names; None detects it.
        expects_header: whether to assume a header if detection finds no evidence.
        max_record: the longest row, in bytes.
        log: receives the dialect and the bad rows; by default a bad row is an error.
    """
    log = log or ReadLog(name)
    first = first_rows(blocks)
    if first is None:
        raise DataError(f"{name}: the file is empty. Expected a header line and rows.")
    log.separator, log.quote = dialect
    rows: Iterator[Block] = chain([first], blocks)
    if dialect.quote:
        rows = _complete_rows(rows, dialect, max_record, log)
    parser = _Parser(dialect, log)
    if columns is None:
        block = next(rows, first)
        if has_header is None:
            has_header = _detect_header(parser, block, default=expects_header)
        columns, body = _columns_and_body(parser, block, has_header, log)
        rows = chain([body], rows)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in rows:
            if block.data.strip():
                yield parser.parse(block, columns, wanted)

    return Table(name, columns, batches, log)


def _columns_and_body(
    parser: "_Parser", block: Block, has_header: bool, log: ReadLog
) -> tuple[tuple[str, ...], Block]:
    """Return the column names of a CSV file and its first block without the header, if any."""
    columns, body = parser.header(block)
    if has_header:
        return columns, body
    columns = _numbered_columns(columns)
    log.header = False
    log.notes.append(f"the first row is data, not a header: the columns are {', '.join(columns)}")
    start, _ = _header_span(block.data, parser.dialect)  # after blank lines
    return columns, Block(block.data[start:], block.line + block.data.count(b"\n", 0, start))


def first_rows(blocks: Iterator[Block]) -> Block | None:
    """Return the first block of a CSV file that is not blank, or None if there is none."""
    return next((block for block in blocks if block.data.strip()), None)


def read_separator_line(blocks: Iterator[Block]) -> tuple[str | None, Iterator[Block]]:
    """Return the separator that a CSV file names for Excel in its first line, and the other lines.

    Such a line is ``sep=;``. The separator is None if there is no such line.
    """
    first = first_rows(blocks)
    if first is None:
        return None, blocks
    match = SEPARATOR_LINE.match(first.data)
    if match is None:
        return None, chain([first], blocks)
    rest = Block(first.data[match.end() :], first.line + match[0].count(b"\n"))
    return match["separator"].decode(), chain([rest], blocks)


def sample_dialect(block: Block, separators: str = SEPARATORS) -> Dialect:
    """Detect the CSV dialect of a file from its first block of lines."""
    lines, is_cut = sample_lines(block)
    return detect_dialect(lines, is_cut=is_cut, separators=separators)


def sample_lines(block: Block) -> tuple[list[str], bool]:
    """Return the first lines of a CSV file, and whether the last of them may be cut off."""
    lines = split_lines(block.data[:_SAMPLE].decode(errors="ignore"))
    return lines, len(block.data) > _SAMPLE


def remembered_dialect(block: Block, layout: Layout) -> Dialect | None:
    """Return the CSV dialect of the training file, or None if it does not fit the current file.

    It fits if it yields the model's text columns, and if the detected dialect does not make the
    rows more regular. A file without the separator may consist of texts only.
    """
    if layout.separator is None:
        return None
    dialect = Dialect(layout.separator, layout.quote)
    columns = _first_row(block, dialect)
    if not layout.header:
        columns = _numbered_columns(columns)
    lines, is_cut = sample_lines(block)
    regular, detected = (
        regularity(lines, one, is_cut)[0] for one in (dialect, sample_dialect(block))
    )
    is_single = len(columns) == 1 and (layout.header or len(lines) < _FEW_LINES)
    fits = set(layout.text_columns) <= set(columns) and (regular >= detected or is_single)
    return dialect if fits else None


def _first_row(block: Block, dialect: Dialect) -> tuple[str, ...]:
    """Return the cells of the first row in a CSV file, or an empty tuple if it cannot be parsed."""
    try:
        return _Parser(dialect, ReadLog("")).header(block)[0]
    except DataError:
        return ()


def _numbered_columns(cells: Sequence[str]) -> tuple[str, ...]:
    """Return names such as ``column 1`` for the columns of a CSV file without a header."""
    return tuple(f"column {number}" for number in range(1, len(cells) + 1))


def describe_dialect(dialect: Dialect) -> str:
    """Describe the separator and the quotes of a CSV file in a phrase for messages."""
    separator = "tab" if dialect.separator == "\t" else f"'{dialect.separator}'"
    quotes = {'"': "", "'": ", quotes '", "": ", without quotes"}[dialect.quote]
    return f"separator {separator}{quotes}"


def _detect_header(parser: "_Parser", block: Block, *, default: bool) -> bool:
    """Return whether the first row of a CSV file is a header (``default`` without evidence)."""
    columns, body = parser.header(block)
    end = body.data.rfind(b"\n", 0, _SAMPLE) + 1 or len(body.data)
    sample = Block(body.data[:end], body.line)
    names = [str(number) for number in range(len(columns))]
    rows: list[tuple[str | None, ...]] = []
    if sample.data.strip():
        try:
            batch = _Parser(parser.dialect, ReadLog("", 1.0)).parse(sample, names, None)
        except DataError:
            return default
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    evidence = is_header(columns, rows)
    return default if evidence is None else evidence


@cache
def _quoted_field(quote: str) -> re.Pattern[bytes]:
    q = re.escape(quote.encode())
    return re.compile(rb"%b[^%b]*+(?:%b%b[^%b]*+)*+%b" % (q, q, q, q, q, q))


def _complete_rows(
    blocks: Iterator[Block], dialect: Dialect, max_record: int, log: ReadLog
) -> Iterator[Block]:
    """Regroup blocks of a CSV file so that each block ends at the end of a row.

    A quoted field may contain line ends, so a block of whole lines may end inside a row.
    """
    data, line = b"", 1
    pending = bytearray()  # not yet searched for the end of a row
    for block in blocks:
        if not data and not pending:
            line = block.line
        pending += block.data
        if len(pending) < len(data) and len(data) + len(pending) <= max_record:
            continue  # search again when the row is twice as long: linear time for a long row
        data += pending
        pending.clear()
        if not log.is_strict:
            data = _blank_misquoted_lines(data, line, dialect, log)
        end = _row_end(data, dialect)
        if end:
            yield Block(data[:end], line)
            line += data.count(b"\n", 0, end)
            data = data[end:]
        if len(data) > max_record:
            raise DataError(
                f"{log.name}:{line}: a row longer than {max_record / 1e6:g} MB. Close its quote, "
                "or allow longer rows with --max-record."
            )
    yield from _last_rows(data + pending, line, dialect, log)


def _last_rows(data: bytes, line: int, dialect: Dialect, log: ReadLog) -> Iterator[Block]:
    """Yield the last rows of a CSV file, skipping lines with an unclosed quote."""
    while data and (end := _row_end(data + b"\n", dialect)) <= len(data):
        if end:
            yield Block(data[:end], line)
        line += data.count(b"\n", 0, end)
        log.skip_row(line, OPEN_QUOTE, '. Close it; a quote inside a quoted field is written "".')
        end = data.find(b"\n", end) + 1 or len(data)  # go on after the line with the quote
        data, line = data[end:], line + 1
    if data:
        yield Block(data, line)


def _unquoted_spans(data: bytes, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each span between quoted CSV fields.

    As in pyarrow, a quote opens a field only at its start and is a plain character elsewhere.
    """
    start = at = 0
    for quote, end in _quoted_fields(data, dialect, at):
        yield start, quote
        if end is None:
            return
        start = end
    yield start, len(data)


def _quoted_fields(
    data: bytes, dialect: Dialect, start: int = 0
) -> Iterator[tuple[int, int | None]]:
    """Yield the start and end of each quoted CSV field; the end is None if it is unclosed."""
    if not dialect.quote:
        return
    opens_after = dialect.separator.encode() + b"\r\n"
    quote_byte, pattern = dialect.quote.encode(), _quoted_field(dialect.quote)
    at = start
    while (quote := data.find(quote_byte, at)) >= 0:
        at = quote + 1
        if quote == 0 or data[quote - 1] in opens_after:
            field = pattern.match(data, quote)
            if field is None:
                yield quote, None
                return
            at = field.end()
            yield quote, at


def _row_end(data: bytes, dialect: Dialect) -> int:
    """Return the position after the last line end outside CSV quotes, or 0 if there is none."""
    end = 0
    for start, stop in _unquoted_spans(data, dialect):
        end = data.rfind(b"\n", start, stop) + 1 or end
    return end


def _row_lines(block: Block, dialect: Dialect) -> list[int]:
    """Return the line number of each CSV row in a block, counting only LF as a line end."""
    data, ends = block.data, [0]
    for start, stop in _unquoted_spans(data, dialect):
        ends += [match.end() for match in _LINE_END.finditer(data, start, stop)]
    lines, line = [], block.line
    for start, end in zip(ends, [*ends[1:], len(data)], strict=True):
        row = data[start:end]
        if row.strip(b"\r\n"):
            lines.append(line)
        line += row.count(b"\n")
    return lines


def _blank_misquoted_lines(data: bytes, line: int, dialect: Dialect, log: ReadLog) -> bytes:
    """Blank out CSV lines with an opening quote that is closed only in a later row.

    Such a quote is recognized by a quoted field that contains a line end and is not followed by a
    separator or a line end. Without this check, the rows in between would be lost without a
    message.
    """
    kept, copied, counted = [], 0, 0  # parts to keep; positions in the data
    while (span := _misquoted_span(data, dialect, copied)) is not None:
        quote, line_end = span
        line += data.count(b"\n", counted, quote)
        counted = quote
        log.skip_row(line, OPEN_QUOTE)
        kept.append(data[copied : data.rfind(b"\n", copied, quote) + 1 or copied])
        copied = line_end
    return b"".join([*kept, data[copied:]])


def _misquoted_span(data: bytes, dialect: Dialect, start: int) -> tuple[int, int] | None:
    """Find the first CSV field after ``start`` with a quote that is closed only in a later row."""
    follows = dialect.separator.encode() + b"\r\n"
    for quote, end in _quoted_fields(data, dialect, start):
        if end is None or end == len(data) or data[end] in follows:
            continue
        if (line_end := data.find(b"\n", quote, end)) >= 0:
            return quote, line_end
    return None


def _item(lines: Sequence[int], row: int) -> int:
    """Return the line number of a CSV row for an error message (the last line if out of range)."""
    return lines[min(row, len(lines) - 1)] if lines else 1


class _Parser:
    """CSV parser based on pyarrow, with line numbers in its error messages."""

    def __init__(self, dialect: Dialect, log: ReadLog) -> None:
        self.dialect = dialect
        self._log = log
        self._invalid_rows: list[pacsv.InvalidRow] = []
        self._options = pacsv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote or False,
            newlines_in_values=bool(dialect.quote),
            invalid_row_handler=self._reject,
        )

    def header(self, block: Block) -> tuple[tuple[str, ...], Block]:
        """Parse the CSV header and return the column names and the rest of the block."""
        start, end = _header_span(block.data, self.dialect)
        head = block.data[start:end].rstrip(b"\r\n") + b"\n"
        if head.count(self.dialect.separator.encode()) >= MAX_COLUMNS:
            raise too_many_columns(self._log.name)
        line = block.line + block.data.count(b"\n", 0, start)
        names = self._read(Block(head, line), None, None).schema.names
        return tuple(names), Block(block.data[end:], line + block.data.count(b"\n", start, end))

    def parse(
        self, block: Block, columns: Sequence[str], wanted: Sequence[str] | None
    ) -> pa.RecordBatch:
        """Parse a block of CSV rows into a record batch of the ``wanted`` columns (all if None)."""
        self._invalid_rows.clear()
        batch = self._read(block, columns, wanted).combine_chunks().to_batches()
        rows = batch[0] if batch else pa.RecordBatch.from_pylist([], pa.schema(
            [(name, pa.string()) for name in wanted or columns]))  # fmt: skip
        log = self._log
        if not self._invalid_rows and not log.undecodable:
            lines = cache(partial(_row_lines, block, self.dialect))  # rarely needed
            log.line_of = lambda row: _item(lines(), row)
            return rows
        return self._without_bad_rows(rows, block)

    def _without_bad_rows(self, rows: pa.RecordBatch, block: Block) -> pa.RecordBatch:
        log, lines = self._log, _row_lines(block, self.dialect)
        invalid = {row.number - 1: row for row in self._invalid_rows}
        for number, row in invalid.items():
            expected = plural(row.expected_columns, "field")
            fault = f"expected {expected} as in the header, got a different number"
            log.skip_row(_item(lines, number), fault)
        lines = [line for number, line in enumerate(lines) if number not in invalid]
        ends = [*lines[1:], block.line + block.data.count(b"\n") + 1][: len(lines)]
        is_good = np.ones(len(rows), bool)
        for number, (line, end) in enumerate(zip(lines[: len(rows)], ends, strict=False)):
            if not log.undecodable.isdisjoint(range(line, end)):
                log.skip_undecodable(line)
                is_good[number] = False
        kept = np.flatnonzero(is_good)
        log.line_of = lambda row: _item(lines, int(kept[row]))
        return rows.filter(pa.array(is_good))

    def _read(
        self, block: Block, columns: Sequence[str] | None, wanted: Sequence[str] | None
    ) -> pa.Table:
        read = pacsv.ReadOptions(
            block_size=len(block.data) + 1, column_names=columns, use_threads=False
        )
        convert = pacsv.ConvertOptions(
            check_utf8=False,  # already checked when the block was read
            column_types={column: pa.string() for column in columns or ()},
            include_columns=list(wanted or ()),
        )
        try:
            return pacsv.read_csv(pa.BufferReader(block.data), read, self._options, convert)
        except pa.ArrowInvalid as error:
            raise self._parse_error(error, block) from error

    def _reject(self, row: pacsv.InvalidRow) -> str:
        self._invalid_rows.append(row)
        return "error" if self._log.is_strict else "skip"

    def _parse_error(self, error: pa.ArrowInvalid, block: Block) -> DataError:
        if not self._invalid_rows:
            return DataError(f"{self._log.name}:{block.line}: cannot be read as a table ({error}).")
        row = self._invalid_rows[0]
        line = _item(_row_lines(block, self.dialect), row.number - 1)
        advice = "Put a field that holds the separator in double quotes."
        if row.actual_columns < row.expected_columns:
            advice = "Add the missing fields."
        expected = plural(row.expected_columns, "field")
        return DataError(
            f"{self._log.name}:{line}: expected {expected} as in the header, "
            f"got {row.actual_columns}: {row.text[:60]!r}. {advice}"
        )


def _header_span(data: bytes, dialect: Dialect) -> tuple[int, int]:
    """Return the start and end of the first CSV row that is not blank."""
    first = len(data) - len(data.lstrip())
    row = data.rfind(b"\n", 0, first) + 1
    for start, stop in _unquoted_spans(data, dialect):
        if end := data.find(b"\n", max(start, first), stop) + 1:
            return row, end
    return row, len(data)


def parse_separator(separator: str) -> str:
    """Parse a CSV separator that the user requested, such as ``;`` or ``tab``."""
    character = _NAMED.get(separator.lower(), separator)
    if len(character) != 1 or not character.isascii() or character in '"\r\n':
        raise DataError(
            f"--separator {separator}: expected one ASCII character other than a quote, or tab."
        )
    return character


def detect_dialect(lines: Sequence[str], *, is_cut: bool, separators: str = SEPARATORS) -> Dialect:
    """Detect the CSV dialect that gives most rows the same number of fields.

    Double quotes are assumed unless other quotes make the rows clearly more regular.

    Args:
        lines: the first lines of the file.
        is_cut: whether the file goes on after them, so that the last row may be incomplete.
        separators: the characters to try, the preferred one first.
    """
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


def split_lines(sample: str) -> list[str]:
    """Split a sample of a CSV file at LF and CR, but not at U+2028 as ``str.splitlines`` does."""
    return io.StringIO(sample, newline="").readlines()


def regularity(lines: Sequence[str], dialect: Dialect, is_cut: bool) -> tuple[float, int]:
    """Return the share of CSV rows that have as many fields as the first row, and that number."""
    widths = [len(row) for _, row in csv_rows(lines, dialect, is_cut)]
    if not widths or widths[0] < 2:
        return 0.0, 1
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def csv_rows(lines: Sequence[str], dialect: Dialect, is_cut: bool) -> list[tuple[int, list[str]]]:
    """Return the first rows of a CSV file that are not blank, with the number of lines above each.

    A last row that may be incomplete is left out, unless it is the only one.
    """
    reader = csv.reader(
        lines,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )
    rows: list[tuple[int, list[str]]] = []
    above = 0
    try:
        for row in reader:
            if row:
                rows.append((above, row))
            above = reader.line_num
            if len(rows) > _SAMPLE_ROWS:
                break
    except csv.Error:  # a field that is too long: its quote is never closed
        is_cut = True
    if is_cut and len(rows) > 1:
        rows.pop()
    return rows


def is_header(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> bool | None:
    """Return whether the first row of a CSV file is a header, or None without evidence.

    A row with a typical column name is a header. Otherwise, a row is data if one of its cells is
    too long for a column name or is like the values below it (see ``_is_column_name``). It is a
    header if one of its cells is unlike the values below it, unless another cell shares words with
    the texts below it: then the row may also be data with a rare label.

    Args:
        names: the cells of the first row.
        rows: the rows that follow.
    """
    if any(map(is_known_name, names)):
        return True
    if any(len(name) > _LONG_CELL for name in names):
        return False
    columns = list(zip(*rows, strict=True))
    pairs = list(zip(names, columns, strict=bool(rows)))
    evidence = [_is_column_name(*pair) for pair in pairs]
    if False in evidence:
        return False
    others = [pair for pair, is_name in zip(pairs, evidence, strict=True) if is_name is None]
    return True if True in evidence and not any(_shares_words(*pair) for pair in others) else None


def _is_column_name(name: str, values: Sequence[str | None]) -> bool | None:
    """Return whether the first cell of a CSV column is a name, not a value, or None if unclear.

    It is clear only in a column of numbers, where a value is a number, and in a column of repeated
    values, where a value is one of them.
    """
    if not name.strip():
        return None
    if all(_NUMBER.fullmatch(value or "") for value in values):
        return not _NUMBER.fullmatch(name)
    is_repeated = len(values) >= 4 and 2 * len(set(values)) <= len(values)
    return name not in values if is_repeated else None


def _shares_words(name: str, values: Sequence[str | None]) -> bool:
    """Return whether a cell of the first CSV row shares a word with the cells below it."""
    words = set(_WORD.findall(name.casefold()))
    return any(not words.isdisjoint(_WORD.findall((value or "").casefold())) for value in values)
