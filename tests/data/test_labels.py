import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelColumn, LabelEncoder
from lamatext.errors import DataError

COLUMNS = {
    "list of str": ["b", "a", "é", "a", "Z"],
    "array of str": np.array(["b", "a", "é", "a", "Z"]),
    "Arrow strings": pa.chunked_array([["b", "a"], ["é", "a", "Z"]]),
    "list of int": [10, 2, -1, 2],
    "array of int": np.array([10, 2, -1, 2]),
    "Arrow integers": pa.array([10, 2, -1, 2]),
    "list of bool": [True, False, True],
    "array of bool": np.array([True, False, True]),
    "Arrow booleans": pa.array([True, False, True]),
}


@pytest.mark.parametrize("labels", COLUMNS.values(), ids=COLUMNS)
def test_classes_and_indices_equal_those_of_numpy_unique(labels: LabelColumn) -> None:
    values = np.array(labels.to_pylist() if hasattr(labels, "to_pylist") else labels)
    classes, indices = np.unique(values, return_inverse=True)

    encoder = LabelEncoder.fit(labels)

    assert encoder.classes == tuple(classes.tolist())
    np.testing.assert_array_equal(encoder.encode(labels), indices)
    assert encoder.encode(labels).dtype == np.int64


@pytest.mark.parametrize("labels", COLUMNS.values(), ids=COLUMNS)
def test_decoding_returns_the_labels_with_their_type(labels: LabelColumn) -> None:
    values = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    encoder = LabelEncoder.fit(labels)

    decoded: NDArray[np.generic] = encoder.decode(encoder.encode(labels))

    assert decoded.tolist() == values
    assert type(decoded.tolist()[0]) is type(np.array(values).tolist()[0])


def test_an_unknown_label_is_reported_with_its_row_and_the_known_labels() -> None:
    encoder = LabelEncoder.fit(["no", "yes "])

    with pytest.raises(
        DataError,
        match=r"^labels: row 3 has the label 'maybe', which is not among the known labels: "
        r"'no', 'yes '\. Correct the label",
    ):
        encoder.encode(pa.array(["no", "yes ", "maybe", "never"]))


def test_only_the_first_twenty_known_labels_are_listed() -> None:
    encoder = LabelEncoder.fit(range(30))

    with pytest.raises(DataError, match=r"label 99, .* 18, 19, \.\.\.\."):
        encoder.encode([3, 99])


def test_labels_read_from_a_file_match_int_and_bool_classes() -> None:
    numbers = LabelEncoder((2, 10))
    answers = LabelEncoder((False, True))

    assert numbers.encode(pa.array(["10", "2", "10"])).tolist() == [1, 0, 1]
    assert answers.encode(pa.array(["True", "false", "true"])).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="row 1 has the label 'x'"):
        numbers.encode(["x"])


def test_class_names_are_strings_in_the_order_of_the_class_indices() -> None:
    assert LabelEncoder.fit([10, 2]).names == ["2", "10"]
    assert LabelEncoder.fit([True, False]).class_array.dtype == np.bool_


def test_no_labels_at_all_are_an_error() -> None:
    with pytest.raises(DataError, match="no labels to encode"):
        LabelEncoder.fit([])


LISTS = pa.chunked_array([pa.array([["b", "a"], []]), pa.array([["c"]])])


def test_lists_of_labels_become_a_matrix_and_lists_again() -> None:
    encoder = LabelEncoder.fit(LISTS)

    matrix = encoder.encode_lists(LISTS)

    assert encoder.classes == ("a", "b", "c")
    assert matrix.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert encoder.decode_lists(matrix > 0).tolist() == [["a", "b"], [], ["c"]]


def test_lists_read_from_a_file_match_integer_classes() -> None:
    column = pa.array([["2"], ["1", "2"]])

    assert LabelEncoder((1, 2)).encode_lists(column).tolist() == [[0, 1], [1, 1]]


def test_targets_are_indices_or_a_matrix() -> None:
    encoder = LabelEncoder(("a", "b", "c"))

    assert encoder.encode_targets(pa.array(["c", "a"])).tolist() == [2, 0]
    assert encoder.encode_targets(LISTS).shape == (3, 3)


def test_an_unknown_label_in_a_list_names_its_row() -> None:
    with pytest.raises(DataError, match="labels: row 3 has the label 'c', which is not among"):
        LabelEncoder(("a", "b")).encode_lists(LISTS)


def test_unknown_labels_are_dropped_with_a_warning() -> None:
    several = Dataset(pa.chunked_array([["x", "y", "z"]]), LISTS, "there")
    one = Dataset(several.texts, pa.chunked_array([["a", "c", "a"]]), "there")
    encoder = LabelEncoder(("a", "b"))

    with pytest.warns(UserWarning, match=r"there: 1 text has a label .* lacks \('c'\)"):
        known = encoder.drop_unknown(several)
    with pytest.warns(UserWarning, match="over the known labels"):
        rows = encoder.drop_unknown(one)

    assert known.require_labels().to_pylist() == [["b", "a"], [], []]
    assert rows.texts.to_pylist() == ["x", "z"]


def test_no_known_label_at_all_is_an_error() -> None:
    with pytest.raises(DataError, match=r"t: row 1 has .* not among the known labels: 'q'"):
        LabelEncoder(("q",)).drop_unknown(Dataset(pa.chunked_array([["x", "y", "z"]]), LISTS, "t"))
