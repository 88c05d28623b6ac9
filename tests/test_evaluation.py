import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.sources import load_dataset
from lamatext.data.splits import Split, hold_out_validation
from lamatext.data.suspects_file import text_hash
from lamatext.errors import DataError
from lamatext.evaluation import (
    _checked_source,
    find_start_model,
    load_evaluation_data,
)
from lamatext.pipeline import (
    DataSources,
    Splits,
    fit_recipe,
    read_splits,
    split_dataset,
    train_and_score,
)
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from tests.corpora import TINY, write_csv


@pytest.fixture(scope="module", autouse=True)
def _test_sets_may_be_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 1)
        yield


def test_groups_and_times_decide_the_validation_texts_of_data_with_a_test_file(
    tmp_path: Path,
) -> None:
    source = load_dataset(str(write_csv(tmp_path / "texts.csv", 60)))
    customers = pa.chunked_array([[f"c{row % 12}" for row in range(len(source))]])
    times = np.random.default_rng(0).permutation(len(source)).astype(np.float64)
    recipe, test = resolve_recipe(values=TINY), source.take(np.arange(3))

    grouped = split_dataset(replace(source, group_values=customers), None, test, recipe)
    timed = split_dataset(replace(source, times=times), None, test, recipe)

    assert grouped.validation is not None
    columns = grouped.train.group_values, grouped.validation.group_values
    learnt, validated = (set() if column is None else {*column.to_pylist()} for column in columns)
    assert validated
    assert not learnt & validated
    assert timed.validation is not None
    assert timed.validation.times is not None
    assert timed.train.times is not None
    assert timed.validation.times.min() > timed.train.times.max()


def test_groups_stay_together_when_a_model_holds_out_texts_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = load_dataset(str(write_csv(tmp_path / "texts.csv", 60)))
    customers = np.array([f"c{row % 12}" for row in range(len(source))])
    data = replace(source, group_values=pa.chunked_array([customers]))
    splits: list[Split] = []

    def remember(*arguments: Any) -> Split:
        splits.append(hold_out_validation(*arguments))
        return splits[-1]

    monkeypatch.setattr("lamatext.training.trainer.hold_out_validation", remember)
    fit_recipe(resolve_recipe(values=TINY), Splits(data, None, data), SILENT, device="cpu")

    assert set(customers[splits[0].validation])
    assert not set(customers[splits[0].train]) & set(customers[splits[0].validation])


def test_two_groups_with_a_test_file_are_trained_on_without_a_validation_set_of_its_own(
    tmp_path: Path,
) -> None:
    source = load_dataset(str(write_csv(tmp_path / "texts.csv", 20)))
    groups = ["first"] * 10 + ["second"] * 10
    source = replace(source, group_values=pa.chunked_array([groups]))
    recipe = resolve_recipe(values=TINY)

    splits = split_dataset(source, None, source.take(np.arange(3)), recipe)

    assert splits.validation is None
    assert len(splits.train) == len(source)
    with pytest.warns(UserWarning, match="2 groups are too few to hold one out: validation texts"):
        fit_recipe(recipe, splits, SILENT, device="cpu")


