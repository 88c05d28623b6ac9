"""Parquet reader: row groups of a Parquet file as table batches of strings."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lamatext.data.read_options import MAX_RECORD, source_name
from lamatext.data.readers.input_files import (
    decompressed_suffix,
    missing_file_error,
    read_chunks,
    record_too_long,
)
from lamatext.data.readers.parquet_pages import (
    DELTA_BYTE_ARRAY,
    ColumnChunk,
    Page,
    column_chunks,
    read_pages,
)
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table, check_types, string_batch
from lamatext.errors import DataError

_BATCH_ROWS = 8192
_BATCH_BYTES = 1 << 26
_PAGE_RECORDS = 4  # a data page may be this many times as large as the longest record
MAX_ITEMS = 1 << 26  # of the lists in a column of a row group
MAX_PAGES = 1 << 18  # of a column of a row group
MAX_DEPTH = 10  # of structs whose fields are columns
MAX_STREAM = 1 << 30  # bytes of a Parquet file from stdin or in a compressed file


def parquet_table(source: str, max_record: int = MAX_RECORD, log: ReadLog | None = None) -> Table:
    """Open a Parquet file as a table that is read in batches.

    The fields of a struct are columns of their own, named by their dotted path: ``ticket.body``.

    From stdin or a compressed file, the whole content is copied to a temporary file first.
    """
    name = source_name(source)
    message = (
        "not a readable Parquet file ({}). Write it again, or give a file of another format its "
        "own ending, such as .csv or .jsonl."
    )
    with _named_errors(name, message, source=source):
        content = open_binary(source)
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
    """Read a Parquet file in batches with a limited number of rows and bytes.

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
    chunks = column_chunks(content)
    if any(len(group) != len(file.schema) for group in chunks) or len(chunks) < file.num_row_groups:
        raise OSError("its row groups do not have all columns")
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        pages = [
            page
            for column, chunk in _chosen(file, chunks[group], columns)
            for page in _checked_pages(content, column, chunk, group, limits)
        ]
        row_bytes = max(
            metadata.total_byte_size / max(metadata.num_rows, 1),
            *(page.size for page in pages if page.encoding == DELTA_BYTE_ARRAY),
            _longest_dictionary_value(encoded, group, columns)
            if any(page.is_dictionary for page in pages)
            else 0,
            1,
        )
        rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / row_bytes)))
        for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
            yield batch if columns is None else batch.select(columns)


def _chosen(
    file: pq.ParquetFile, chunks: Sequence[ColumnChunk], columns: Sequence[str] | None
) -> Iterator[tuple[pq.ColumnSchema, ColumnChunk]]:
    """Yield the wanted columns of a Parquet row group with their positions in the file."""
    for number, chunk in enumerate(chunks):
        column = file.schema.column(number)
        if columns is None or any(f"{column.path}.".startswith(f"{name}.") for name in columns):
            yield column, chunk


def _checked_pages(
    content: pa.NativeFile,
    column: pq.ColumnSchema,
    chunk: ColumnChunk,
    group: int,
    limits: tuple[str, int],
) -> list[Page]:
    """Return the page headers of a Parquet column chunk; raise DataError if they exceed a limit."""
    source, max_record = limits
    where = f"{source}: column '{column.path}', row group {group + 1}"
    pages = list(islice(read_pages(content, chunk), MAX_PAGES + 1))
    is_list = column.max_repetition_level > 0
    items = sum(page.values for page in pages if not page.is_dictionary) if is_list else 0
    if items > MAX_ITEMS or len(pages) > MAX_PAGES:
        raise DataError(
            f"{where}: more than {MAX_ITEMS:,} items of lists or {MAX_PAGES:,} pages. Write the "
            "file with smaller row groups."
        )
    for page in pages:
        limit = (1 if page.is_dictionary else _PAGE_RECORDS) * max(max_record, MAX_RECORD)
        if page.size > max_record * max(page.values, 1):
            raise record_too_long(where, max_record)
        if page.size > limit:
            raise DataError(
                f"{where}: a page of {page.size / 1e6:,.0f} MB, at most {limit / 1e6:,.0f} MB are "
                "read. Write the file with smaller pages, or allow longer records with "
                "--max-record."
            )
    return pages


def _flatten(table: pa.Table) -> pa.Table:
    """Flatten the structs of a Parquet table into columns that are named by dotted paths."""
    for _ in range(MAX_DEPTH):
        if not any(pa.types.is_struct(field.type) for field in table.schema):
            break
        table = table.flatten()
    return table


def _top_level(file: pq.ParquetFile, wanted: Sequence[str]) -> list[str]:
    """Return the top-level Parquet columns that contain the wanted columns."""
    names = file.schema_arrow.names
    containing = (
        [name for name in names if f"{column}.".startswith(f"{name}.")] for column in wanted
    )
    return list(dict.fromkeys(max(found, key=len) for found in containing))


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
    """Return the size in bytes of the longest dictionary value in a Parquet row group.

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


@contextmanager
def _named_errors(name: str, message: str, *, source: str | None = None) -> Iterator[None]:
    """Re-raise errors from pyarrow's Parquet reader as a DataError that names the file."""
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


def open_binary(source: str) -> pa.NativeFile:
    """Open a Parquet or Excel file; copy stdin or a compressed file to a temporary file first."""
    path = Path(source)
    is_stream = (
        source == "-"
        or decompressed_suffix(path) != path.suffix.lower()
        or (path.exists() and not path.is_file())
    )
    file = _copy_to_disk(source) if is_stream else pa.OSFile(source)
    if not file.size():
        raise DataError(f"{source_name(source)}: the file is empty. Expected a header and rows.")
    return file


def _copy_to_disk(source: str) -> pa.NativeFile:
    """Copy a Parquet or Excel stream to a temporary file that allows random access."""
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
