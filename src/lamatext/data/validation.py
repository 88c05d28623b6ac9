"""Validation of texts and labels passed from Python: lists, numpy, pandas, polars and pyarrow."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.labels import Label
from lamatext.data.tokenizer import encodable
from lamatext.errors import DataError, plural
from lamatext.label_thresholds import LabelForm

# A pandas or polars Series is an Iterable: neither library is imported here.
Texts: TypeAlias = "Iterable[str] | NDArray[Any] | pa.Array | pa.ChunkedArray"
Labels: TypeAlias = "Iterable[Any] | NDArray[Any] | pa.Array | pa.ChunkedArray"
Groups: TypeAlias = Labels

_MISSING = {"None", "nan", "NaN", "NaT", "<NA>"}  # values of pandas and polars, as strings
_DTYPES = {"str": np.str_, "int": np.int64, "bool": np.bool_}
BATCH_ROWS = 10_000  # of a column that are converted to Python strings at once


def text_list(texts: Texts) -> list[str]:
    """Validate that the input is a column of strings and return it as a list of texts."""
    values = list(iterate_texts(texts))
    check_texts(values)
    return values


def iterate_texts(texts: Texts) -> Iterator[str]:
    """Validate that the input is a column of texts and return an iterator over its values.

    The values themselves are not checked.
    """
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one text. Wrap it in a list: [text].")
    if isinstance(texts, set | frozenset | dict) or not isinstance(texts, Iterable):
        raise DataError(f"expected a list of texts, got {type(texts).__name__}.")
    shape = getattr(texts, "shape", (0,))
    if len(shape) != 1 and shape[1:] != (1,):
        found = f"{type(texts).__name__} of shape {shape}"
        raise DataError(f"expected one column of texts, got {found}. Choose one: data['text'].")
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return (text for batch in _batches(texts) for text in batch.to_pylist())
    return iter(np.asarray(texts)[:, 0] if shape[1:] == (1,) else texts)


def _batches(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array | pa.ChunkedArray]:
    """Yield slices of a column of texts to validate, because a list of all can be very large."""
    return (column.slice(start, BATCH_ROWS) for start in range(0, len(column), BATCH_ROWS))


def text_column(texts: Texts) -> pa.ChunkedArray:
    """Validate texts and return them as an Arrow column, replacing lone surrogates with "?"."""
    if _is_string_column(texts):
        chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
        column = pa.chunked_array(chunks).cast(pa.large_string())
    else:
        values = [encodable(text) for text in text_list(texts)]
        column = pa.chunked_array([pa.array(values, pa.large_string())])
    if not len(column):
        raise DataError("there are no texts. Give at least two, with different labels.")
    return column


def check_texts(texts: Sequence[object]) -> None:
    """Validate that every text is a string; raise DataError for the first value that is not."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"texts[{i}] is {text!r} ({type(text).__name__}), expected str. "
                "Replace missing values with empty texts and convert numbers to str first."
            )


