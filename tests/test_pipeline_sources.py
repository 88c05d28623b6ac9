"""Data files of a pipeline run: columns of groups and times, and validation texts."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset
from lamatext.errors import ConfigError, DataError
from lamatext.pipeline import (
    DataSources,
    Splits,
    describe_splits,
    fit_recipe,
    is_finished,
    read_splits,
    train_and_score,
)
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.saved.model_card import data_facts
from tests.corpora import TINY, reviews, write_csv

RECIPE = resolve_recipe(values=TINY)
OPTIONS = {"who": ReadOptions(group_column="who"), "when": ReadOptions(time_column="when")}


def write_tickets(path: Path, count: int, *, seed: int = 0) -> str:
    """Reviews with a column of groups and a column of dates."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "who", "when"))
        rows = zip(*reviews(count, seed=seed), strict=True)
        writer.writerows(
            (*row, f"c{n % 9}", f"2026-01-{n % 28 + 1:02}") for n, row in enumerate(rows)
        )
    return str(path)


@pytest.fixture
def tickets(tmp_path: Path) -> str:
    return write_tickets(tmp_path / "tickets.csv", 60)


@pytest.mark.parametrize("column", OPTIONS)
def test_files_for_testing_and_validation_may_lack_the_group_and_time_columns(
    column: str, tickets: str, tmp_path: Path
) -> None:
    test = str(write_csv(tmp_path / "test.csv", 20, seed=3))
    validation = str(write_csv(tmp_path / "validation.csv", 20, seed=4))

    splits = read_splits(DataSources(tickets, test, validation, reading=OPTIONS[column]), RECIPE)

    assert splits.validation is not None
    for part in (splits.test, splits.validation):
        assert len(part) == 20
        assert part.group_values is None
        assert part.times is None
    assert (splits.train.group_values is None) == (column != "who")
    assert (splits.train.times is None) == (column != "when")


@pytest.mark.parametrize("column", OPTIONS)
def test_files_for_testing_and_validation_are_read_with_their_group_and_time_columns(
    column: str, tickets: str, tmp_path: Path
) -> None:
    test = write_tickets(tmp_path / "test.csv", 20, seed=3)
    validation = write_tickets(tmp_path / "validation.csv", 20, seed=4)

    splits = read_splits(DataSources(tickets, test, validation, reading=OPTIONS[column]), RECIPE)

    assert splits.validation is not None
    for part in (splits.test, splits.validation):
        if column == "who":
            assert part.group_values is not None
            assert part.group_values.to_pylist() == [f"c{n % 9}" for n in range(20)]
        else:
            assert part.times is not None
            assert (np.diff(part.times) == 24 * 60 * 60).all()


@pytest.mark.parametrize("column", OPTIONS)
def test_a_run_with_another_group_or_time_column_is_another_run(
    column: str, tickets: str, tmp_path: Path
) -> None:
    test = write_tickets(tmp_path / "test.csv", 20, seed=3)
    validation = write_tickets(tmp_path / "validation.csv", 20, seed=4)
    sources = DataSources(tickets, test, validation)
    plain = read_splits(sources, RECIPE)
    by_column = read_splits(replace(sources, reading=OPTIONS[column]), RECIPE)
    train_and_score(by_column, RECIPE, tmp_path / "run", SILENT)

    assert is_finished(tmp_path / "run", RECIPE, by_column)
    with pytest.raises(ConfigError, match="nothing to resume, it holds the finished model of an"):
        is_finished(tmp_path / "run", RECIPE, plain)


def test_the_training_file_must_have_the_group_column(tickets: str) -> None:
    with pytest.raises(DataError, match=r"no column 'whom'\. It has text, label, who, when"):
        read_splits(DataSources(tickets, reading=ReadOptions(group_column="whom")), RECIPE)


@pytest.mark.parametrize(
    ("new", "known", "used"), [(40, 0, 40), (40, 1, 41), (40, 4, 40), (0, 40, 0)]
)
@pytest.mark.filterwarnings("ignore:.* are also training texts")
def test_the_model_card_counts_the_validation_texts_that_training_uses(
    new: int, known: int, used: int, tickets: str, tmp_path: Path
) -> None:
    train = load_dataset(tickets)
    others = load_dataset(write_tickets(tmp_path / "others.csv", 40, seed=3))
    copies = train.take(np.arange(known))
    splits = Splits(train, others.take(np.arange(new)).concatenate(copies), others)

    facts = describe_splits(splits)
    model = fit_recipe(RECIPE, splits, SILENT, device="cpu")

    assert facts["validation_texts"] == used
    assert ("validation texts" in data_facts(facts)) == (used > 0)
    held_out = 6  # of the training texts, if no validation text is used
    assert model.facts_["validation"]["texts"] == (used or held_out)
