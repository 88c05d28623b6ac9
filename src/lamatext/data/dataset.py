"""What reading gives: a table of string columns, and the corpus of texts and labels."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.errors import DataError


@dataclass(frozen=True, slots=True)
class Table:
    """String columns (nulls where a value is missing) that can be read through once.

    ``batches(names)`` reads those columns and takes only single values in them, no lists;
    ``batches(None)`` reads all columns.
    """

    name: str  # for messages
    columns: tuple[str, ...]
    batches: Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Texts and labels as Arrow columns, and what they were read from."""

    texts: pa.ChunkedArray  # large_string, no nulls
    labels: pa.ChunkedArray | None  # string, no nulls; None where the source has no labels
    source: str  # what the user named: "reviews.csv", "r8", "-"
    text_column: str = "text"
    label_column: str = "label"

    def __len__(self) -> int:
        return len(self.texts)

    def require_labels(self) -> pa.ChunkedArray:
        """Return the label column of the dataset; raise DataError if it has no labels."""
        if self.labels is None:
            raise DataError(
                f"{self.source}: no labels. Name the column that holds them with --label-column."
            )
        return self.labels

    def take(self, indices: NDArray[np.int64]) -> "Dataset":
        """The rows at ``indices``, in that order."""
        labels = None if self.labels is None else _take(self.labels, indices)
        return replace(self, texts=_take(self.texts, indices), labels=labels)

    def concatenate(self, other: "Dataset") -> "Dataset":
        """Return a dataset of the rows of both, with this dataset's source and column names."""
        labels = [*self.require_labels().chunks, *other.require_labels().chunks]
        texts = [*self.texts.chunks, *other.texts.chunks]
        return replace(
            self,
            texts=pa.chunked_array(texts, pa.large_string()),
            labels=pa.chunked_array(labels, pa.string()),
        )


def _take(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """The rows; ascending ones chunk by chunk, for pyarrow would first copy the whole column."""
    if (np.diff(rows) < 0).any():
        return column.take(pa.array(rows, pa.int64()))
    starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    cuts = np.searchsorted(rows, starts)
    pieces = [
        chunk.take(pa.array(rows[begin:end] - start))
        for chunk, start, begin, end in zip(column.chunks, starts, cuts, cuts[1:], strict=False)
        if begin < end
    ]
    return pa.chunked_array(pieces, column.type)


def collect(table: Table, text: str, label: str | None, source: str) -> Dataset:
    """The corpus of two columns; a missing text is empty, a missing label is an error."""
    texts: list[pa.Array] = []
    labels: list[pa.Array] = []
    rows = 0
    for batch in table.batches([text] if label is None else [text, label]):
        texts.append(pc.fill_null(batch.column(text), "").cast(pa.large_string()))
        if label is not None:
            labels.append(_whole(batch.column(label), label, rows, table.name))
        rows += len(batch)
    if not rows:
        raise DataError(f"{table.name}: no rows. Expected one text or more.")
    return Dataset(
        texts=pa.chunked_array(texts, pa.large_string()),
        labels=None if label is None else pa.chunked_array(labels, pa.string()),
        source=source,
        text_column=text,
        label_column=label or "label",
    )


def _whole(labels: pa.Array, column: str, before: int, name: str) -> pa.Array:
    """The labels, none of them missing."""
    absent = pc.equal(pc.utf8_trim_whitespace(pc.fill_null(labels, "")), "")
    first = pc.index(absent, True).as_py()
    if first >= 0:
        raise DataError(
            f"{name}: row {before + first + 1} has no label in column '{column}'. "
            "Fill it in or leave the row out."
        )
    return labels
