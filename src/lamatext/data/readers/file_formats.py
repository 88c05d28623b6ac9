"""A file, or stdin, as a table of string columns: finds the format and its reader."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lamatext.data.readers.compression import missing, plain_suffix, read_all, read_blocks, shown
from lamatext.data.readers.csv_reader import Dialect, delimited_table
from lamatext.data.readers.jsonl_reader import (
    LABEL_PREFIX,
    fasttext_table,
    jsonl_table,
    plain_table,
)
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

FORMATS = ("csv", "tsv", "jsonl", "parquet", "fasttext", "lines")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".ft": "fasttext",
}  # fmt: skip
_SNIFFED = {"", ".txt", ".text", ".data", ".train", ".test", ".valid"}
_ROWS = 8192  # rows of a Parquet batch


def file_table(source: str, format: str | None = None) -> Table:
    """The table in a file, or on stdin for ``-``; its name or content tells the format."""
    name = shown(source)
    kind = _format(source, format)
    if kind == "parquet":
        return _parquet_table(source)
    blocks = read_blocks(source)
    if kind is None:
        first = next(blocks, None)
        if first is None:
            raise DataError(f"{name}: the file is empty. Expected one text or more.")
        kind = _sniff(first.data, by_name=bool(Path(source).suffix))
        blocks = chain([first], blocks)
    match kind:
        case "csv":
            return delimited_table(name, blocks, Dialect())
        case "tsv":
            return delimited_table(name, blocks, Dialect(delimiter="\t"))
        case "jsonl":
            return jsonl_table(name, blocks)
        case "fasttext":
            return fasttext_table(name, blocks)
        case _:
            return plain_table(name, blocks)


def is_table(path: Path) -> bool:
    """Whether the name of the file tells a format that has columns."""
    return plain_suffix(path) in _BY_SUFFIX and path.is_file()


def _format(source: str, given: str | None) -> str | None:
    """The format, or None where the content must tell."""
    if given is not None:
        if given not in FORMATS:
            raise DataError(f"unknown format '{given}'. Known are {', '.join(FORMATS)}.")
        return given
    suffix = "" if source == "-" else plain_suffix(Path(source))
    if suffix in _SNIFFED:
        return None
    if suffix not in _BY_SUFFIX:
        if not Path(source).exists():
            raise missing(source)
        raise DataError(
            f"{shown(source)}: the extension '{suffix}' tells no known format. Say it with "
            f"--format, one of {', '.join(FORMATS)}, or convert the file."
        )
    return _BY_SUFFIX[suffix]


def _sniff(head: bytes, *, by_name: bool) -> str:
    """The format of some first lines; a ``.txt`` is fastText's or plain lines, nothing else."""
    if head.startswith(LABEL_PREFIX.encode()):
        return "fasttext"
    if head.lstrip().startswith(b"{"):
        return "jsonl"
    first = head.partition(b"\n")[0]
    if not by_name and b"\t" in first:
        return "tsv"
    return "csv" if not by_name and b"," in first and b" " not in first else "lines"


def _parquet_table(source: str) -> Table:
    name = shown(source)
    streamed = source == "-" or plain_suffix(Path(source)) != Path(source).suffix.lower()
    try:
        file = pq.ParquetFile(pa.BufferReader(read_all(source)) if streamed else source)
    except FileNotFoundError:
        raise missing(source) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{name}: not a readable Parquet file ({error}).") from error

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or file.schema_arrow.names)
        try:
            for batch in file.iter_batches(_ROWS, columns=names):
                yield as_strings(batch.select(names), name, single=wanted is not None)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"{name}: the file is damaged ({error}). Write it again.") from error

    return Table(name, tuple(file.schema_arrow.names), batches)


def as_strings(batch: pa.RecordBatch, name: str, *, single: bool) -> pa.RecordBatch:
    """The batch with every column as strings; lists are refused where values must be ``single``."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_nested(field.type):
            if single:
                raise DataError(
                    f"{name}: column '{field.name}' holds {field.type}, expected one value a row; "
                    "multi-label is not supported. Keep one label a row."
                )
            columns.append(_as_json(column))
        else:
            columns.append(_as_string(column, field, name))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _as_string(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{name}: column '{field.name}' of type {field.type} cannot be read as text."
        ) from error


def _as_json(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array(
        [None if v is None else json.dumps(v, ensure_ascii=False, default=str) for v in values],
        pa.string(),
    )
