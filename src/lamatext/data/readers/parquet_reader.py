"""Parquet reader: row groups of a Parquet file as table batches of strings."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lamatext.data.readers.input_files import (
    decompressed_suffix,
    missing_file_error,
    read_chunks,
    source_name,
)
from lamatext.data.readers.table import Table, string_batch
from lamatext.errors import DataError

_BATCH_ROWS = 8192


def parquet_table(source: str) -> Table:
    """Open a Parquet file as a table that is read in batches.

    From stdin or a compressed file, the whole content is read into memory.
    """
    name, path = source_name(source), Path(source)
    is_stream = source == "-" or decompressed_suffix(path) != path.suffix.lower()
    try:
        content = pa.BufferReader(b"".join(read_chunks(source))) if is_stream else source
        file = pq.ParquetFile(content)
    except FileNotFoundError:
        raise missing_file_error(source) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{name}: not a readable Parquet file ({error}).") from error

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or file.schema_arrow.names)
        try:
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                yield string_batch(batch.select(names), name, allow_lists=wanted is None)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{name}: the file is damaged ({error}). Write it again.") from error

    return Table(name, tuple(file.schema_arrow.names), batches)
