"""Label columns of a table: a label, a list or joined labels per cell, or 0/1 columns."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.errors import DataError

LABEL_LISTS = pa.list_(pa.string())

_IS_SET = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


class LabelColumns(NamedTuple):
    """Label columns of a table, with an optional separator between several labels in a cell."""

    names: tuple[str, ...]  # more than one: a column of 0 and 1 for each label
    separator: str | None = None

    def missing(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return whether the label is missing in each row of a table batch."""
        if len(self.names) > 1:
            return np.zeros(len(batch), bool)
        column = batch.column(self.names[0])
        if self.separator is None:
            return is_blank(column)
        is_missing: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
        return is_missing

    def read(self, batch: pa.RecordBatch, name: str, numbers: NDArray[np.int64]) -> pa.Array:
        """Read the labels of table rows as strings, or as lists if rows may have several labels.

        Args:
            batch: has the label columns.
            name: the name of the source, for messages.
            numbers: the number of each row in the file, for messages.

        Raises:
            DataError: a row has a value that is not a label.
        """
        if len(self.names) > 1:
            return _indicator_labels(batch, self.names, name, numbers)
        column, where = batch.column(self.names[0]), f"column '{self.names[0]}'"
        is_list = pa.types.is_list(column.type)
        if is_list and self.separator is not None:
            raise DataError(
                f"{name}: {where} holds lists of labels already. Leave --label-separator out."
            )
        if not is_list and self.separator is None:
            return column
        rows = column.to_pylist()
        if self.separator is not None:
            rows = [_split(value, self.separator) for value in rows]
        return pa.array(_distinct(rows, f"{name}: {where}", numbers), LABEL_LISTS)


def parse_label_lists(column: pa.Array | pa.ChunkedArray) -> list[list[str] | None] | None:
    """Parse a label column of JSON lists; return None unless most of its values are such lists.

    Missing and blank values, and values that are not lists, become None.
    """
    if not pc.any(pc.starts_with(column, "[")).as_py():
        return None
    lists = [_parse_list(value or "") for value in column.to_pylist()]
    found = sum(labels is not None for labels in lists)
    return lists if 2 * found > len(column) - is_blank(column).sum() else None


def _parse_list(value: str) -> list[str] | None:
    if not (value.startswith("[") and value.endswith("]")):
        return None
    try:
        return [str(item).encode("utf-8", "replace").decode() for item in json.loads(value)]
    except (ValueError, RecursionError):
        return None


def with_label_lists(
    batches: Sequence[pa.RecordBatch], columns: Sequence[str], name: str, *, first_row: int = 0
) -> list[pa.RecordBatch]:
    """Convert those label columns of a table that contain JSON lists from strings to lists.

    Args:
        batches: rows of the table.
        columns: the label columns.
        name: the name of the source, for messages.
        first_row: the number of rows before these batches, for messages.

    Raises:
        DataError: if most values of a column are lists, but some are not.
    """
    batches = list(batches)
    for column in columns if batches else ():
        chunks = [batch.column(column) for batch in batches]
        if any(pa.types.is_nested(chunk.type) for chunk in chunks):
            continue
        strings = pa.chunked_array(chunks)
        lists = parse_label_lists(strings)
        if lists is None:
            continue
        array, start = pa.array(lists, LABEL_LISTS), 0
        other = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False) & ~is_blank(strings))
        if len(other):
            value, row = strings[int(other[0])].as_py(), first_row + other[0] + 1
            raise DataError(
                f"{name}: column '{column}', row {row}: expected a JSON list of labels "
                f"as in most rows, got {value[:60]!r}. Write a list in every row."
            )
        for number, batch in enumerate(batches):
            place = batch.schema.get_field_index(column)
            batches[number] = batch.set_column(place, column, array.slice(start, len(batch)))
            start += len(batch)
    return batches


def join_label_batches(batches: Sequence[pa.Array]) -> pa.ChunkedArray:
    """Concatenate batches of labels into one label column, with lists if any batch has lists."""
    if not any(pa.types.is_list(batch.type) for batch in batches):
        return pa.chunked_array(batches, pa.string())
    lists = [
        batch
        if pa.types.is_list(batch.type)
        else pa.ListArray.from_arrays(pa.array(np.arange(len(batch) + 1), pa.int32()), batch)
        for batch in batches
    ]
    return pa.chunked_array(lists, LABEL_LISTS)


def is_blank(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return whether each value of a label or text column is missing or only whitespace."""
    if pa.types.is_nested(column.type):
        blank = column.is_null()
    else:
        blank = pc.equal(pc.utf8_trim_whitespace(pc.fill_null(column, "")), "")
    missing: NDArray[np.bool_] = blank.to_numpy(zero_copy_only=False)
    return missing


def _split(value: str, separator: str) -> list[str]:
    labels = (label.strip() for label in value.split(separator))
    return [label for label in labels if label]


def _distinct(
    rows: Iterable[list[str | None]], where: str, numbers: NDArray[np.int64]
) -> list[list[str]]:
    result = []
    for number, labels in zip(numbers.tolist(), rows, strict=True):
        if any(label is None or not label.strip() for label in labels):
            raise DataError(
                f"{where}, row {number}: one of its labels is null or blank. Remove it; "
                "an empty list is a row without labels."
            )
        result.append(list(dict.fromkeys(filter(None, labels))))
    return result


def _indicator_labels(
    batch: pa.RecordBatch, names: Sequence[str], name: str, numbers: NDArray[np.int64]
) -> pa.Array:
    rows: list[list[str]] = [[] for _ in range(len(batch))]
    for label in names:
        column = batch.column(label)
        values = [None] * len(batch) if pa.types.is_nested(column.type) else column.to_pylist()
        for row, value in enumerate(values):
            is_set = _IS_SET.get((value or "").strip().lower())
            if is_set is None:
                raise DataError(
                    f"{name}: column '{label}', row {numbers[row]}: expected 0 or 1, "
                    f"got {value!r}. With several --label-column, each is one label."
                )
            if is_set:
                rows[row].append(label)
    return pa.array(rows, LABEL_LISTS)
