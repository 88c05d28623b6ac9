"""Parquet reader: row groups of a Parquet file as table batches of strings."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lamatext.data.read_options import MAX_RECORD
from lamatext.data.readers.input_files import (
    decompressed_suffix,
    missing_file_error,
    read_chunks,
    record_too_long,
    source_name,
)
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table, check_types, string_batch
from lamatext.errors import DataError

_BATCH_ROWS = 8192
_BATCH_BYTES = 1 << 26
_PAGE_RECORDS = 4  # a data page may be so many times as large as the longest record
MAX_ITEMS = 1 << 26  # of the lists in a column of a row group
MAX_PAGES = 1 << 18  # of a column of a row group
MAX_DEPTH = 10  # of structs whose fields are columns
MAX_STREAM = 1 << 30  # bytes of a Parquet file from stdin or in a compressed file


def parquet_table(source: str, max_record: int = MAX_RECORD, log: ReadLog | None = None) -> Table:
    """Open a Parquet file as a table that is read in batches.

    The fields of a struct are columns of their own, named by their dotted path: ``ticket.body``.

    From stdin or a compressed file, the whole content is copied to a temporary file first.
    """
    name, path = source_name(source), Path(source)
    is_stream = (
        source == "-"
        or decompressed_suffix(path) != path.suffix.lower()
        or (path.exists() and not path.is_file())
    )
    with _named_errors(name, "not a readable Parquet file ({}).", source=source):
        content = copy_to_disk(source) if is_stream else pa.OSFile(source)
        file = pq.ParquetFile(content)
        columns = tuple(_flatten(file.schema_arrow.empty_table()).schema.names)

    def flat_batches(wanted: Sequence[str] | None) -> Iterator[tuple[pa.RecordBatch, int]]:
        with _named_errors(name, "the file is damaged ({}). Write it again."):
            first_row = 0
            for batch in _read_groups(content, file, wanted, (name, max_record)):
                flat = _flatten(pa.Table.from_batches([batch])).combine_chunks()
                yield (
                    (flat if wanted is None else flat.select(list(wanted))).to_batches()[0],
                    first_row,
                )
                first_row += len(batch)
            if first_row != file.metadata.num_rows:
                raise DataError(
                    f"{name}: the file is damaged (it has {first_row:,} of "
                    f"{file.metadata.num_rows:,} rows). Write it again."
                )

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for batch, row in flat_batches(wanted):
            yield string_batch(
                batch, name, as_json=wanted is None, first_row=row, max_record=max_record
            )

    def typed_batches(format: str) -> Iterator[pa.RecordBatch] | None:
        return map(checked, flat_batches(None)) if format in ("parquet", "jsonl") else None

    def checked(numbered: tuple[pa.RecordBatch, int]) -> pa.RecordBatch:
        batch, row = numbered
        check_types(batch, name, row, max_record)
        return batch.replace_schema_metadata()

    return Table(name, columns, batches, log or ReadLog(name), typed_batches)


def _read_groups(
    content: pa.NativeFile,
    file: pq.ParquetFile,
    wanted: Sequence[str] | None,
    limits: tuple[str, int],
) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file in batches of a bounded number of rows and bytes.

    All columns are read by position, because several may have the same name. ``limits`` are the
    name of the file, for messages, and the longest record in bytes.
    """
    columns = None if wanted is None else _top_level(file, wanted)
    encoded = pq.ParquetFile(
        content,
        read_dictionary=_string_columns(file, columns),
        pre_buffer=False,  # only the first pages are read
        buffer_size=1 << 16,
    )
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        pages = _check_pages(content, file, group, columns, limits)
        row_bytes = max(
            metadata.total_byte_size / max(metadata.num_rows, 1),
            *(page.size for page in pages if page.encoding == _DELTA_BYTE_ARRAY),
            _longest_dictionary_value(encoded, group, columns)
            if any(page.is_dictionary for page in pages)
            else 0,
            1,
        )
        rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / row_bytes)))
        for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
            yield batch if columns is None else batch.select(columns)


def _flatten(table: pa.Table) -> pa.Table:
    """Replace the structs of a Parquet table with their fields, named by dotted paths."""
    for _ in range(MAX_DEPTH):
        if not any(pa.types.is_struct(field.type) for field in table.schema):
            break
        table = table.flatten()
    return table


def _top_level(file: pq.ParquetFile, wanted: Sequence[str]) -> list[str]:
    """Return the top-level Parquet columns that hold the wanted columns."""
    names = file.schema_arrow.names
    return list(
        dict.fromkeys(
            next(n for n in names if n == column or column.startswith(f"{n}.")) for column in wanted
        )
    )


