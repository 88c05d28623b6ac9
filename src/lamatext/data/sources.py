"""Data sources: loading a file, a folder, stdin, a named dataset or a Hugging Face Hub dataset."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lamatext.data.dataset import Dataset
from lamatext.data.named_datasets import CATALOG, find_entry, has_test_set, load_named_dataset
from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.folder_reader import (
    folder_has_split,
    folder_table,
    glob_files,
    is_glob,
    shards_table,
)
from lamatext.data.readers.format_detection import file_table
from lamatext.data.readers.hub_reader import PREFIX, hub_splits, hub_table
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import DEFAULTS, Table
from lamatext.errors import DataError

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def load_dataset(source: str, options: ReadOptions = DEFAULTS, *, split: str = "train") -> Dataset:
    """Load the texts and labels of a data source, such as a file, a folder or a named dataset.

    Args:
        source: a file, a folder, a pattern of files such as ``data/*.parquet``, ``-`` for stdin,
            a named dataset, or ``hf:OWNER/NAME``.
        options: columns, format and encoding; whatever is not given is detected.
        split: ``train`` or ``test``.
    """
    is_plain = not (options.text_columns or options.label_columns or options.label_separator)
    if is_plain and _is_named_dataset(source):
        return load_named_dataset(source, split)
    return open_table(source, options, split=split).to_dataset(options, source=source)


def open_table(source: str, options: ReadOptions = DEFAULTS, *, split: str = "train") -> Table:
    """Open a data source, such as a file, a folder or a named dataset, as a table."""
    if source.startswith(PREFIX):
        return hub_table(source, split, ReadLog(source, options.max_bad_rows))
    if _is_named_dataset(source):
        return _named_dataset_table(source, split)
    if source != "-" and Path(source).is_dir():
        return folder_table(Path(source), split, options)
    if is_glob(source):
        return shards_table(source, glob_files(source), options)
    if split != "train":
        raise DataError(f"{source}: a file has no {split} split. Name the file of that split.")
    return file_table(source, options)


def has_test_split(source: str) -> bool:
    """Return whether a data source has a test split in addition to its training data."""
    if source.startswith(PREFIX):
        return "test" in hub_splits(source)
    if _is_named_dataset(source):
        return has_test_set(source)
    return Path(source).is_dir() and folder_has_split(Path(source), "test")


def _is_named_dataset(source: str) -> bool:
    """Return whether a data source is a named dataset.

    Raises:
        DataError: if it looks like a misspelled name, or is a URL.
    """
    if source in CATALOG:
        return True
    if _URL.match(source):
        raise DataError(f"{source}: URLs are not read. Download the file and give its name.")
    if source == "-" or source.startswith(PREFIX):
        return False
    path = Path(source)
    if path.name == source and not path.suffix and not path.exists() and not is_glob(source):
        find_entry(source)  # raises an error that suggests a name
    return False


def _named_dataset_table(name: str, split: str) -> Table:
    dataset = load_named_dataset(name, split)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        table = pa.table({"text": dataset.texts.cast(pa.string()), "label": dataset.labels})
        return iter(table.select(wanted or ["text", "label"]).to_batches())

    return Table(name, ("text", "label"), batches, ReadLog(name))
