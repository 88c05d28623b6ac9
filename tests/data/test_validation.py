from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

from lamatext.data.validation import label_array, label_lists, text_column, text_list
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


@pytest.mark.parametrize(
    "labels", [[["b", "a"], [], ["b"]], [{"a", "b"}, set(), {"b"}], [("b", "a", "b"), (), ("b",)]]
)
def test_lists_sets_and_tuples_are_several_labels(labels: list[Any]) -> None:
    lists = label_lists(labels, 3)

    assert lists is not None
    assert [sorted(row) for row in lists.rows] == [["a", "b"], [], ["b"]]
    assert lists.classes == ("a", "b")
    assert lists.form == ("sets" if isinstance(labels[0], set) else "lists")


def test_an_indicator_matrix_has_a_label_for_each_column() -> None:
    matrix = np.array([[1, 0, 1], [0, 0, 0]])

    for form in (matrix, matrix.astype(bool), csr_matrix(matrix)):
        lists = label_lists(form, 2)
        assert lists is not None
        assert lists == ([[0, 2], []], (0, 1, 2), "indicator")


def test_the_columns_of_a_data_frame_are_the_labels() -> None:
    lists = label_lists(pd.DataFrame({"x": [1, 0], "a": [1, 1]}), 2)

    assert lists == ([["x", "a"], ["a"]], ("x", "a"), "indicator")


def test_one_label_for_each_text_is_not_a_list() -> None:
    assert label_lists(["a", "b"], 2) is None
    assert label_lists(np.array([[1], [0]]), 2) is None


BAD_LISTS = {
    "mixed": (["a", ["b"]], r"labels\[1\] is \['b'\], but labels\[0\] is 'a'"),
    "mixed later": ([["b"], "a"], r"labels\[1\] is 'a', but labels\[0\] is \['b'\]"),
    "no label": ([[], []], "every list of labels is empty"),
    "types": ([["a"], [1]], "all str, all int or all bool, got int and str"),
    "counts": ([["a"]], "2 texts but 1 label\\."),
    "matrix": (np.array([[2, 0], [0, 1]]), "expected an indicator matrix of 0 and 1"),
    "long matrix": (np.eye(3), "2 texts but 3 labels"),
}


@pytest.mark.parametrize(("labels", "message"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_bad_lists_of_labels_are_errors(labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        label_lists(labels, 2)


def test_the_labels_of_a_set_are_sorted() -> None:
    found = label_lists([set("thequickbrownfoxjumpsoverthelazydog"), {"a"}], 2)

    assert found is not None
    assert found.rows == [sorted("abcdefghijklmnopqrstuvwxyz"), ["a"]]


def test_whole_floats_in_lists_are_int_labels() -> None:
    lists = label_lists([[1.0, 2.0], [2.0]], 2)

    assert lists is not None
    assert lists.classes == (1, 2)
    assert lists.column().to_pylist() == [["1", "2"], ["2"]]


@pytest.mark.parametrize("labels", [[2**63, 1], [[2**63], [1]]])
def test_an_int_of_more_than_64_bits_is_an_error(labels: list[Any]) -> None:
    with pytest.raises(DataError, match=r"labels\[0\] is 9223372036854775808, .*more than 64 bits"):
        label_lists(labels, 2) or label_array(labels, 2)
