from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lamatext.data.validation import label_array, text_column, text_list
from lamatext.errors import DataError

MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy objects": lambda values: np.array(values, dtype=object),
    "pandas Series": pd.Series,
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "pandas DataFrame with one column": lambda values: pd.DataFrame({"a": values}),
    "pyarrow Array": pa.array,
    "pyarrow ChunkedArray": lambda values: pa.chunked_array([values[:1], values[1:]]),
    "pyarrow large strings": lambda values: pa.array(values).cast(
        pa.large_string() if isinstance(values[0], str) else pa.array(values).type
    ),
}


def polars_series(values: list[Any]) -> Any:
    return pytest.importorskip("polars").Series(values)


MAKERS["polars Series"] = polars_series


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_texts_are_read_from_every_kind_of_column(make: Callable[[list[Any]], Any]) -> None:
    texts = ["a film", "", "naïve"]

    column = text_column(make(texts))

    assert column.type == pa.large_string()
    assert column.to_pylist() == texts
    assert text_list(make(texts)) == texts


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("labels", "kind"), [(["b", "a"], "U"), ([3, -1], "i"), ([True, False], "b")]
)
def test_labels_of_every_kind_of_column_keep_their_type(
    make: Callable[[list[Any]], Any], labels: list[Any], kind: str
) -> None:
    array = label_array(make(labels), 2)

    assert array.dtype.kind == kind
    assert array.tolist() == labels


def test_whole_floats_are_int_labels() -> None:
    assert label_array(pd.Series([1.0, 2.0]), 2).dtype == np.int64


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_texts_that_are_numbers_are_an_error(make: Callable[[list[Any]], Any]) -> None:
    with pytest.raises(DataError, match=r"texts\[0\] is .*1.*, expected str"):
        text_column(make([1, 2]))


@pytest.mark.parametrize("make", [list, pd.Series, pa.array, polars_series])
def test_a_missing_text_is_an_error(make: Callable[[list[Any]], Any]) -> None:
    with pytest.raises(DataError, match=r"texts\[1\] is (None|nan) .*expected str"):
        text_column(make(["a", None]))


@pytest.mark.parametrize("make", [list, pd.Series, pa.array, polars_series])
def test_a_missing_label_is_an_error(make: Callable[[list[Any]], Any]) -> None:
    with pytest.raises(DataError, match=r"labels\[1\] is (None|nan) .*expected a str, int or bool"):
        label_array(make(["a", None]), 2)


def test_labels_of_two_types_are_an_error() -> None:
    with pytest.raises(DataError, match="all str, all int or all bool, got bool and int"):
        label_array([True, 2], 2)


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert text_column(["a \ud800 b"]).to_pylist() == ["a ? b"]