def _string_columns(file: pq.ParquetFile, columns: Sequence[str] | None) -> list[str]:
    return [
        field.name
        for field in file.schema_arrow
        if (columns is None or field.name in columns)
        and (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
    ]


def _longest_dictionary_value(
    encoded: pq.ParquetFile, group: int, columns: Sequence[str] | None
) -> int:
    """Return the length of the longest value in the dictionaries of a Parquet row group, in bytes.

    A dictionary stores a long value once, however many rows repeat it, so the size of the row group
    does not bound the size of its rows.
    """
    first_row = next(encoded.iter_batches(1, row_groups=[group], columns=columns), None)
    arrays = [] if first_row is None else first_row.columns
    dictionaries = [array.dictionary for array in arrays if pa.types.is_dictionary(array.type)]
    lengths = [
        pc.max(pc.binary_length(values)).as_py()
        for values in dictionaries
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    ]
    return max((length for length in lengths if length is not None), default=0)


# Page headers: pyarrow decompresses a page as a whole, however large it is.


class _Page(NamedTuple):
    """Header of a Parquet page."""

    size: int  # bytes when decompressed
    values: int
    encoding: int
    is_dictionary: bool


_DELTA_BYTE_ARRAY = 7  # a value repeats a part of the one before, so it may be as long as the page
_INT, _STRUCT = (4, 5, 6), 12  # types of the compact protocol of Thrift
_HEADER_BYTES = 1 << 24  # the longest page header that pyarrow reads


def _check_pages(
    content: pa.NativeFile,
    file: pq.ParquetFile,
    group: int,
    columns: Sequence[str] | None,
    limits: tuple[str, int],
) -> list[_Page]:
    """Return the page headers of a Parquet row group; refuse pages that would fill the memory."""
    metadata, pages, (source, max_record) = file.metadata.row_group(group), [], limits
    for number in range(metadata.num_columns):
        chunk = metadata.column(number)
        name = chunk.path_in_schema
        if columns is not None and not any(name == c or name.startswith(f"{c}.") for c in columns):
            continue
        is_list = file.schema.column(number).max_repetition_level > 0
        where = f"{source}: column '{name}', row group {group + 1}"
        own = list(islice(_page_headers(content, chunk), MAX_PAGES + 1))
        items = sum(page.values for page in own if not page.is_dictionary) if is_list else 0
        if items > MAX_ITEMS or len(own) > MAX_PAGES:
            raise DataError(
                f"{where}: more than {MAX_ITEMS:,} items of lists or {MAX_PAGES:,} pages. Write "
                "the file with smaller row groups."
            )
        for page in own:
            records = 1 if page.is_dictionary else _PAGE_RECORDS
            limit = records * max(max_record, MAX_RECORD)
            if page.size > max_record * max(page.values, 1):
                raise record_too_long(where, max_record)
            if page.size > limit:
                raise DataError(
                    f"{where}: a page of {page.size / 1e6:,.0f} MB, at most {limit / 1e6:,.0f} MB "
                    "are read. Write the file with smaller pages, or allow longer records with "
                    "--max-record."
                )
        pages += own
    return pages


def _page_headers(content: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[_Page]:
    """Read the page headers of a Parquet column chunk, as far as pyarrow would read its pages."""
    start, values = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < start:
        start = chunk.dictionary_page_offset
    end = start + chunk.total_compressed_size
    while start < end and values < chunk.num_values:
        header, length = _page_header(content, start, end)
        kind = header.get(5) or header.get(7) or header.get(8) or {}  # version 1, dictionary, 2
        page = _Page(
            size=header.get(2, 0),
            values=kind.get(1, 0),
            encoding=kind.get(4 if 8 in header else 2, 0),
            is_dictionary=7 in header,
        )
        yield page
        values += 0 if page.is_dictionary else page.values
        if header.get(3, -1) < 0:
            raise OSError("a page has no size")
        start += length + header[3]


def _page_header(content: pa.NativeFile, start: int, end: int) -> tuple[dict[int, Any], int]:
    """Parse the Parquet page header at a position; return its fields by number, and its length."""
    size = 1024
    while True:
        data = content.read_at(min(size, end - start), start)
        try:
            return _thrift_struct(data, 0)
        except IndexError:
            if len(data) < size or size >= _HEADER_BYTES:
                raise OSError("a page header is incomplete") from None
        size *= 16


def _thrift_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Parse the integers and structs in a Thrift struct of a Parquet page header."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        kind = head & 15
        if kind in _INT:
            fields[number], at = _zigzag(data, at)
        elif kind == _STRUCT and depth < MAX_DEPTH:
            fields[number], at = _thrift_struct(data, at, depth + 1)
        elif kind == 8:  # bytes
            length, at = _varint(data, at)
            at += length
        elif kind in (3, 7):  # a byte, a double
            at += 1 if kind == 3 else 8
        elif kind not in (1, 2):  # true, false
            raise OSError("a page header has an unknown field")
    return fields, at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise OSError("a page header has too long a number")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


@contextmanager
def _named_errors(name: str, message: str, *, source: str | None = None) -> Iterator[None]:
    """Turn the errors of pyarrow's Parquet reader into a DataError."""
    try:
        yield
    except FileNotFoundError:
        raise missing_file_error(source or name) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: holds a column name that is not UTF-8. Rename the column."
        ) from error
    except (pa.ArrowException, OSError, KeyError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{name}: {message.format(reason)}") from error


def copy_to_disk(source: str) -> pa.NativeFile:
    """Copy a Parquet or Excel stream to a temporary file, which can be read in any order."""
    length = 0
    with tempfile.NamedTemporaryFile() as file:
        for chunk in read_chunks(source):
            length += len(chunk)
            if length > MAX_STREAM:
                raise DataError(
                    f"{source_name(source)}: a binary file from stdin or in a compressed file may "
                    f"have {MAX_STREAM >> 30} GiB, got more. Save it as a plain .parquet file."
                )
            file.write(chunk)
        file.flush()
        return pa.OSFile(file.name)  # stays readable after the name is deleted
