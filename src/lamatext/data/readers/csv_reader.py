"""CSV and TSV reader: all columns as strings, quoted line ends, errors with line numbers."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.csv as pacsv

from lamatext.data.readers.input_files import MAX_RECORD, Block
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

_QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')  # a complete quoted field


def csv_table(
    name: str,
    blocks: Iterator[Block],
    *,
    delimiter: str | None = None,
    quoted: bool = True,
    columns: tuple[str, ...] | None = None,
    max_record: int = MAX_RECORD,
) -> Table:
    """Open a CSV file as a table, reading the header immediately and the rows on demand.

    Args:
        name: the name of the file, for messages.
        blocks: the file in blocks of whole lines.
        delimiter: None is the most frequent of comma, semicolon and tab in the header.
        quoted: whether a field may be in double quotes.
        columns: the column names; None reads them from the header.
        max_record: the longest row, in bytes.
    """
    first = next(blocks, None)
    if first is None or not first.data.strip():
        raise DataError(f"{name}: the file is empty. Expected a header line and rows.")
    if b"\n" not in first.data and b"\r" in first.data:
        raise DataError(
            f"{name}: the lines end with CR alone, expected LF or CR LF. "
            "Convert it: tr '\\r' '\\n'."
        )
    delimiter = delimiter or _detect_delimiter(first.data)
    rows: Iterator[Block] = chain([first], blocks)
    if quoted:
        rows = _complete_rows(name, rows, delimiter.encode(), max_record)
    parser = _Parser(name, delimiter, quoted=quoted)
    if columns is None:
        columns, body = parser.header(next(rows))
        rows = chain([body], rows)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in rows:
            if block.data.strip():
                yield from parser.parse(block, columns, wanted).to_batches()

    return Table(name, columns, batches)


def _detect_delimiter(head: bytes) -> str:
    line = head.partition(b"\n")[0].decode()
    return max(",;\t", key=line.count)


def _complete_rows(
    name: str, blocks: Iterator[Block], delimiter: bytes, max_record: int
) -> Iterator[Block]:
    """Regroup blocks of a CSV file so that each one ends at the end of a row.

    A quoted field may contain line ends, so a block of whole lines may end inside a row.
    """
    data, line = b"", 1
    pending = bytearray()  # not yet searched for the end of a row
    for block in blocks:
        pending += block.data
        if len(pending) < len(data) and len(data) + len(pending) <= max_record:
            continue  # search again when the row is twice as long: linear time for a long row
        data += pending
        pending.clear()
        end = _row_end(data, delimiter)
        if end:
            yield Block(data[:end], line)
            line += data.count(b"\n", 0, end)
            data = data[end:]
        if len(data) > max_record:
            raise DataError(
                f"{name}:{line}: a row longer than {max_record / 1e6:g} MB. Close its quote, or "
                "allow longer rows with --max-record."
            )
    data += pending
    if data and _row_end(data + b"\n", delimiter) <= len(data):
        raise DataError(
            f"{name}:{line}: a quote is opened in this row and not closed. Close it; "
            'a quote inside a quoted field is written "".'
        )
    if data:
        yield Block(data, line)


def _row_end(data: bytes, delimiter: bytes) -> int:
    """Return the position after the last complete CSV row in the data, or 0 if there is none.

    The row ends at the last line end outside quotes.
    As in pyarrow, a quote opens a field only at its start and is a plain character elsewhere.
    """
    opens_after = delimiter + b"\r\n"
    at = end = 0
    while (quote := data.find(b'"', at)) >= 0:
        end = data.rfind(b"\n", at, quote) + 1 or end
        at = quote + 1
        if quote == 0 or data[quote - 1] in opens_after:
            field = _QUOTED.match(data, quote)
            if field is None:
                return end
            at = field.end()
    return data.rfind(b"\n", at) + 1 or end


class _Parser:
    """CSV parser based on pyarrow, with line numbers in its error messages."""

    def __init__(self, name: str, delimiter: str, *, quoted: bool) -> None:
        self._name = name
        self._invalid_rows: list[pacsv.InvalidRow] = []
        self._options = pacsv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if quoted else False,
            newlines_in_values=quoted,
            invalid_row_handler=self._reject,
        )

    def header(self, block: Block) -> tuple[tuple[str, ...], Block]:
        """Parse the CSV header; return the column names and the bytes that follow the header."""
        head, end = b"", 0
        delimiter = self._options.delimiter.encode()
        while not head.strip() or not _row_end(head, delimiter):
            end = block.data.find(b"\n", end) + 1 or len(block.data)
            head = block.data[:end]
            if end == len(block.data):
                break
        names = self.parse(Block(head, block.line), None, None).schema.names
        return tuple(names), Block(block.data[end:], block.line + head.count(b"\n"))

    def parse(
        self, block: Block, columns: Sequence[str] | None, wanted: Sequence[str] | None
    ) -> pa.Table:
        """Parse a block of CSV rows into a table of all columns or only the ``wanted`` ones."""
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
        return "error"

    def _parse_error(self, error: pa.ArrowInvalid, block: Block) -> DataError:
        if not self._invalid_rows:
            return DataError(f"{self._name}:{block.line}: cannot be read as a table ({error}).")
        row = self._invalid_rows[0]
        at = block.data.find(row.text.encode())
        line = block.line + block.data.count(b"\n", 0, max(at, 0))
        return DataError(
            f"{self._name}:{line}: expected {row.expected_columns} fields as in the header, "
            f"got {row.actual_columns}: {row.text[:60]!r}. "
            "Put a field that holds the delimiter in double quotes."
        )
