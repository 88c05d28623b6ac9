"""The table that every file reader returns: string columns that can be read once, in batches."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.column_detection import (
    choose_by_name,
    choose_text_by_name,
    detect_by_content,
    detect_text_by_content,
    explain_choice,
    label_separator,
    with_full_names,
)
from lamatext.data.dataset import Dataset
from lamatext.data.read_options import JOINT, MAX_RECORD, Layout, ReadOptions
from lamatext.data.readers.input_files import record_too_long
from lamatext.data.readers.json_columns import is_json, plain_strings
from lamatext.data.readers.label_columns import (
    LABEL_LISTS,
    LabelColumns,
    is_blank,
    join_label_batches,
    with_label_lists,
)
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.time_column import parse_times
from lamatext.errors import DataError

DEFAULTS = ReadOptions()


MAX_COLUMNS = 10_000
_MAX_LISTED = 5  # columns in a message
_NAMED_COLUMNS = ("csv", "tsv", "jsonl", "parquet", "xlsx")  # formats whose columns have names


@dataclass(frozen=True, slots=True)
class Table:
    """Table of string columns that can be read only once, in batches.

    A missing value is null. ``batches(names)`` reads the named columns, which may also hold lists
    of strings; ``batches(None)`` reads all columns, with lists as JSON. ``typed_batches(format)``
    reads all columns with their types, or returns None if that output format does not support them.
    """

    name: str  # for messages
    columns: tuple[str, ...]
    batches: Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]
    log: ReadLog  # filled in while the table is read
    typed_batches: Callable[[str], Iterator[pa.RecordBatch] | None] = lambda _: None

    def __post_init__(self) -> None:
        if len(self.columns) > MAX_COLUMNS:
            raise too_many_columns(self.name)

    def all_batches(self, output_format: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all columns of the table in batches (one empty batch if it has no rows).

        The columns are strings unless an output format is given that supports their types.
        """
        is_empty = True
        typed = None if output_format is None else self.typed_batches(output_format)
        for batch in self.batches(None) if typed is None else typed:
            is_empty = False
            yield batch
        if is_empty:
            columns = [pa.array([], pa.string()) for _ in self.columns]
            yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))

    def _checked_batches(self, output_format: str | None) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in self.all_batches(output_format):
            rows += len(batch)
            yield batch
        self.log.check_bad_rows(rows + self.log.bad_rows)
        if not rows and not self.log.bad_rows and self.log.separator is not None:
            self.log.notes.append(
                "no rows below the header; if the first line is a text, use --format lines"
            )

    def numbered_batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Yield all columns of the table in batches, with the line number of each row."""
        rows = 0
        for batch in self.all_batches():
            yield batch, _row_lines(batch, self.log, rows, all_lines=True)
            rows += len(batch)

    def text_batches(
        self, options: ReadOptions, output_format: str | None = None
    ) -> tuple[tuple[str, ...], Iterator[pa.RecordBatch]]:
        """Return the names of the table's text columns and an iterator over batches of its rows.

        If the names of the columns do not decide, the values in the first batch do. After the last
        batch, too many bad rows are an error. The texts are strings; other columns keep their types
        if an output format is given that supports them.
        """
        batches = self._checked_batches(output_format)
        options = with_full_names(self.columns, options)
        with self._sheet_named():
            texts = choose_text_by_name(self.columns, options, self.name)
        self._explain_choice(options, texts)
        if texts is None:
            first = next(batches)
            strings = with_strings(first, first.schema.names, self.name)
            rows = pa.Table.from_batches([strings])
            with self._bad_rows_first(len(rows), batches), self._sheet_named():
                detected = detect_text_by_content(rows, self.name)
            texts = detected.text_columns
            self.log.notes.extend(detected.reasons)
            batches = chain([first], batches)
        return texts, (with_strings(batch, texts, self.name) for batch in batches)

    def to_dataset(self, options: ReadOptions = DEFAULTS, *, source: str = "") -> Dataset:
        """Read the text and label columns of the table into a dataset.

        Columns that are not requested are detected by their names or, if these do not decide, by
        their contents. Rows without a text or a label are skipped or raise DataError. The rows
        have several labels if the label column holds lists, if ``options.label_separator`` splits
        it, or if there is one 0/1 column per label.
        """
        options = with_full_names(self.columns, self._with_remembered_split(options))
        with self._sheet_named():
            texts, labels = choose_by_name(self.columns, options, self.name)
        self._explain_choice(options, texts, labels)
        extra = [column for column in (options.group_column, options.time_column) if column]
        if texts and labels:
            wanted = list(dict.fromkeys([*texts, *labels, *extra]))
            batches = self._read(wanted, all_lines=options.keep_lines)
        else:
            batches = self._read(None, all_lines=options.keep_lines)
            rows = pa.Table.from_batches([batch.rows for batch in batches] or [self._no_rows()])
            with self._bad_rows_first(len(rows)), self._sheet_named():
                detected = detect_by_content(rows, texts, labels, self.name, exclude=extra)
            texts, labels = detected.text_columns, detected.label_columns
            self.log.notes.extend(detected.reasons)
        parsed = with_label_lists([batch.rows for batch in batches], labels, self.name)
        batches = [_Batch(*pair) for pair in zip(parsed, (b.lines for b in batches), strict=True)]
        if not batches and not self.log.bad_rows:
            raise DataError(f"{self.name}: no rows. Expected one text or more.")
        layout = self._layout(texts, labels, options)
        unlabelled: list[str] | None = [] if options.keep_unlabelled else None
        dataset = _usable_rows(batches, layout, self.log, source, unlabelled)
        lines = dataset.lines if options.keep_lines else None
        return replace(dataset, unlabelled=tuple(unlabelled or ()), lines=lines, unit=self.log.unit)

    def to_datasets(
        self, options: ReadOptions = DEFAULTS, *, source: str = ""
    ) -> Iterator[Dataset]:
        """Read the text and label columns of the table as one dataset per batch, to limit memory.

        Columns that are not requested are detected by their names or by the first batch. The share
        of bad rows is checked at the end.
        """
        options = with_full_names(self.columns, options)
        texts, labels = choose_by_name(self.columns, options, self.name)
        batches = self.batches(list(dict.fromkeys([*texts, *labels])) if texts and labels else None)
        used = rows = 0
        for record_batch in filter(len, batches):
            if not (texts and labels):
                first = pa.Table.from_batches([record_batch])
                detected = detect_by_content(first, texts, labels, self.name)
                texts, labels = detected.text_columns, detected.label_columns
            layout = self._layout(texts, labels, options)
            lines = _row_lines(record_batch, self.log, rows, all_lines=False)
            (record_batch,) = with_label_lists([record_batch], labels, self.name, first_row=rows)
            batch = _Batch(record_batch, lines)
            values = _text_values(batch.rows, texts, self.name)
            is_good = _check_rows(batch, values, layout, self.log, None)
            kept, numbers = pa.array(is_good), rows + 1 + np.flatnonzero(is_good)
            columns = LabelColumns(labels, layout.label_separator)
            targets = columns.read(batch.rows.filter(kept), self.name, numbers)
            rows, used = rows + len(record_batch), used + len(targets)
            yield Dataset(
                pa.chunked_array([values.filter(kept)], pa.large_string()),
                join_label_batches([targets]),
                source,
                layout,
            )
        self.log.check_bad_rows(used + self.log.bad_rows)

    def _explain_choice(
        self,
        options: ReadOptions,
        texts: tuple[str, ...] | None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        """Log why this table's text and label columns were chosen."""
        if self.log.format in _NAMED_COLUMNS and len(self.columns) > 1:
            self.log.notes.extend(explain_choice(self.columns, options, texts, labels))

    @contextmanager
    def _bad_rows_first(self, rows: int, rest: Iterable[pa.RecordBatch] = ()) -> Iterator[None]:
        """Report too many bad rows of the table instead of the columns that are then not found."""
        try:
            yield
        except DataError:
            rows += sum(map(len, rest))
            self.log.check_bad_rows(rows + self.log.bad_rows)
            raise

    @contextmanager
    def _sheet_named(self) -> Iterator[None]:
        """Add to an error about the table's columns which of several sheets was read."""
        try:
            yield
        except DataError as error:
            if self.log.sheet:
                error.args = (f"{error} It was {self.log.sheet}.",)
            raise

    def _with_remembered_split(self, options: ReadOptions) -> ReadOptions:
        """Add the training file's group and time columns to the options if the table has them."""
        remembered = options.remembered
        if remembered is None or options.group_column or options.time_column:
            return options
        has = self.columns.count
        group, time = remembered.group_column, remembered.time_column
        return replace(
            options,
            group_column=group if group and has(group) else None,
            time_column=time if time and has(time) else None,
        )

    def _no_rows(self) -> pa.RecordBatch:
        return next(iter(replace(self, batches=lambda _: iter(())).all_batches()))

    def _read(self, wanted: list[str] | None, *, all_lines: bool) -> list["_Batch"]:
        batches: list[_Batch] = []
        rows = 0
        for batch in self.batches(wanted):
            if len(batch):
                lines = _row_lines(batch, self.log, rows, all_lines=all_lines)
                batches.append(_Batch(batch, lines))
                rows += len(batch)
        return batches

    def _layout(
        self, texts: tuple[str, ...], labels: tuple[str, ...], options: ReadOptions
    ) -> Layout:
        log, remembered = self.log, options.remembered or Layout()
        if log.format in _NAMED_COLUMNS:
            log.columns = (
                f"Texts were read from column {_quoted(texts)}, labels from {_quoted(labels)}; "
                "--text-column and --label-column name others"
            )
        return Layout(
            text_columns=texts,
            label_columns=labels,
            label_separator=options.label_separator or remembered.label_separator,
            format=log.format,
            encoding=log.encoding,
            separator=log.separator,
            quote=log.quote,
            header=log.header,
            merge_labels=options.merge_labels or remembered.merge_labels,
            group_column=options.group_column,
            time_column=options.time_column,
        )


