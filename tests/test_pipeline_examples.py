"""Example texts that training keeps with a model."""

import pyarrow as pa

from lamatext.data.dataset import Dataset
from lamatext.pipeline import choose_test_examples


def dataset(rows: list[tuple[str, str]]) -> Dataset:
    texts, labels = zip(*rows, strict=True)
    column = pa.chunked_array([pa.array(texts, pa.large_string())])
    return Dataset(column, pa.chunked_array([pa.array(labels)]), "made up")


def test_examples_are_short_texts_of_different_classes() -> None:
    rows = [(f"a text of a usual length, number {n}", f"class {n % 6}") for n in range(60)]
    rows += [("short", "class 7"), ("long " * 900, "class 8")]

    examples = choose_test_examples(dataset(rows), 4)

    assert len({one["label"] for one in examples}) == 4
    assert all((one["text"], one["label"]) in rows[:60] for one in examples)
    assert choose_test_examples(dataset(rows), 4) == examples
    assert choose_test_examples(dataset(rows), 0) == []


def test_two_classes_have_two_examples_each_and_long_texts_are_the_second_choice() -> None:
    rows = [(f"{'long ' * 100} {n}", "yes" if n % 2 else "no") for n in range(20)]

    examples = choose_test_examples(dataset(rows), 4)

    assert sorted(one["label"] for one in examples) == ["no", "no", "yes", "yes"]


def test_several_labels_are_written_with_commas() -> None:
    texts = pa.chunked_array([pa.array(["a text of a usual length"], pa.large_string())])
    labels = pa.chunked_array([pa.array([["news", "sport"]])])

    [example] = choose_test_examples(Dataset(texts, labels, "made up"), 4)

    assert example["label"] == "news, sport"
