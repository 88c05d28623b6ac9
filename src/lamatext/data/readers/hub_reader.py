"""Hugging Face Hub reader: datasets named ``hf:OWNER/NAME`` or ``hf:OWNER/NAME:CONFIG``."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table, string_batch
from lamatext.errors import DataError, require

PREFIX = "hf:"
_BATCH_ROWS = 8192


def hub_table(source: str, split: str, log: ReadLog | None = None) -> Table:
    """Open the training or test data of a Hugging Face Hub dataset as a table.

    Labels that are class indices are replaced with the class names.
    """
    datasets = require("datasets", extra="hub", purpose=f"reading {source}")
    path, config = _parse_address(source)
    try:
        dataset = datasets.load_dataset(path, config, split=split)
    except (OSError, ValueError) as error:  # not found, offline, no such split or config
        raise _hub_error(f"{source}, split '{split}'", error) from error
    columns = tuple(dataset.column_names)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or columns)
        selected = dataset.select_columns(names).with_format("arrow")
        for table in selected.iter(batch_size=_BATCH_ROWS):
            for batch in table.select(names).to_batches():
                strings = string_batch(batch, source, as_json=wanted is None)
                yield _with_class_names(strings, dataset.features)

    return Table(source, columns, batches, log or ReadLog(source))


def hub_splits(source: str) -> list[str]:
    """Return the split names of a Hugging Face Hub dataset, such as train and test."""
    datasets = require("datasets", extra="hub", purpose=f"reading {source}")
    path, config = _parse_address(source)
    try:
        return [str(split) for split in datasets.get_dataset_split_names(path, config)]
    except (OSError, ValueError) as error:
        raise _hub_error(source, error) from error


def _hub_error(source: str, error: Exception) -> DataError:
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return DataError(
        f"{source}: cannot be read from the Hub: {reason}. Check the name and the network."
    )


def _parse_address(source: str) -> tuple[str, str | None]:
    path, _, config = source.removeprefix(PREFIX).partition(":")
    if path.count("/") != 1 or path.startswith("/") or path.endswith("/"):
        raise DataError(f"{source}: expected hf:OWNER/NAME, such as hf:stanfordnlp/imdb.")
    return path, config or None


def _with_class_names(batch: pa.RecordBatch, features: Any) -> pa.RecordBatch:
    """Replace class indices of a Hugging Face Hub dataset with class names, and -1 with null."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        class_names = getattr(features[name], "names", None)
        if class_names:
            by_index = {str(index): class_name for index, class_name in enumerate(class_names)}
            column = pa.array([by_index.get(value) for value in column.to_pylist()], pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