def too_many_columns(name: str) -> DataError:
    """Return the error for a table with more than ``MAX_COLUMNS`` columns."""
    return DataError(
        f"{name}: more than {MAX_COLUMNS:,} columns. Check the separator, or keep only the columns "
        "of texts and labels."
    )


class _Batch(NamedTuple):
    """Batch of table rows with line numbers for messages."""

    rows: pa.RecordBatch
    lines: NDArray[np.int64]  # 0 if it is not needed


def _row_lines(
    batch: pa.RecordBatch, log: ReadLog, rows_before: int, *, all_lines: bool
) -> NDArray[np.int64]:
    """Return the line number of each table row that has a blank value, and 0 for other rows.

    Messages cite only these rows. With ``all_lines``, every row has its line number.
    """
    is_needed = np.full(len(batch), all_lines)
    for column in batch.columns:
        is_needed |= is_blank(column)
    lines = np.zeros(len(batch), np.int64)
    for row in np.flatnonzero(is_needed).tolist():
        lines[row] = rows_before + row + 1 if log.line_of is None else log.line_of(row)
    return lines


def _usable_rows(
    batches: Sequence[_Batch],
    layout: Layout,
    log: ReadLog,
    source: str,
    unlabelled: list[str] | None,
) -> Dataset:
    """Select the table rows that have a text and a label and return them as a dataset.

    The texts of rows without a label are added to ``unlabelled``, unless it is None.
    """
    label_columns = LabelColumns(layout.label_columns, layout.label_separator)
    texts: list[pa.Array] = []
    labels: list[pa.Array] = []
    lines: list[NDArray[np.int64]] = []
    extra: dict[str, list[pa.Array]] = {}  # values of the group and time columns
    rows = 0
    for batch in batches:
        values = _text_values(batch.rows, layout.text_columns, log.name)
        is_good = _check_rows(batch, values, layout, log, unlabelled)
        kept = pa.array(is_good)
        texts.append(values.filter(kept))
        lines.append(batch.lines[is_good])
        numbers = rows + 1 + np.flatnonzero(is_good)
        labels.append(label_columns.read(batch.rows.filter(kept), log.name, numbers))
        for column in filter(None, (layout.group_column, layout.time_column)):
            strings = pc.fill_null(batch.rows.column(column).filter(kept), "")
            extra.setdefault(column, []).append(strings)
        rows += len(values)
    used = sum(map(len, texts))
    if not used and log.has_only("no text"):
        raise DataError(f"{log.name}: every text is empty. Choose another --text-column.")
    all_labels = join_label_batches(labels)
    is_joined = log.bad_rows and pa.types.is_string(all_labels.type)
    separator = label_separator(all_labels) if is_joined else None
    log.check_bad_rows(used + log.bad_rows, separator)
    if not used:
        columns = f" {log.columns}." if log.columns else ""
        raise DataError(f"{log.name}: no rows that can be used: {log.faults()}.{columns}")
    return Dataset(
        texts=pa.chunked_array(texts, pa.large_string()),
        labels=all_labels,
        source=source,
        layout=layout,
        notes=(*log.notes, *log.skipped_rows()),
        group_values=_column(extra, layout.group_column),
        times=parse_times(_column(extra, layout.time_column), layout.time_column, log.name),
        time_values=_column(extra, layout.time_column),
        lines=np.concatenate(lines),
    )