def label_array(labels: Labels, text_count: int) -> NDArray[Any]:
    """Validate one label per text and return the labels as an array of type str, int64 or bool."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        got = "one str" if isinstance(labels, str) else type(labels).__name__
        raise DataError(f"expected a list of labels, one for each text, got {got}.")
    values = _as_list(labels)
    _check_count(len(values), text_count)
    if _is_string_column(labels):
        return np.asarray(values, dtype=np.str_)
    kinds = {_label_kind(label, i) for i, label in enumerate(values)}
    return np.asarray(values, dtype=_DTYPES[_one_kind(kinds)])


class LabelLists(NamedTuple):
    """Validated multi-label targets, with the form in which they were passed."""

    rows: list[list[Label]]
    classes: tuple[Label, ...]  # the columns of the indicator matrix, or the distinct labels
    form: LabelForm

    def column(self) -> pa.ChunkedArray:
        """Return the validated labels as an Arrow column of lists of strings."""
        lists = [[str(label) for label in row] for row in self.rows]
        return pa.chunked_array([pa.array(lists, pa.list_(pa.string()))])


def label_lists(labels: Labels, text_count: int) -> LabelLists | None:
    """Validate labels given as lists, sets or an indicator matrix; return None for other labels.

    Raises:
        DataError: some rows have one label and others a list, or a value is not a label.
    """
    shape: tuple[int, ...] = getattr(labels, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        return _indicator_lists(labels, text_count)
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        return None
    values = _as_list(labels)
    is_list = [isinstance(value, _LIST_TYPES) for value in values]
    if not any(is_list):
        return None
    _check_count(len(values), text_count)
    if not all(is_list):
        position = is_list.index(not is_list[0])
        raise DataError(
            f"labels[{position}] is {values[position]!r}, but labels[0] is {values[0]!r}: some "
            "texts have one label and others a list. Give a list of labels for every text; an "
            "empty list means that no label applies."
        )
    given = [list(map(_whole_number, _ordered(value))) for value in values]
    kinds = {_label_kind(label, i) for i, row in enumerate(given) for label in row}
    rows = [list(dict.fromkeys(row)) for row in given]
    flat = [label for row in rows for label in row]
    if not flat:
        raise DataError("every list of labels is empty. Give some texts labels.")
    classes: NDArray[Any] = np.unique(np.asarray(flat, dtype=_DTYPES[_one_kind(kinds)]))
    is_set = all(isinstance(value, set | frozenset) for value in values)
    return LabelLists(rows, tuple(classes.tolist()), "sets" if is_set else "lists")


def _whole_number(label: Any) -> Any:
    """Convert a label such as 1.0 to an int, as for single labels; return others unchanged."""
    value = python_label(label)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _ordered(labels: Iterable[Any]) -> Iterable[Any]:
    """Sort the labels of a set, whose iteration order differs between Python processes."""
    return sorted(labels, key=str) if isinstance(labels, set | frozenset) else labels


def _indicator_lists(labels: Any, text_count: int) -> LabelLists:
    """Validate an indicator matrix (NumPy, SciPy or data frame) and convert it to label lists.

    The labels are the column names of a data frame, otherwise the column numbers.
    """
    matrix = np.asarray(labels.toarray() if hasattr(labels, "toarray") else labels)
    _check_count(len(matrix), text_count)
    if matrix.dtype.kind not in "buif" or not np.isin(matrix, (0, 1)).all():
        raise DataError(
            f"labels of shape {matrix.shape}: expected an indicator matrix of 0 and 1, or a list "
            "of labels for each text."
        )
    names = [str(name) for name in getattr(labels, "columns", range(matrix.shape[1]))]
    is_named = hasattr(labels, "columns")
    classes: tuple[Label, ...] = tuple(names) if is_named else tuple(range(matrix.shape[1]))
    rows = [[classes[i] for i in np.flatnonzero(row)] for row in matrix]
    return LabelLists(rows, classes, "indicator")


_LIST_TYPES = (list, tuple, set, frozenset, np.ndarray)


def group_column(groups: Groups, text_count: int) -> pa.ChunkedArray:
    """Validate one group per text and return the groups as strings, with "" for a missing one."""
    _check_group_list(groups)
    values = _as_list(groups)
    if len(values) != text_count:
        only = "only " if len(values) < text_count else ""
        raise DataError(
            f"{plural(text_count, 'text')}, but groups for {only}{len(values):,}. Give one group, "
            "such as a customer, for each text."
        )
    is_missing = [not isinstance(value, str) and str(value) in _MISSING for value in values]
    names = [
        "" if missing else encodable(str(_whole_number(value)))
        for value, missing in zip(values, is_missing, strict=True)
    ]
    return pa.chunked_array([pa.array(names, pa.large_string())])


def _check_group_list(groups: Groups) -> None:
    shape = getattr(groups, "shape", None)
    if isinstance(groups, str):
        got = "one str"
    elif isinstance(groups, set | frozenset | dict) or not isinstance(groups, Iterable):
        got = type(groups).__name__
    elif shape is not None and (not shape or shape[1:] not in ((), (1,))):
        got = f"an array of shape {shape}"
    else:
        return
    raise DataError(f"expected a list of groups, one for each text, got {got}.")


def _check_count(labels: int, texts: int) -> None:
    if labels != texts:
        raise DataError(
            f"{plural(texts, 'text')} but {plural(labels, 'label')}. Give one label for each text."
        )


def _one_kind(kinds: set[str]) -> str:
    if len(kinds) > 1:
        raise DataError(
            f"labels must be all str, all int or all bool, got {' and '.join(sorted(kinds))}."
        )
    return kinds.pop() if kinds else "str"


def python_label(label: Any) -> Any:
    """Convert a NumPy label to a JSON-serializable Python value; return other labels unchanged."""
    return label.item() if isinstance(label, np.generic) else label


def _is_string_column(column: object) -> bool:
    if not isinstance(column, pa.Array | pa.ChunkedArray) or column.null_count:
        return False
    return column.type in (pa.string(), pa.large_string())


def _as_list(values: Any) -> list[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        items: list[Any] = values.to_pylist()
        return items
    if getattr(values, "shape", (0,))[1:] == (1,):
        values = np.asarray(values)[:, 0]
    return list(values)


def _label_kind(label: object, position: int) -> str:
    if isinstance(label, str):
        return "str"
    if isinstance(label, bool | np.bool_):
        return "bool"
    is_whole = isinstance(label, float | np.floating) and float(label).is_integer()
    if isinstance(label, int | np.integer) or is_whole:
        if not -(2**63) <= int(label) < 2**63:  # type: ignore[call-overload]  # a number
            raise DataError(
                f"labels[{position}] is {label!r}, an int of more than 64 bits. Convert the labels "
                "to str."
            )
        return "int"
    raise DataError(
        f"labels[{position}] is {label!r} ({type(label).__name__}), expected a str, int or bool."
    )


def warn_of_empty_texts(texts: list[str]) -> None:
    """Warn about empty input texts, whose predictions are not based on any word."""
    rows = [row for row, text in enumerate(texts) if isinstance(text, str) and not text.strip()]
    if rows:
        places = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
        places, is_or_are = (f"row {places}", "is") if len(rows) == 1 else (f"rows {places}", "are")
        not_based = "its prediction is" if len(rows) == 1 else "their predictions are"
        warnings.warn(
            f"{len(rows):,} of {plural(len(texts), 'text')} {is_or_are} empty ({places}, counted "
            f"from 0): {not_based} not based on any word.",
            stacklevel=3,
        )
