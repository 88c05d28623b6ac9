"""The dataset type: texts and their labels as Arrow columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.cache import fingerprint
from lamatext.data.read_options import Layout, source_name
from lamatext.errors import DataError

_BLOCK_CHARACTERS = 1 << 22  # of an array of labels, to limit the memory


@dataclass(frozen=True, slots=True)
class Dataset:
    """Dataset of texts and optional labels as Arrow columns, with the name of its source."""

    texts: pa.ChunkedArray  # large_string, no nulls
    labels: pa.ChunkedArray | None  # string, or lists of string; None for unlabelled texts
    source: str  # as the user named it: "reviews.csv", "r8", "-"
    layout: Layout = Layout()  # noqa: RUF009 - frozen, too
    notes: tuple[str, ...] = ()  # what was assumed and which rows were skipped in reading
    unlabelled: tuple[str, ...] = ()  # texts of rows without a label, if they were asked for
    group_values: pa.ChunkedArray | None = None  # string; rows with the same one stay together
    times: NDArray[np.float64] | None = None  # seconds, to hold out the newest rows
    time_values: pa.ChunkedArray | None = None  # the same as written in the file
    lines: NDArray[np.int64] | None = None  # line or row of each text in its file
    unit: str = "row"  # what these numbers count: "line" or "row"
    left_out: tuple[int, ...] = ()  # usable rows of the source, from 0, that ``--without`` dropped

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def is_multi_label(self) -> bool:
        """Return whether each text in the dataset has a list of labels instead of one label."""
        return self.labels is not None and pa.types.is_list(self.labels.type)

    def require_labels(self) -> pa.ChunkedArray:
        """Return the label column of the dataset, or raise DataError if it has no labels."""
        if self.labels is None:
            raise DataError(
                f"{self.source}: no labels. Name the column that holds them with --label-column."
            )
        return self.labels

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """Return the row number of each text of the dataset in its source file, counted from 1."""
        return np.arange(1, len(self) + 1) if self.lines is None else self.lines

    def place(self, row: int) -> str:
        """Return the source of a text of the dataset with its line or row number, for messages."""
        name, number = source_name(self.source), self.row_numbers[row]
        is_line = self.lines is not None and self.unit == "line"
        return f"{name}:{number}" if is_line else f"{name}: row {number}"

    def take(self, rows: NDArray[np.int64]) -> "Dataset":
        """Return a new dataset with only the given rows, in the given order."""
        return replace(
            self,
            texts=_take_rows(self.texts, rows),
            labels=None if self.labels is None else _take_rows(self.labels, rows),
            group_values=None if self.group_values is None else _take_rows(self.group_values, rows),
            times=None if self.times is None else self.times[rows],
            time_values=None if self.time_values is None else _take_rows(self.time_values, rows),
            lines=None if self.lines is None else self.lines[rows],
        )

    @property
    def period(self) -> str:
        """Return the time range of the dataset as text, from the oldest to the newest time."""
        if self.times is None or self.time_values is None or not len(self):
            return ""
        ends = (int(self.times.argmin()), int(self.times.argmax()))
        return " to ".join(dict.fromkeys(self.time_values[row].as_py().strip() for row in ends))

    def with_labels(self, labels: pa.ChunkedArray) -> "Dataset":
        """Return a copy of the dataset with another label column."""
        return replace(self, labels=labels)

    def rename_labels(self, names: dict[str, str]) -> "Dataset":
        """Return a copy of the dataset with renamed labels.

        A label that is not in ``names`` is kept. Labels that become equal in a list are merged.
        """
        labels = self.require_labels()
        renamed: list[Any] = [
            list(dict.fromkeys(names.get(label, label) for label in row))
            if self.is_multi_label
            else names.get(row, row)
            for row in labels.to_pylist()
        ]
        return replace(self, labels=pa.chunked_array([pa.array(renamed, labels.type)]))

    def concatenate(self, other: "Dataset") -> "Dataset":
        """Return the concatenation of this dataset and another; both must have labels.

        Texts with the same group value are in one group, even if they are from different datasets.
        """
        first, second = self.require_labels(), other.require_labels()
        if self.is_multi_label != other.is_multi_label:
            raise DataError(
                f"{self.source} and {other.source}: one has several labels per text, the other "
                "one. Write both the same way, or read both with --label-separator."
            )
        return replace(
            self,
            texts=pa.chunked_array([*self.texts.chunks, *other.texts.chunks], self.texts.type),
            group_values=_join_group_values(self, other),
            times=None,
            time_values=None,
            lines=None,
            labels=pa.chunked_array([*first.chunks, *second.chunks], first.type),
        )


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """Dataset for evaluating a saved model, with the model's training texts (None if unknown)."""

    texts: Dataset
    train: Dataset | None  # the training part of the same source
    about: str  # which texts these are, in a few words
    is_seen: bool = False  # whether the model was trained on these texts


def dataset_fingerprint(dataset: Dataset) -> str:
    """Return a hash of a dataset's texts and labels, which is saved with the model."""
    if dataset.labels is None:
        return ""
    rows = dataset.labels.to_pylist()
    names = ["\x1f".join(row) for row in rows] if dataset.is_multi_label else rows
    return fingerprint(dataset.texts, _string_blocks(names))


def _string_blocks(names: list[str]) -> Iterator[NDArray[np.str_]]:
    """Yield a dataset's labels in blocks of fixed-width NumPy strings, to hash them."""
    longest = max(map(len, names), default=1) or 1
    size = max(1, _BLOCK_CHARACTERS // longest)
    for start in range(0, len(names), size):
        yield np.array(names[start : start + size], dtype=f"<U{longest}")


def text_batches(column: pa.ChunkedArray, size: int = 4096) -> Iterator[pa.Array]:
    """Yield a column of a dataset in batches, to limit the memory used by Python strings."""
    for chunk in column.chunks:
        for start in range(0, len(chunk), size):
            yield chunk.slice(start, size)


def _join_group_values(first: Dataset, second: Dataset) -> pa.ChunkedArray | None:
    """Concatenate the group values of two datasets; they are empty for a dataset without groups."""
    if first.group_values is None and second.group_values is None:
        return None
    chunks = []
    for data in (first, second):
        if data.group_values is None:
            chunks.append(pa.repeat(pa.scalar("", pa.large_string()), len(data)))
        else:
            chunks += data.group_values.cast(pa.large_string()).chunks
    return pa.chunked_array(chunks, pa.large_string())


def _take_rows(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """Select rows of a dataset column, without copying the whole column if they are ascending."""
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
