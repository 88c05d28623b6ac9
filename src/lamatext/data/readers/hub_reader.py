"""Data sets on the Hugging Face Hub: ``hf:OWNER/NAME``, or ``hf:OWNER/NAME:CONFIG``."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lamatext.data.readers.file_formats import as_strings
from lamatext.data.readers.table import Table
from lamatext.errors import DataError, require

PREFIX = "hf:"
_ROWS = 8192  # rows of a batch


def hub_table(source: str, split: str) -> Table:
    """One part of a set as a table; numbered classes become their names."""
    dataset = _load(source, split)
    columns = tuple(dataset.column_names)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or columns)
        chosen = dataset.select_columns(names).with_format("arrow")
        for table in chosen.iter(batch_size=_ROWS):
            for batch in table.select(names).to_batches():
                yield _named(as_strings(batch, source, single=wanted is not None), dataset.features)

    return Table(source, columns, batches)


def hub_parts(source: str) -> list[str]:
    """The names of the parts: train, test, ..."""
    datasets = require("datasets", extra="hub", purpose=f"reading {source}")
    path, config = _address(source)
    try:
        return [str(part) for part in datasets.get_dataset_split_names(path, config)]
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from error


def _load(source: str, split: str) -> Any:
    datasets = require("datasets", extra="hub", purpose=f"reading {source}")
    path, config = _address(source)
    try:
        return datasets.load_dataset(path, config, split=split)
    except (OSError, ValueError) as error:  # not found, offline, no such part or config
        raise _unreadable(f"{source}, part '{split}'", error) from error


def _unreadable(what: str, error: Exception) -> DataError:
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return DataError(
        f"{what}: cannot be read from the Hub: {reason}. Check the name and the network."
    )


def _address(source: str) -> tuple[str, str | None]:
    path, _, config = source.removeprefix(PREFIX).partition(":")
    if path.count("/") != 1 or path.startswith("/") or path.endswith("/"):
        raise DataError(f"{source}: expected hf:OWNER/NAME, such as hf:stanfordnlp/imdb.")
    return path, config or None


def _named(batch: pa.RecordBatch, features: Any) -> pa.RecordBatch:
    """The batch with ClassLabel numbers replaced by their names; -1 means that there is none."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        names = getattr(features[name], "names", None)
        if names:
            words = {str(number): word for number, word in enumerate(names)}
            column = pa.array([words.get(value) for value in column.to_pylist()], pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