def _check_rows(
    batch: _Batch, texts: pa.Array, layout: Layout, log: ReadLog, unlabelled: list[str] | None
) -> NDArray[np.bool_]:
    """Return a boolean mask of the rows in a table batch that have all required values.

    Required are a label, a time if there is a time column, and a text unless reading is strict. The
    other rows are counted in ``log`` as skipped. The texts of rows without a label are added to
    ``unlabelled``, unless it is None.
    """
    label_columns = LabelColumns(layout.label_columns, layout.label_separator)
    advice = (
        f" in column {_quoted(layout.label_columns)}. Fill it in, leave the row out, or let a "
        "--teacher label such rows."
    )
    is_good = np.ones(len(texts), bool)
    missing = {"no label": label_columns.missing(batch.rows)}
    if unlabelled is not None:
        is_unlabelled = missing.pop("no label")
        unlabelled += texts.filter(pa.array(is_unlabelled & ~is_blank(texts))).to_pylist()
        is_good &= ~is_unlabelled
    if not log.is_strict:
        missing["no text"] = is_blank(texts)
    if layout.time_column is not None:
        missing["no time"] = is_blank(batch.rows.column(layout.time_column))
    for fault, is_missing in missing.items():
        for row in np.flatnonzero(is_missing & is_good).tolist():
            log.skip_row(int(batch.lines[row]), fault, advice if fault == "no label" else ".")
        is_good &= ~is_missing
    return is_good