@pytest.mark.parametrize("column", ["times", "group_values"])
@pytest.mark.filterwarnings("ignore:.* seen once")
def test_texts_that_cannot_be_separated_are_an_error_that_says_so(column: str) -> None:
    texts = pa.chunked_array([["one text of a kind", "quite another tale"] * 30])
    source = Dataset(texts, pa.chunked_array([["neg", "pos"] * 30]), "copies")
    values = {"times": np.arange(60.0), "group_values": pa.chunked_array([["", ""] * 30])}
    recipe = resolve_recipe(values=TINY)

    with pytest.raises(DataError, match=r"^copies: 60 texts.*, in only 2 sets .*: too few to hold"):
        split_dataset(replace(source, **{column: values[column]}), None, None, recipe)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on nine tenths of learnt.csv, and another file."""
    folder = tmp_path_factory.mktemp("held")
    source = load_dataset(str(write_csv(folder / "learnt.csv", 60)))
    write_csv(folder / "other.csv", 30, seed=9)
    recipe = resolve_recipe(values=TINY)
    train_and_score(
        split_dataset(source, None, None, recipe), recipe, folder / "model", SILENT, device="cpu"
    )
    parts = split_dataset(source, None, load_dataset(str(folder / "other.csv")), recipe)
    train_and_score(parts, recipe, folder / "whole", SILENT, device="cpu")
    return folder


def test_the_tenth_that_was_held_out_is_found_again(place: Path) -> None:
    found = load_evaluation_data(place / "model", str(place / "learnt.csv"))

    assert found.train is not None
    texts, learnt = found.texts.texts.to_pylist(), found.train.texts.to_pylist()
    assert (len(texts), len(learnt)) == (6, 48)
    assert found.about == "the 6 texts that were held out when the model was trained"


def test_it_is_found_where_the_texts_to_stop_by_came_from_elsewhere(place: Path) -> None:
    source, other = load_dataset(str(place / "learnt.csv")), load_dataset(str(place / "other.csv"))
    recipe = resolve_recipe(values=TINY)
    parts = split_dataset(source, other, None, recipe)
    train_and_score(parts, recipe, place / "stopped", SILENT, device="cpu")

    found = load_evaluation_data(place / "stopped", str(place / "learnt.csv"))

    assert found.texts.texts.to_pylist() == parts.test.texts.to_pylist()
    assert len(found.texts) == 6


def leave_out(place: Path, *rows: int) -> Path:
    """Write a list of suspects with some rows of learnt.csv, counted from 0."""
    texts = load_dataset(str(place / "learnt.csv")).texts
    lines = [f"{row + 2},{text_hash(texts[row].as_py())}" for row in rows]
    (place / "suspects.csv").write_text("\n".join(["row,text_hash", *lines, ""]))
    return place / "suspects.csv"


@pytest.mark.parametrize("has_test", [False, True])
def test_the_held_out_texts_of_a_model_trained_without_suspects_are_found_again(
    place: Path, tmp_path: Path, has_test: bool
) -> None:
    recipe, source = resolve_recipe(values=TINY), str(place / "learnt.csv")
    test = str(place / "other.csv") if has_test else None
    sources = DataSources(source, test, without=leave_out(place, 3, 7, 30))
    splits = read_splits(sources, recipe)
    train_and_score(splits, recipe, tmp_path / "model", SILENT, device="cpu")

    found = load_evaluation_data(tmp_path / "model", source)
    start = find_start_model(tmp_path / "model", None)

    expected = splits.train if has_test else splits.test
    assert found.texts.texts.to_pylist() == expected.texts.to_pylist()
    assert found.is_seen == has_test
    assert ", without 3 rows that training left out" in found.about
    assert not start.untested + start.unknown
    assert start.model.tests[0].texts.to_pylist() == splits.test.texts.to_pylist()
    assert start.model.seen[0].texts.to_pylist() == splits.train.texts.to_pylist()


def test_held_out_texts_of_a_model_with_a_validation_file_are_not_taken_for_training_texts(
    place: Path, tmp_path: Path
) -> None:
    recipe, source = resolve_recipe(values=TINY), str(place / "learnt.csv")
    splits = read_splits(DataSources(source, validation=str(place / "other.csv")), recipe)
    train_and_score(splits, recipe, tmp_path / "model", SILENT, device="cpu")

    start = find_start_model(tmp_path / "model", None)

    assert start.model.tests[0].texts.to_pylist() == splits.test.texts.to_pylist()
    assert [part.texts.to_pylist() for part in start.model.seen] == [splits.train.texts.to_pylist()]


def test_held_out_texts_are_found_again_if_all_validation_texts_were_training_texts(
    place: Path, tmp_path: Path
) -> None:
    source, recipe = load_dataset(str(place / "learnt.csv")), resolve_recipe(values=TINY)
    splits = split_dataset(source, source, None, recipe)
    splits = replace(splits, validation=splits.train)
    with pytest.warns(UserWarning, match="so some training texts are held out"):
        train_and_score(splits, recipe, tmp_path / "model", SILENT, device="cpu")

    found = load_evaluation_data(tmp_path / "model", str(place / "learnt.csv"))

    assert found.texts.texts.to_pylist() == splits.test.texts.to_pylist()
    assert not found.is_seen


def test_other_texts_are_taken_whole(place: Path) -> None:
    found = load_evaluation_data(place / "model", str(place / "other.csv"))

    assert (len(found.texts), found.train, found.about) == (30, None, "30 texts")


def test_a_training_file_with_other_rows_is_named_as_such(place: Path) -> None:
    (place / "later").mkdir()
    later = write_csv(place / "later" / "learnt.csv", 30, seed=9)

    found = load_evaluation_data(place / "model", str(later))

    assert "30 texts. A file of this name was the training data, with other rows" in found.about


def test_a_model_that_does_not_know_its_training_rows_is_said_to_know_all(place: Path) -> None:
    streamed = place / "streamed"
    copytree(place / "model", streamed)
    config = json.loads((streamed / "config.json").read_text())
    del config["data"]["sketch"], config["data"]["fingerprint"]
    (streamed / "config.json").write_text(json.dumps(config))

    found = load_evaluation_data(streamed, str(place / "learnt.csv"))

    assert found.about.endswith("training data: the model may have been TRAINED ON these texts")


def test_few_other_texts_are_taken_whole_too(place: Path) -> None:
    write_csv(place / "two.csv", 2, seed=3)

    assert len(load_evaluation_data(place / "model", str(place / "two.csv")).texts) == 2


def test_texts_that_the_model_was_trained_on_are_named_as_such(place: Path) -> None:
    found = load_evaluation_data(place / "whole", str(place / "learnt.csv"))

    assert found.train is found.texts
    assert "TRAINED ON" in found.about


def test_training_texts_under_another_name_are_recognized(place: Path) -> None:
    rows = (place / "learnt.csv").read_text().splitlines()
    (place / "copy.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]))
    other = (place / "other.csv").read_text().splitlines()
    (place / "mixed.csv").write_text("\n".join([*rows[:13], *other[1:]]).upper())

    copied = load_evaluation_data(place / "whole", str(place / "copy.csv"))
    mixed = load_evaluation_data(place / "whole", str(place / "mixed.csv"))

    assert copied.is_seen
    assert copied.about == "60 texts. 60 of these texts were also training texts"
    assert not mixed.is_seen
    assert mixed.about == (
        "42 texts. 12 of these texts were also training texts: the scores are too high"
    )


def test_a_sample_of_many_training_texts_is_enough_to_recognize_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.data.text_sketch.MAX_HASHES", 30)
    source, other = (load_dataset(str(place / name)) for name in ("learnt.csv", "other.csv"))
    recipe = resolve_recipe(values=TINY)
    parts = split_dataset(source, None, other, recipe)
    train_and_score(parts, recipe, place / "sampled", SILENT, device="cpu")
    rows = (place / "learnt.csv").read_text().splitlines()
    (place / "copy.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]))

    found = load_evaluation_data(place / "sampled", str(place / "copy.csv"))

    assert found.is_seen
    sentence = "At least 30 of these texts were also training texts (30 of 60 could be checked)"
    assert sentence in found.about


def test_a_sources_own_test_part_goes_first(place: Path) -> None:
    for part, count in (("train", 20), ("test", 8)):
        folder = place / "parted"
        folder.mkdir(exist_ok=True)
        write_csv(folder / f"{part}.csv", count)

    found = load_evaluation_data(place / "model", str(place / "parted"))

    assert (len(found.texts), found.about) == (8, "its test part, 8 texts")
    assert found.train is not None
    assert len(found.train) == 20


def test_a_remembered_pipe_is_not_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(DataError, match="pipe: a pipe or device"):
        _checked_source(str(tmp_path / "pipe"))
