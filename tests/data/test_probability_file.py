"""Probability files: matching their rows with the data, and files that do not fit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.probability_file import (
    IdColumn,
    ProbabilityTable,
    match_probabilities,
    read_probability_columns,
)
from lamatext.errors import DataError

TEXTS = ["good film", "bad film", "so so"]
CLASSES = ["neg", "pos"]
IDS = IdColumn("key", ["a", "b", "c"])


def match(columns: dict[str, list[str]], **more: object) -> ProbabilityTable:
    return match_probabilities(
        pa.table(columns),
        CLASSES,
        TEXTS,
        source="votes.csv",
        **more,  # type: ignore[arg-type]
    )


POS, NEG = ["0.9", "0.2", "0.5"], ["0.1", "0.8", "0.5"]


def test_rows_match_by_order_without_a_column_of_texts() -> None:
    table = match({"pos": POS, "neg": NEG})
    expected = np.array([[0.8, 0.2], [0.1, 0.9]], np.float32)
    np.testing.assert_allclose(table.look_up(["bad film", "good film"]), expected)


def test_rows_match_by_text_in_any_order() -> None:
    table = match({"text": TEXTS[::-1], "pos": POS[::-1], "neg": NEG[::-1]})
    np.testing.assert_allclose(table.look_up(["good film"]), [[0.1, 0.9]], atol=1e-7)


def test_rows_match_by_the_text_column_of_the_data() -> None:
    table = match({"Body": TEXTS, "pos": POS, "neg": NEG}, text_column="Body")
    np.testing.assert_allclose(table.look_up(["so so"]), [[0.5, 0.5]])


def test_rows_match_by_id() -> None:
    table = match(
        {"key": ["c", "b", "a"], "pos": POS[::-1], "neg": NEG[::-1]},
        ids=IDS,
    )
    np.testing.assert_allclose(table.look_up(["good film"]), [[0.1, 0.9]], atol=1e-7)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"pos": POS[:2], "neg": NEG[:2]}, "2 rows, but the data has 3"),
        ({"pos": POS}, "no column for the class 'neg'"),
        ({"pos": POS, "neg": NEG, "meh": NEG}, "'meh' is not a class"),
        ({"pos": ["0.9", "0.2", "0.9"], "neg": NEG}, r"row 3 is \[0.5, 0.9\]"),
        ({"pos": ["1.5", "0.2", "0.5"], "neg": ["-0.5", "0.8", "0.5"]}, "row 1 is"),
        ({"pos": ["nan", "0.2", "0.5"], "neg": NEG}, "row 1 is"),
        ({"pos": ["much", "0.2", "0.5"], "neg": NEG}, "must hold numbers"),
    ],
)
def test_a_file_that_does_not_fit_is_an_error(columns: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        match(columns)


def test_a_text_without_probabilities_is_an_error_that_names_it() -> None:
    table = match({"text": TEXTS, "pos": POS, "neg": NEG})
    with pytest.raises(DataError, match="no probabilities for 1 of 2 texts; the first is 'new'"):
        table.look_up(["so so", "new"])


def test_an_id_that_occurs_twice_is_an_error() -> None:
    columns = {"key": ["a", "a", "b"], "pos": POS, "neg": NEG}
    with pytest.raises(DataError, match="the same id in two rows"):
        match(columns, ids=IDS)


def test_a_missing_id_column_is_an_error() -> None:
    with pytest.raises(DataError, match="no column 'key'"):
        match({"pos": POS, "neg": NEG}, ids=IDS)


def test_rows_of_several_labels_need_no_sum_of_one() -> None:
    table = match({"pos": ["0.9", "0", "1"], "neg": ["0.8", "0", "0.3"]}, multi_label=True)
    expected = np.array([[0.8, 0.9], [0.0, 0.0], [0.3, 1.0]], np.float32)
    np.testing.assert_allclose(table.look_up(TEXTS), expected)


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan", ""])
def test_a_probability_of_a_label_outside_0_to_1_is_an_error(value: str) -> None:
    with pytest.raises(
        DataError, match=r"row 2 is .*, expected probabilities from 0 to 1\.$|numbers"
    ):
        match({"pos": ["0.9", value, "1"], "neg": NEG}, multi_label=True)


def test_a_column_that_occurs_twice_is_an_error() -> None:
    table = pa.table([["1"], ["0"], ["0"]], names=["neg", "pos", "pos"])

    with pytest.raises(DataError, match="several columns are called 'pos'"):
        match_probabilities(table, ["neg", "pos"], ["a film"], source="votes.csv")


@pytest.mark.parametrize("ids", [None, IdColumn("key", ["a", "b", "c"])])
def test_a_text_with_two_different_rows_is_an_error(ids: IdColumn | None) -> None:
    columns = {"pos": POS, "neg": NEG} | ({} if ids is None else {"key": ["a", "b", "c"]})

    with pytest.raises(
        DataError, match=r"rows 1 and 3 have the same text, 'x', but different prob"
    ):
        match_probabilities(
            pa.table(columns), CLASSES, ["x", "bad film", "x"], source="votes.csv", ids=ids
        )


def test_a_text_may_have_two_equal_rows() -> None:
    columns = {
        "text": ["x", "y", "x"],
        "pos": ["0.9", "0.2", "0.9001"],
        "neg": ["0.1", "0.8", "0.1"],
    }

    table = match(columns)

    np.testing.assert_allclose(table.look_up(["x"]), [[0.1, 0.9]], atol=1e-3)


def test_classes_that_are_numbers_are_the_header(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("1,2,3\n0.5,0.5,0\n0,0,1\n")

    assert read_probability_columns(path).column_names == ["1", "2", "3"]


def test_a_row_with_too_few_fields_is_an_error_that_names_no_missing_option(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("text,pos,neg\na,0.5,0.5\nb,0.5\n")

    with pytest.raises(
        DataError, match=r"p\.csv:3: expected 3 fields .* Add the missing fields\.$"
    ):
        read_probability_columns(path)
