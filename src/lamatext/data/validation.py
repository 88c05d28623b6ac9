"""What Python callers hand in, checked: lists, arrays and Series of texts and of labels."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.tokenizer import encodable
from lamatext.errors import DataError

Texts: TypeAlias = "Iterable[str] | NDArray[Any] | pa.ChunkedArray"
Labels: TypeAlias = "Sequence[object] | NDArray[Any] | pa.ChunkedArray"


def text_list(texts: Texts) -> list[str]:
    """The texts as a list; anything but one column of str is an error."""
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one text. Wrap it in a list: [text].")
    if not isinstance(texts, Iterable):
        raise DataError(f"expected a list of texts, got {type(texts).__name__}.")
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.to_pylist()
    shape = getattr(texts, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        texts = np.asarray(texts)[:, 0]
    elif shape is not None and len(shape) != 1:
        raise DataError(f"expected one column of texts, got an array of shape {shape}.")
    listed = list(texts)
    check_texts(listed)
    return listed


def text_column(texts: Texts) -> pa.ChunkedArray:
    """The texts as one Arrow column; lone surrogates, which no file can hold, become '?'."""
    if isinstance(texts, pa.ChunkedArray) and not texts.null_count:
        column = texts.cast(pa.large_string())
    else:
        whole = [encodable(text) for text in text_list(texts)]
        column = pa.chunked_array([pa.array(whole, pa.large_string())])
    if not len(column):
        raise DataError("there are no texts. Give at least two, with different labels.")
    return column


def check_texts(texts: Sequence[object]) -> None:
    """Every text must be a str; numpy's are."""
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"text {place} is {text!r} ({type(text).__name__}), expected str. "
                "Turn missing values into empty texts, and numbers into str, first."
            )


def label_array(labels: Labels, texts: int) -> NDArray[Any]:
    """One label for each text, all str or all int."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        got = "one str" if isinstance(labels, str) else type(labels).__name__
        raise DataError(f"expected a list of labels, one for each text, got {got}.")
    if getattr(labels, "shape", (0,))[1:] == (1,):
        labels = np.asarray(labels)[:, 0]
    listed = labels.to_pylist() if isinstance(labels, pa.ChunkedArray) else list(labels)
    if len(listed) != texts:
        raise DataError(f"{texts} texts but {len(listed)} labels. Give one label for each text.")
    kinds = {_kind(label, place) for place, label in enumerate(listed)}
    if len(kinds) > 1:
        raise DataError(f"labels must be all str or all int, got {' and '.join(sorted(kinds))}.")
    return np.asarray(listed, dtype=np.int64 if kinds == {"int"} else np.str_)


def _kind(label: object, place: int) -> str:
    if isinstance(label, str):
        return "str"
    if isinstance(label, (list, tuple, set, frozenset, np.ndarray)):
        raise DataError(
            f"label {place} is {label!r}: multi-label is not supported. Give one label a text."
        )
    if isinstance(label, (bool, int, np.integer, np.bool_)):
        return "int"
    if isinstance(label, (float, np.floating)) and float(label).is_integer():
        return "int"
    raise DataError(
        f"label {place} is {label!r} ({type(label).__name__}), expected a str or an int."
    )
