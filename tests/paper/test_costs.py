"""Every model of the leaderboard measured by one hand; the test labels are not looked at."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lamatext.data.sources import load_dataset
from paper.costs import (
    EXPERIMENT,
    MODELS,
    empty_cache,
    handful,
    measure_costs,
    run_costs,
)
from paper.records import Record, Results
from tests.paper.made import write_sets

pytestmark = pytest.mark.filterwarnings("ignore:.*texts in its.*")


@pytest.fixture(autouse=True)
def _sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))


def test_a_record_for_each_cost_and_none_of_accuracy(tmp_path: Path) -> None:
    results = Results(tmp_path)

    run_costs(results, "r8", "tfidf")

    found = {record.metric: record.number for record in results.of(EXPERIMENT)}
    assert found.keys() == {"bytes", "texts_per_second", "latency_ms", "seconds"}
    assert min(found.values()) > 0
    assert "cores" in results.of(EXPERIMENT)[0].device


def test_our_own_row_is_measured_as_saved() -> None:
    unlabelled = replace(load_dataset("r8", split="test"), labels=None)

    found = measure_costs(load_dataset("r8"), unlabelled, "default")

    assert found.seconds is not None
    assert found.seconds > 0
    assert 10_000 < found.bytes < 10_000_000


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add([Record(EXPERIMENT, "no-such-set", "tfidf", "bytes", 1.0)])

    run_costs(results, "no-such-set", "tfidf")

    assert len(results.of(EXPERIMENT)) == 1


def test_a_row_that_the_leaderboard_has_not_is_left_out(tmp_path: Path) -> None:
    run_costs(Results(tmp_path), "imdb", "tfidf-chars")

    assert not Results(tmp_path).of(EXPERIMENT)


def test_a_handful_has_some_texts_of_each_class() -> None:
    some = handful(load_dataset("clothing"))

    assert some.labels is not None
    assert sorted(some.labels.to_pylist()) == ["1"] * 10 + ["5"] * 10


def test_the_cache_is_empty_for_a_while_and_then_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", "kept")

    with empty_cache():
        inside = Path(os.environ["LAMATEXT_CACHE"])
        assert not list(inside.iterdir())

    assert os.environ["LAMATEXT_CACHE"] == "kept"
    assert not inside.exists()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_be_measured(model: str) -> None:
    found = measure_costs(load_dataset("r8"), load_dataset("r8", split="test"), model)

    assert (found.seconds is None) == (model == "minilm")
