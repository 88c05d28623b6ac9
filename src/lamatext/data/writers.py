"""Writers of result tables: CSV, TSV, JSONL or Parquet, batch by batch."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from lamatext.atomic_write import is_special_file, replace_atomically
from lamatext.data.readers.json_columns import json_lines
from lamatext.errors import ConfigError

FORMATS = ("csv", "tsv", "jsonl", "parquet")

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def open_writer(
    path: Path | None, default_format: str = "csv", *, safe_csv: bool = False
) -> Iterator[Write]:
    """Open a CSV, TSV, JSONL or Parquet writer and yield a function that writes a batch.

    The file extension chooses the format; without a path, the batches are written to stdout.

    Args:
        path: the file; None is stdout. A FIFO or a device is written directly.
        default_format: the format of stdout, and of a FIFO or device without extension.
        safe_csv: whether to put a single quote before cells that a spreadsheet would run as
            formulas.
    """
    format = default_format if path is None else output_format(path, default_format)
    if safe_csv:
        check_safe_csv(format)
    if path is None:
        with _writer(sys.stdout.buffer, format, safe_csv) as write:
            yield write
        return
    with (
        replace_atomically(path) as temporary,
        temporary.open("wb") as file,
        _writer(file, format, safe_csv) as write,
    ):
        yield write


def check_safe_csv(format: str) -> None:
    """Raise ConfigError if ``--safe-csv`` is used with a writer other than CSV or TSV."""
    if format not in ("csv", "tsv"):
        raise ConfigError(f"--safe-csv: expected CSV or TSV output, got {format}. Leave it out.")


def output_format(path: Path, default: str = "csv") -> str:
    """Return the format of the writer for a file, chosen by the file extension.

    Raises:
        ConfigError: if no writer has that file extension, or if the path is a folder.
    """
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder. Name a file in it.")
    format = path.suffix.lower().removeprefix(".")
    is_special = is_special_file(path)
    if is_special and not format:
        format = default
    if format not in FORMATS:
        name = path.suffix or "a file without extension"
        raise ConfigError(f"{path}: cannot write {name}. Use .csv, .tsv, .jsonl or .parquet.")
    if is_special and format == "parquet":
        raise ConfigError(f"{path}: Parquet cannot be written to a pipe or device. Name a file.")
    return format


@contextmanager
def _writer(file: IO[bytes], format: str, safe_csv: bool) -> Iterator[Write]:
    arrow_writer: Any = None  # created by the first batch, which has the columns

    def write(batch: pa.RecordBatch) -> None:
        nonlocal arrow_writer
        if format == "jsonl":
            for line in json_lines(batch):
                file.write(line.encode() + b"\n")
        else:
            if safe_csv:
                batch = _without_formulas(batch)
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


_FORMULA = r"^[=+\-@\t\r]"


def _without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put a single quote before cells and column names that spreadsheets could run as formulas."""
    from pyarrow import compute

    columns = [
        compute.replace_substring_regex(column, pattern=f"({_FORMULA})", replacement=r"'\1")
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    names = [f"'{name}" if re.match(_FORMULA, name) else name for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=names)