def _column(columns: dict[str, list[pa.Array]], name: str | None) -> pa.ChunkedArray | None:
    return None if name is None else pa.chunked_array(columns[name], pa.string())


def _text_values(batch: pa.RecordBatch, columns: Sequence[str], name: str) -> pa.Array:
    for column in columns:
        if pa.types.is_nested(batch.column(column).type):
            raise DataError(
                f"{name}: column '{column}' holds lists, expected one text per row. "
                "Choose another --text-column."
            )
    return join_columns([batch.column(column) for column in columns])


def join_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """Join the values of several text columns of a table, skipping missing values."""
    filled = [pc.fill_null(column, "").cast(pa.large_string()) for column in columns]
    if len(filled) == 1:
        return filled[0]
    blank_rows = [is_blank(column) for column in filled]
    present = [
        pc.if_else(pa.array(blank), None, column)
        for blank, column in zip(blank_rows, filled, strict=True)
    ]
    # Arrow would leave out rows whose values are all null, and the result would be shorter.
    present[0] = pc.if_else(pa.array(np.all(blank_rows, axis=0)), "", present[0])
    joint = pa.scalar(JOINT, pa.large_string())
    return pc.binary_join_element_wise(*present, joint, null_handling="skip")


def _quoted(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_LISTED
    quoted = [f"'{name}'" for name in names[:_MAX_LISTED]]
    return " and ".join([*quoted, *([f"{rest} more"] if rest > 0 else [])])


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


def with_strings(batch: pa.RecordBatch, columns: Sequence[str], name: str) -> pa.RecordBatch:
    """Convert the given columns of a table batch to strings and leave the others unchanged."""
    fields, arrays = list(batch.schema), list(batch.columns)
    for number, field in enumerate(fields):
        if field.name not in columns or (field.type == pa.string() and not is_json(field)):
            continue
        if is_json(field):
            arrays[number] = plain_strings(arrays[number])
        elif pa.types.is_nested(field.type):
            arrays[number] = _json_column(arrays[number], field, name)
        else:
            arrays[number] = _string_column(arrays[number], field, name)
        fields[number] = pa.field(field.name, pa.string())
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def check_types(batch: pa.RecordBatch, name: str, first_row: int, max_record: int) -> None:
    """Raise DataError if a value in a typed table batch is invalid or too long."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            _check_strings(column, f"{name}: column '{field.name}'", first_row, max_record)
            continue
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise DataError(
                f"{name}: column '{field.name}' of type {str(field.type)[:60]} has a value that is "
                "not valid. Write the file again."
            ) from error


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
    """Raise DataError if a string in a table column is not valid UTF-8 or too long."""
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
