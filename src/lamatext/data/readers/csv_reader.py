"""CSV and TSV as tables: every column a string, quoted newlines, a line number for every fault."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.csv as pacsv

from lamatext.data.readers.compression import Block
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

LONGEST_ROW = 1 << 26  # bytes; beyond this an opened quote was surely never closed

_QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')  # a whole quoted field


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a delimited file is written."""

    delimiter: str | None = None  # None: comma, semicolon or tab, whichever the header has most of
    quoted: bool = True
    names: tuple[str, ...] | None = None  # None: the first line has them


def delimited_table(name: str, blocks: Iterator[Block], dialect: Dialect) -> Table:
    """A table whose header has been read and whose rows are still to come."""
    first = next(blocks, None)
    if first is None or not first.data.strip():
        raise DataError(f"{name}: the file is empty. Expected a header line and rows.")
    if b"\n" not in first.data and b"\r" in first.data:
        raise DataError(
            f"{name}: the lines end with CR alone, expected LF or CR LF. "
            "Convert it: tr '\\r' '\\n'."
        )
    delimiter = dialect.delimiter or _delimiter(first.data)
    rows: Iterator[Block] = chain([first], blocks)
    if dialect.quoted:
        rows = _whole_rows(name, rows, delimiter.encode())
    parser = _Parser(name, delimiter, quoted=dialect.quoted)
    columns = dialect.names
    if columns is None:
        start = next(rows)
        columns, body = parser.header(start)
        rows = chain([body], rows)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in rows:
            if block.data.strip():
                yield from parser.rows(block, columns, wanted)

    return Table(name, columns, batches)


def _delimiter(head: bytes) -> str:
    line = head.partition(b"\n")[0].decode()
    return max(",;\t", key=line.count)


def _whole_rows(name: str, blocks: Iterator[Block], delimiter: bytes) -> Iterator[Block]:
    """Blocks cut anew so that each ends with a row, for a quoted field may hold line ends."""
    data, line = b"", 1
    for block in blocks:
        data += block.data
        end = _row_end(data, delimiter)
        if end:
            yield Block(data[:end], line)
            line += data.count(b"\n", 0, end)
            data = data[end:]
        if len(data) > LONGEST_ROW:
            break
    if data and _row_end(data + b"\n", delimiter) <= len(data):
        raise DataError(
            f"{name}:{line}: a quote is opened in this row and not closed. Close it; "
            'a quote inside a quoted field is written "".'
        )
    if data:
        yield Block(data, line)


def _row_end(data: bytes, delimiter: bytes) -> int:
    """Where the last whole row ends: after the last line end outside quotes, or 0.

    As in pyarrow, a quote opens only at the start of a field and is a plain character elsewhere.
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
    """pyarrow's CSV parser on one block at a time, with our messages."""

    def __init__(self, name: str, delimiter: str, *, quoted: bool) -> None:
        self._name = name
        self._bad: list[pacsv.InvalidRow] = []
        self._options = pacsv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if quoted else False,
            newlines_in_values=quoted,
            invalid_row_handler=self._refuse,
        )

    def header(self, block: Block) -> tuple[tuple[str, ...], Block]:
        """The column names, and the block without them."""
        head, end = b"", 0
        delimiter = self._options.delimiter.encode()
        while not head.strip() or not _row_end(head, delimiter):
            end = block.data.find(b"\n", end) + 1 or len(block.data)
            head = block.data[:end]
            if end == len(block.data):
                break
        names = self._parse(Block(head, block.line), None, None).schema.names
        return tuple(names), Block(block.data[end:], block.line + head.count(b"\n"))

    def rows(
        self, block: Block, columns: Sequence[str], wanted: Sequence[str] | None
    ) -> list[pa.RecordBatch]:
        """The rows of the block, in the ``wanted`` columns or in all."""
        batches: list[pa.RecordBatch] = self._parse(block, columns, wanted).to_batches()
        return batches

    def _parse(
        self, block: Block, columns: Sequence[str] | None, wanted: Sequence[str] | None
    ) -> pa.Table:
        read = pacsv.ReadOptions(
            block_size=len(block.data) + 1, column_names=columns, use_threads=False
        )
        convert = pacsv.ConvertOptions(
            check_utf8=False,  # done already, and with the line
            column_types={column: pa.string() for column in columns or ()},
            include_columns=list(wanted or ()),
        )
        try:
            return pacsv.read_csv(pa.BufferReader(block.data), read, self._options, convert)
        except pa.ArrowInvalid as error:
            raise self._explained(error, block) from error

    def _refuse(self, row: pacsv.InvalidRow) -> str:
        self._bad.append(row)
        return "error"

    def _explained(self, error: pa.ArrowInvalid, block: Block) -> DataError:
        if not self._bad:
            return DataError(f"{self._name}:{block.line}: cannot be read as a table ({error}).")
        row = self._bad[0]
        at = block.data.find(row.text.encode())
        line = block.line + block.data.count(b"\n", 0, max(at, 0))
        return DataError(
            f"{self._name}:{line}: expected {row.expected_columns} fields as in the header, "
            f"got {row.actual_columns}: {row.text[:60]!r}. "
            "Put a field that holds the delimiter in double quotes."
        )
