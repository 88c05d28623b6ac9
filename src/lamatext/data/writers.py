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

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def open_writer(path: Path | None, format: str | None = None) -> Iterator[Write]:
    """Open a writer of batches in the format of the file extension; ``path`` None is stdout."""
    if path is None:
        with _writer(sys.stdout.buffer, format or "csv") as write:
            yield write
        return
    check_writable(path)
    format = format or _extension(path)
    with (
        replace_atomically(path) as temporary,
        temporary.open("wb") as file,
        _writer(file, format) as write,
    ):
        yield write


def check_writable(path: Path) -> None:
    """Raise ConfigError if no writer has that file extension, or if the path is a folder."""
    if _extension(path) not in _WRITERS:
        name = path.suffix or "a file without extension"
        raise ConfigError(f"{path}: cannot write {name}. Use .csv, .tsv, .jsonl or .parquet.")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file in it.")


def _extension(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


@contextmanager
def _writer(file: IO[bytes], format: str) -> Iterator[Write]:
    opened: list[Any] = []  # by the first batch, which has the columns

    def write(batch: pa.RecordBatch) -> None:
        if not opened:
            opened.append(_WRITERS[format](file, batch.schema))
        opened[0].write_batch(batch)
        file.flush()

    yield write
    if opened:
        opened[0].close()


def _csv(delimiter: str) -> Callable[[IO[bytes], pa.Schema], Any]:
    def make(file: IO[bytes], schema: pa.Schema) -> Any:
        from pyarrow import csv

        options = csv.WriteOptions(delimiter=delimiter)
        return csv.CSVWriter(file, schema, write_options=options)

    return make


def _parquet(file: IO[bytes], schema: pa.Schema) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema)


class _Jsonl:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:  # noqa: ARG002 - the interface of the others
        self._file = file

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        """Leave the JSONL file open: its owner closes it."""


_WRITERS: dict[str, Callable[[IO[bytes], pa.Schema], Any]] = {
    "csv": _csv(","),
    "tsv": _csv("\t"),
    "jsonl": _Jsonl,
    "parquet": _parquet,
}
