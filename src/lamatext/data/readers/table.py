"""The table that every file reader returns: string columns that are read once, in batches."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lamatext.data.column_detection import choose_label_columns, choose_text_column
from lamatext.data.dataset import Dataset
from lamatext.data.readers.input_files import MAX_RECORD, record_too_long
from lamatext.data.readers.label_columns import LABEL_LISTS, LabelColumns, join_label_batches
from lamatext.errors import DataError


@dataclass(frozen=True, slots=True)
class Table:
    """Table of string columns that can be read only once, in batches.

    A missing value is null. ``batches(names)`` reads the named columns, which may also hold lists
    of strings; ``batches(None)`` reads all columns, with lists as JSON.
    """

    name: str  # for messages
    columns: tuple[str, ...]
    batches: Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all columns of the table in batches, with one empty batch if it has no rows."""
        is_empty = True
        for batch in self.batches(None):
            is_empty = False
            yield batch
        if is_empty:
            columns = [pa.array([], pa.string()) for _ in self.columns]
            yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))

    def to_dataset(
        self,
        text: str | None = None,
        label: str | Sequence[str] | None = None,
        *,
        label_separator: str | None = None,
        source: str = "",
    ) -> Dataset:
        """Read the text and label columns of the table into a dataset.

        Columns that are None are detected by name. A missing text becomes an empty text; a missing
        label raises DataError. The rows have several labels if the label column holds lists, if
        ``label_separator`` splits it, or if there is one 0/1 column per label.
        """
        text = choose_text_column(self.columns, text, self.name)
        names = choose_label_columns(self.columns, label, text, self.name)
        label_columns = LabelColumns(names, label_separator)
        texts: list[pa.Array] = []
        labels: list[pa.Array] = []
        rows = 0
        for batch in self.batches([text, *names]):
            texts.append(self._text_values(batch, text))
            labels.append(label_columns.read(batch, self.name, rows))
            rows += len(batch)
        if not rows:
            raise DataError(f"{self.name}: no rows. Expected one text or more.")
        return Dataset(
            texts=pa.chunked_array(texts, pa.large_string()),
            labels=join_label_batches(labels),
            source=source,
            text_column=text,
            label_columns=names,
            label_separator=label_separator,
        )

    def _text_values(self, batch: pa.RecordBatch, column: str) -> pa.Array:
        texts = batch.column(column)
        if pa.types.is_nested(texts.type):
            raise DataError(
                f"{self.name}: column '{column}' holds lists, expected one text per row. "
                "Choose another --text-column."
            )
        return pc.fill_null(texts, "").cast(pa.large_string())


def string_batch(
    batch: pa.RecordBatch,
    name: str,
    *,
    as_json: bool,
    first_row: int = 0,
    max_record: int = MAX_RECORD,
) -> pa.RecordBatch:
    """Convert every column of a table batch to strings.

    Args:
        batch: columns of any type.
        name: the name of the source, for messages.
        as_json: whether nested values become JSON; otherwise a list becomes a list of strings, and
            other nested values are an error.
        first_row: the number of rows before this batch, for messages.
        max_record: the longest string, in bytes.
    """
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not pa.types.is_nested(field.type):
            strings = _string_column(column, field, name)
        elif as_json:
            strings = _json_column(column, field, name)
        else:
            strings = _list_column(column, field, name)
        is_list = pa.types.is_list(strings.type)
        values = strings.flatten() if is_list else strings
        _check_strings(values, f"{name}: column '{field.name}'", first_row, max_record)
        columns.append(strings)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _string_column(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException as error:
        raise DataError(
            f"{name}: column '{field.name}' of type {field.type} cannot be read as text. "
            "Convert it to text or numbers."
        ) from error


def _list_column(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    try:
        return pc.cast(column, LABEL_LISTS)
    except pa.ArrowException as error:
        raise DataError(
            f"{name}: column '{field.name}' holds {str(field.type)[:60]}, expected one value or a "
            "list of labels per row. Choose another column, or convert it."
        ) from error


def _json_column(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    try:
        values = column.to_pylist()
        return pa.array(
            [None if v is None else json.dumps(v, ensure_ascii=False, default=str) for v in values],
            pa.string(),
        )
    except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise DataError(
            f"{name}: column '{field.name}' of type {str(field.type)[:60]} cannot be written as "
            "JSON. Leave the column out, or convert it to text."
        ) from error


def _check_strings(strings: pa.Array, where: str, first_row: int, max_record: int) -> None:
    """Raise DataError for a value of a table that is not UTF-8 or is too long."""
    try:
        strings.validate(full=True)
    except pa.ArrowException:
        row = first_row + _first_invalid_row(strings) + 1
        raise DataError(
            f"{where}, row {row}: not UTF-8. Write the file again with valid text."
        ) from None
    longest = pc.max(pc.binary_length(strings)).as_py() or 0
    if longest > max_record:
        row = first_row + pc.index(pc.binary_length(strings), longest).as_py() + 1
        raise record_too_long(f"{where}, row {row}", max_record)


def _first_invalid_row(strings: pa.Array) -> int:
    for row in range(len(strings)):
        try:
            strings.slice(row, 1).validate(full=True)
        except pa.ArrowException:
            return row
    return 0
