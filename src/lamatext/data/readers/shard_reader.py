"""Shard reader: many Parquet or JSONL files with the same columns, read as one table."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.format_detection import file_table
from lamatext.data.readers.input_files import decompressed_suffix
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table
from lamatext.errors import DataError, plural

SUFFIXES = (".parquet", ".pq", ".jsonl", ".ndjson")


def is_glob(source: str) -> bool:
    """Return whether a data source is a glob pattern for shards, such as ``data/*.parquet``."""
    return glob.has_magic(source) and not Path(source).exists()


def glob_files(source: str) -> list[Path]:
    """Return the shard files that match a glob pattern, sorted by name."""
    paths = [Path(name) for name in sorted(glob.glob(source, recursive=True))]  # noqa: PTH207
    files = [path for path in paths if path.is_file()]
    if not files:
        raise DataError(f"{source}: no file matches this pattern. Check the path.")
    return files


def shards_in_folder(folder: Path, split: str) -> list[Path]:
    """List the shard files of the training or test data in a folder.

    They are in the order of their names; subfolders are not searched. If files are named after
    splits (``train-0.parquet``), those of the split are returned; otherwise all are training data.
    """
    files = [path for path in sorted(folder.iterdir()) if _is_shard(path)]
    by_split = [path for path in files if path.name.startswith(f"{split}-")]
    if by_split or split != "train":
        return by_split
    return [path for path in files if not path.name.startswith(("test-", "validation-"))]


def _is_shard(path: Path) -> bool:
    return not path.name.startswith(".") and decompressed_suffix(path) in SUFFIXES


def shards_table(name: str, files: Sequence[Path], options: ReadOptions) -> Table:
    """Open shards as one table, opening each shard only when its rows are read.

    Shards without rows are skipped, with a note. All others need the same columns.
    """
    log = ReadLog(name, options.max_bad_rows)
    used = _used_shards(files, log)
    first = file_table(str(used[0]), options)
    log.format = first.log.format

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return read_shards(list(first.columns if wanted is None else wanted), wanted)

    def read_shards(
        names: list[str], wanted: Sequence[str] | None, format: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        schema = None  # of the first batch, as one output has one schema
        for number, path in enumerate(used):
            shard = file_table(str(path), options) if number else first
            _check_columns(shard, first, used[0])
            for batch in shard.batches(wanted) if format is None else shard.all_batches(format):
                selected = batch.select(names)
                schema = schema or selected.schema
                yield selected if format is None else _with_schema(selected, schema, shard.name)
            log.add_bad_rows(shard.log)

    def typed_batches(format: str) -> Iterator[pa.RecordBatch]:
        return read_shards(list(first.columns), None, format)

    return Table(name, first.columns, batches, log, typed_batches)


def _used_shards(files: Sequence[Path], log: ReadLog) -> list[Path]:
    """Return the shard files that are not empty, or raise DataError if all are empty."""
    used = [path for path in files if not _is_empty(path)]
    for path in files:
        if path not in used:
            log.notes.append(f"{path}: an empty shard, skipped")
    if not used:
        raise DataError(
            f"{log.name}: no rows in {plural(len(files), 'shard')}. Expected one text or more."
        )
    return used


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    try:
        return batch.cast(schema)
    except pa.ArrowException as error:
        raise DataError(
            f"{name}: a column has another type than in the first shard ({error}). Write all "
            "shards with the same types, or write the predictions as CSV."
        ) from error


def _is_empty(path: Path) -> bool:
    if path.stat().st_size == 0:
        return True
    if path.suffix not in (".parquet", ".pq"):
        return False
    try:
        return bool(pq.read_metadata(path).num_rows == 0)
    except (pa.ArrowException, OSError):
        return False  # damaged: its reader says how


def _check_columns(shard: Table, first: Table, first_path: Path) -> None:
    missing = sorted(set(first.columns) - set(shard.columns))
    further = sorted(set(shard.columns) - set(first.columns))
    if missing or further:
        difference = f"has no column {missing[0]!r}" if missing else f"has a column {further[0]!r}"
        raise DataError(
            f"{shard.name}: the shard {difference}, unlike {first_path}. Write all shards with the "
            "same columns."
        )
