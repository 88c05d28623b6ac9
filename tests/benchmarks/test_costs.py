"""Costs of the leaderboard's models, measured without reading test labels."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.costs import (
    EXPERIMENT,
    MODELS,
    describe_cpu,
    few_texts,
    measure_costs,
    record_costs,
)
from lamatext.data.sources import load_dataset
from paper.records import Record, Records
from tests.paper.tiny_datasets import write_datasets

pytestmark = pytest.mark.filterwarnings("ignore:.*texts in its.*")


@pytest.fixture(autouse=True)
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))


def test_each_cost_has_a_record_and_accuracy_has_none(tmp_path: Path) -> None:
    records = Records(tmp_path)

    record_costs(records, "r8", "tfidf")

    costs = {record.metric: record.number for record in records.of(EXPERIMENT)}
    assert costs.keys() == {"bytes", "texts_per_second", "latency_ms", "seconds"}
    assert min(costs.values()) > 0
    assert records.of(EXPERIMENT)[0].device == describe_cpu()


@pytest.mark.parametrize(("cores", "ending"), [(1, ", 1 core"), (2, ", 2 cores")])
def test_the_device_names_the_usable_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, ending: str
) -> None:
    monkeypatch.setattr("benchmarks.costs.usable_cores", lambda: cores)

    assert describe_cpu().endswith(ending)


def test_the_default_recipe_is_measured_as_saved() -> None:
    unlabelled = replace(load_dataset("r8", split="test"), labels=None)

    costs = measure_costs(load_dataset("r8"), unlabelled, "default")

    assert costs.seconds is not None
    assert costs.seconds > 0
    assert 10_000 < costs.bytes < 10_000_000


def test_existing_costs_are_not_measured_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add([Record(EXPERIMENT, "no-such-set", "tfidf", "bytes", 1.0)])

    record_costs(records, "no-such-set", "tfidf")

    assert len(records.of(EXPERIMENT)) == 1


def test_a_model_that_is_not_in_the_leaderboard_is_skipped(tmp_path: Path) -> None:
    record_costs(Records(tmp_path), "imdb", "tfidf-chars")

    assert not Records(tmp_path).of(EXPERIMENT)


def test_the_warm_up_texts_cover_each_class() -> None:
    some = few_texts(load_dataset("clothing"))

    assert some.labels is not None
    assert sorted(some.labels.to_pylist()) == ["1"] * 10 + ["5"] * 10


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_be_measured(model: str) -> None:
    costs = measure_costs(load_dataset("r8"), load_dataset("r8", split="test"), model)

    assert (costs.seconds is None) == (model == "minilm")


def test_the_command_measures_the_named_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["costs", "--datasets", "r8", "--models", "tfidf", "--records", str(tmp_path)]

    assert main(command) == 0

    assert {record.model for record in Records(tmp_path).of(EXPERIMENT)} == {"tfidf"}
    assert "r8 tfidf:" in capsys.readouterr().out
