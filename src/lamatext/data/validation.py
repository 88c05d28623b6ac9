"""Validation of texts and labels passed from Python: lists, numpy, pandas, polars and pyarrow."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.tokenizer import encodable
from lamatext.errors import DataError

# A pandas or polars Series is an Iterable: neither library is imported here.
Texts: TypeAlias = "Iterable[str] | NDArray[Any] | pa.Array | pa.ChunkedArray"
Labels: TypeAlias = "Iterable[Any] | NDArray[Any] | pa.Array | pa.ChunkedArray"

_DTYPES = {"str": np.str_, "int": np.int64, "bool": np.bool_}


def text_list(texts: Texts) -> list[str]:
    """Validate that the input is one column of strings and return it as a list of texts."""
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one text. Wrap it in a list: [text].")
    if not isinstance(texts, Iterable):
        raise DataError(f"expected a list of texts, got {type(texts).__name__}.")
    shape = getattr(texts, "shape", (0,))
    if len(shape) != 1 and shape[1:] != (1,):
        raise DataError(f"expected one column of texts, got an array of shape {shape}.")
    values = _as_list(texts)
    check_texts(values)
    return values


def text_column(texts: Texts) -> pa.ChunkedArray:
    """Validate texts and return them as one Arrow column.

    Lone surrogates become "?".
    """
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
    """Validate that every text is a string, or raise DataError for the first that is not."""
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"texts[{i}] is {text!r} ({type(text).__name__}), expected str. "
                "Replace missing values with empty texts and convert numbers to str first."
            )


def label_array(labels: Labels, text_count: int) -> NDArray[Any]:
    """Validate that there is one label per text and return the labels as a NumPy array.

    Its type is str, int64 or bool.
    """
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        got = "one str" if isinstance(labels, str) else type(labels).__name__
        raise DataError(f"expected a list of labels, one for each text, got {got}.")
    values = _as_list(labels)
    if len(values) != text_count:
        raise DataError(
            f"{text_count} texts but {len(values)} labels. Give one label for each text."
        )
    if _is_string_column(labels):
        return np.asarray(values, dtype=np.str_)
    kinds = {_label_kind(label, i) for i, label in enumerate(values)}
    if len(kinds) > 1:
        raise DataError(
            f"labels must be all str, all int or all bool, got {' and '.join(sorted(kinds))}."
        )
    return np.asarray(values, dtype=_DTYPES[kinds.pop()] if kinds else np.str_)


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
    if isinstance(label, int | np.integer):
        return "int"
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return "int"
    if isinstance(label, list | tuple | set | frozenset | np.ndarray):
        raise DataError(
            f"labels[{position}] is {label!r}: multi-label is not supported. "
            "Give one label per text."
        )
    raise DataError(
        f"labels[{position}] is {label!r} ({type(label).__name__}), expected a str, int or bool."
    )
