"""Parquet reader: row groups of a Parquet file as table batches of strings."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lamatext.data.readers.input_files import (
    MAX_RECORD,
    decompressed_suffix,
    missing_file_error,
    read_chunks,
    source_name,
)
from lamatext.data.readers.table import Table, string_batch
from lamatext.errors import DataError

_BATCH_ROWS = 8192
_BATCH_BYTES = 1 << 26
MAX_STREAM = 1 << 30  # bytes of a Parquet file from stdin or in a compressed file


def parquet_table(source: str, max_record: int = MAX_RECORD) -> Table:
    """Open a Parquet file as a table that is read in batches.

    From stdin or a compressed file, the whole content is copied to a temporary file first.
    """
    name, path = source_name(source), Path(source)
    is_stream = (
        source == "-"
        or decompressed_suffix(path) != path.suffix.lower()
        or (path.exists() and not path.is_file())
    )
    with _named_errors(name, "not a readable Parquet file ({}).", source=source):
        file = pq.ParquetFile(_copy_to_disk(source) if is_stream else pa.OSFile(source))
        columns = tuple(file.schema_arrow.names)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with _named_errors(name, "the file is damaged ({}). Write it again."):
            first_row = 0
            for batch in _read_groups(file, wanted):
                strings = string_batch(
                    batch,
                    name,
                    allow_lists=wanted is None,
                    first_row=first_row,
                    max_record=max_record,
                )
                first_row += len(batch)
                yield strings

    return Table(name, columns, batches)


def _read_groups(file: pq.ParquetFile, wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file in batches of a bounded number of rows and, on average, of bytes.

    All columns are read by position, because several may have the same name.
    """
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        row_bytes = max(metadata.total_byte_size, 1) / max(metadata.num_rows, 1)
        rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / row_bytes)))
        columns = None if wanted is None else list(wanted)
        for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
            yield batch if columns is None else batch.select(columns)


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


def _copy_to_disk(source: str) -> pa.NativeFile:
    """Copy a Parquet stream to a temporary file, which can be read in any order."""
    length = 0
    with tempfile.NamedTemporaryFile() as file:
        for chunk in read_chunks(source):
            length += len(chunk)
            if length > MAX_STREAM:
                raise DataError(
                    f"{source_name(source)}: Parquet from stdin or in a compressed file may have "
                    f"{MAX_STREAM >> 30} GiB, got more. Save it as a plain .parquet file."
                )
            file.write(chunk)
        file.flush()
        return pa.OSFile(file.name)  # stays readable after the name is deleted
