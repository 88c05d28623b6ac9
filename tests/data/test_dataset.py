from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.errors import DataError


def dataset(
    texts: list[str], labels: list[str] | list[int] | None, source: str = "a.csv"
) -> Dataset:
    cut = len(texts) // 2
    return Dataset(
        pa.chunked_array([texts[:cut], texts[cut:]], pa.large_string()),
        None if labels is None else pa.chunked_array([labels]),
        source,
    )


@pytest.mark.parametrize("rows", [[0, 1, 3, 4], [4, 0, 2], [2, 2], []])
def test_take_returns_texts_and_labels_of_the_rows_in_order(rows: list[int]) -> None:
    texts, labels = ["a", "b", "c", "d", "e"], ["1", "2", "3", "4", "5"]

    taken = dataset(texts, labels).take(np.array(rows, np.int64))

    assert taken.texts.to_pylist() == [texts[row] for row in rows]
    assert taken.require_labels().to_pylist() == [labels[row] for row in rows]
    assert taken.source == "a.csv"


def test_concatenation_appends_the_rows_and_keeps_the_first_source() -> None:
    both = dataset(["a", "b"], [1, 2]).concatenate(dataset(["c"], [3], "b.csv"))

    assert both.texts.to_pylist() == ["a", "b", "c"]
    assert both.require_labels().to_pylist() == [1, 2, 3]
    assert both.source == "a.csv"


def test_equal_group_values_of_concatenated_datasets_are_one_group() -> None:
    first, second = dataset(["a", "b"], [1, 2]), dataset(["c"], [3], "b.csv")
    customers = replace(first, group_values=pa.chunked_array([["ann", "bob"]]))

    assert first.concatenate(second).group_values is None
    for both, expected in (
        (customers.concatenate(second), ["ann", "bob", ""]),
        (second.concatenate(customers), ["", "ann", "bob"]),
        (customers.concatenate(customers), ["ann", "bob", "ann", "bob"]),
    ):
        assert both.group_values is not None
        assert both.group_values.to_pylist() == expected


def test_missing_labels_are_an_error_that_names_the_source() -> None:
    unlabelled = dataset(["c"], None, "b.csv")

    assert unlabelled.take(np.array([0])).labels is None
    with pytest.raises(DataError, match=r"b.csv: no labels. .*--label-column"):
        dataset(["a"], ["x"]).concatenate(unlabelled)


def test_a_label_without_a_new_name_stays_as_it_is() -> None:
    renamed = dataset(["a", "b"], ["0", "1"]).rename_labels({"0": "neg"})

    assert renamed.require_labels().to_pylist() == ["neg", "1"]


def test_a_list_has_each_new_name_once() -> None:
    lists = pa.chunked_array([pa.array([["a", "A", "b"], []], pa.list_(pa.string()))])
    renamed = Dataset(dataset(["x", "y"], None).texts, lists, "made up").rename_labels({"A": "a"})

    assert renamed.is_multi_label
    assert renamed.require_labels().to_pylist() == [["a", "b"], []]


def test_the_fingerprint_does_not_depend_on_the_size_of_its_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = dataset(["a", "b", "c"], ["x", "yy", ""])
    whole = dataset_fingerprint(data)

    monkeypatch.setattr("lamatext.data.dataset._BLOCK_CHARACTERS", 2)

    assert dataset_fingerprint(data) == whole
    assert whole == fingerprint(data.texts, np.asarray(["x", "yy", ""], np.str_))
