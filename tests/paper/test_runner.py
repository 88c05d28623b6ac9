"""Trials side by side: recorded one by one, taken up where they stopped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from paper.predictions import unpacked
from paper.prepared import load_prepared
from paper.records import Results
from paper.runner import Place, run_all
from paper.trial import SCORES, Trial, part_of, run_trial
from tests.paper.made import write_sets

FEW = (("training.epochs", 2),)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    write_sets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    return Place(tmp_path / "results", tmp_path / "prepared", "cpu")


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_set_read_back_is_the_set_that_was_prepared(place: Place) -> None:
    made = load_prepared("r8", place.prepared)

    again = load_prepared("r8", place.prepared)

    assert (again.trained, again.classes) == (60, ("money-fx", "ship"))
    assert again.tokens.types == made.tokens.types
    assert again.tokens.rows.ids.tolist() == made.tokens.rows.ids.tolist()
    assert again.labels.tolist() == made.labels.tolist()


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_fold_trains_on_other_rows_than_it_stops_by_and_never_on_test(place: Place) -> None:
    data = load_prepared("r8", place.prepared)

    parts = [part_of(Trial("heads", "r8", "avg", 0, fold), data) for fold in range(3)]

    held = [row for part in parts for row in part.valid.tolist()]
    assert sorted(held) == list(range(data.trained))
    assert all(not set(part.train.tolist()) & set(part.valid.tolist()) for part in parts)


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_trial_of_cross_validation_never_sees_the_test_part(place: Place) -> None:
    data = load_prepared("r8", place.prepared)

    outcome = run_trial(Trial("heads", "r8", "avg", 0, 1, FEW), data, torch.device("cpu"))

    assert outcome.correct is None
    assert {record.metric for record in outcome.records} == {"valid_accuracy", "valid_curve"}


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_final_trial_is_scored_on_the_test_part(place: Place) -> None:
    data = load_prepared("r8", place.prepared)

    outcome = run_trial(Trial("accuracy", "r8", "avg", values=FEW), data, torch.device("cpu"))

    found = {record.metric: record.value for record in outcome.records}
    assert set(found) == {"valid_accuracy", "valid_curve", *SCORES}
    assert outcome.correct is not None
    right = unpacked(outcome.correct, len(data.labels) - data.trained)
    assert found["accuracy"] == right.mean()


@pytest.mark.slow
def test_a_deleted_record_is_computed_again_and_comes_out_the_same(place: Place) -> None:
    said: list[str] = []

    def todo(results: Results) -> Iterator[Trial]:  # noqa: ARG001 - what run_all calls
        for model in ("avg", "lama-ctx"):
            yield Trial("accuracy", "r8", model, values=FEW)

    run_all(place, todo, workers=1, minutes=5, say=said.append)
    first = {record.key: record.value for record in Results(place.results).of("accuracy")}
    path = place.results / "accuracy.json"
    kept = [line for line in path.read_text().splitlines() if '"lama-ctx"' not in line]
    path.write_text("\n".join(kept).replace("},\n]", "}\n]"))
    said.clear()

    run_all(place, todo, workers=1, minutes=5, say=said.append)

    assert not [line for line in said if "avg" in line]  # it has its records
    again = {record.key: record.value for record in Results(place.results).of("accuracy")}
    assert again == first
    assert said[-1] == "0 trials remain, 0 failed"


@pytest.mark.slow
def test_a_run_out_of_time_says_what_is_left(place: Place) -> None:
    said: list[str] = []

    def todo(results: Results) -> Iterator[Trial]:  # noqa: ARG001 - what run_all calls
        yield Trial("accuracy", "r8", "avg", values=FEW)

    run_all(place, todo, workers=1, minutes=0, say=said.append)

    assert said == ["1 trials remain, 0 failed"]
