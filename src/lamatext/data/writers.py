"""Writers of result tables: CSV, TSV, JSONL or Parquet, batch by batch."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from lamatext.atomic_write import replace_atomically
from lamatext.errors import ConfigError

FORMATS = ("csv", "tsv", "jsonl", "parquet")

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def open_writer(path: Path | None, stdout_format: str = "csv") -> Iterator[Write]:
    """Open a CSV, TSV, JSONL or Parquet writer, yielding a function that writes one batch.

    The file extension chooses the format; without a path, the batches are written to stdout.
    """
    if path is None:
        with _writer(sys.stdout.buffer, stdout_format) as write:
            yield write
        return
    check_writable(path)
    with (
        replace_atomically(path) as temporary,
        temporary.open("wb") as file,
        _writer(file, _extension(path)) as write,
    ):
        yield write


def check_writable(path: Path) -> None:
    """Raise ConfigError if there is no writer for the file extension or the path is a folder."""
    if _extension(path) not in FORMATS:
        name = path.suffix or "a file without extension"
        raise ConfigError(f"{path}: cannot write {name}. Use .csv, .tsv, .jsonl or .parquet.")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file in it.")


def _extension(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


@contextmanager
def _writer(file: IO[bytes], format: str) -> Iterator[Write]:
    arrow_writer: Any = None  # created by the first batch, which has the columns

    def write(batch: pa.RecordBatch) -> None:
        nonlocal arrow_writer
        if format == "jsonl":
            for row in batch.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        else:
            arrow_writer = arrow_writer or _arrow_writer(file, format, batch.schema)
            arrow_writer.write_batch(batch)
        file.flush()

    yield write
    if arrow_writer is not None:
        arrow_writer.close()


def _arrow_writer(file: IO[bytes], format: str, schema: pa.Schema) -> Any:
    from pyarrow import csv, parquet  # only when needed: predicting one text starts faster

    if format == "parquet":
        return parquet.ParquetWriter(file, schema)
    options = csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
    return csv.CSVWriter(file, schema, write_options=options)
