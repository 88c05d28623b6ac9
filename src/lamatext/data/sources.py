"""Data sources as users name them: a file, a folder, stdin, a named data set, a Hub address."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lamatext.data.dataset import Dataset
from lamatext.data.named_datasets import CATALOG, find_entry, has_test_set, load_named_dataset
from lamatext.data.readers.folder_reader import folder_has_split, folder_table
from lamatext.data.readers.format_detection import file_table
from lamatext.data.readers.hub_reader import PREFIX, hub_splits, hub_table
from lamatext.data.readers.input_files import MAX_RECORD
from lamatext.data.readers.table import Table
from lamatext.errors import DataError


def load_dataset(  # noqa: PLR0913 - the source and how to read it
    source: str,
    *,
    split: str = "train",
    text_column: str | None = None,
    label_column: str | Sequence[str] | None = None,
    label_separator: str | None = None,
    format: str | None = None,
    max_record: int = MAX_RECORD,
) -> Dataset:
    """Load the texts and labels of a data source, such as a file, a folder or a named data set.

    Args:
        source: a file, a folder, ``-`` for stdin, a named data set, or ``hf:OWNER/NAME``.
        split: ``train`` or ``test``.
        text_column: the column of the texts; None detects it by its name.
        label_column: the column of the labels, or one 0/1 column for each label; None detects
            the column by its name.
        label_separator: separates the labels of a text in the label column, if it has several.
        format: the file format; None detects it.
        max_record: the longest line, row or text file to read, in bytes.
    """
    if _is_named_dataset(source) and not (text_column or label_column or label_separator):
        return load_named_dataset(source, split)
    table = open_table(source, split=split, format=format, max_record=max_record)
    return table.to_dataset(
        text_column, label_column, label_separator=label_separator, source=source
    )


def open_table(
    source: str,
    *,
    split: str = "train",
    format: str | None = None,
    max_record: int = MAX_RECORD,
) -> Table:
    """Open a data source, such as a file, a folder or a named data set, as a table.

    A named data set takes precedence over a folder of that name.
    """
    if source.startswith(PREFIX):
        return hub_table(source, split)
    if _is_named_dataset(source):
        return _named_dataset_table(source, split)
    if source != "-" and Path(source).is_dir():
        return folder_table(Path(source), split, format, max_record=max_record)
    if split != "train":
        raise DataError(f"{source}: a file has no {split} split. Name the file of that split.")
    return file_table(source, format, max_record=max_record)


def has_test_split(source: str) -> bool:
    """Return whether a data source has a test split of its own."""
    if source.startswith(PREFIX):
        return "test" in hub_splits(source)
    if _is_named_dataset(source):
        return has_test_set(source)
    return Path(source).is_dir() and folder_has_split(Path(source), "test")


def _is_named_dataset(source: str) -> bool:
    """Return whether a data source is a named data set.

    Raises:
        DataError: the source looks like a misspelt name.
    """
    if source in CATALOG:
        return True
    if source == "-" or source.startswith(PREFIX):
        return False
    path = Path(source)
    if path.name == source and not path.suffix and not path.exists():
        find_entry(source)  # raises an error that suggests a name
    return False


def _named_dataset_table(name: str, split: str) -> Table:
    dataset = load_named_dataset(name, split)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        table = pa.table({"text": dataset.texts.cast(pa.string()), "label": dataset.labels})
        return iter(table.select(wanted or ["text", "label"]).to_batches())

    return Table(name, ("text", "label"), batches)
