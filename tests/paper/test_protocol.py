"""The training runs of the protocol, and the choice of the number of heads."""

import shutil
from pathlib import Path

import pytest

from paper import protocol
from paper.ablation import PROBES
from paper.datasets import count_datasets
from paper.heads import HEADS, chosen_heads
from paper.linear_baselines import BASELINE_NAMES, measure_baseline
from paper.protocol import SEEDS, TRAINED_SYSTEMS, final_runs
from paper.published_results import DATASETS, published_accuracy
from paper.records import PAPER_RECORDS, Records
from paper.runtime import measure_scaling
from paper.training_run import TrainingRun


def all_folds(dataset: str = "r8", model: str = "lama-ctx") -> list[TrainingRun]:
    return [
        TrainingRun("heads", dataset, model, 0, fold, (("model.heads", each),))
        for fold in range(3)
        for each in HEADS
    ]


def all_runs() -> list[TrainingRun]:
    """All training runs, given the records in the repository."""
    records, runs = Records(PAPER_RECORDS), []
    for dataset in DATASETS:
        runs += [
            *protocol.cross_validation_runs(dataset),
            *protocol.final_runs(records, dataset),
            *protocol.fine_tuning_runs(dataset),
            *protocol.ablation_runs(dataset),
            *protocol.probe_runs(dataset),
            *protocol.attention_runs(dataset),
        ]
    return runs


def record_folds(records: Records, best: int) -> None:
    for run in all_folds():
        score = 0.9 if dict(run.settings)["model.heads"] == best else 0.8
        records.add([run.record("validation_accuracy", score)])


def test_the_heads_with_the_best_mean_over_all_folds_are_chosen(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert chosen_heads(records.of("heads"), "r8", "lama-ctx") is None

    record_folds(records, best=10)

    assert chosen_heads(records.of("heads"), "r8", "lama-ctx") == 10


def test_the_final_runs_wait_for_the_choice(tmp_path: Path) -> None:
    records = Records(tmp_path)
    before = {run.model for run in final_runs(records, "r8")}

    record_folds(records, best=10)

    after = [run for run in final_runs(records, "r8") if run.model == "lama-ctx"]
    assert not {"lama-ctx", "san"} & before
    assert [(run.seed, run.settings) for run in after] == [
        (seed, (("model.heads", 10),)) for seed in SEEDS
    ]


def test_every_system_runs_three_seeds_where_nothing_is_chosen(tmp_path: Path) -> None:
    found = list(final_runs(Records(tmp_path), "news"))

    assert len(found) == len(set(found)) == len(TRAINED_SYSTEMS) * 3


def test_every_run_of_the_protocol_has_a_recipe() -> None:
    for run in all_runs():
        assert run.recipe.model.name == run.model


def test_the_records_in_the_repository_are_recognised_and_not_computed_again() -> None:
    records = Records(PAPER_RECORDS)

    missing = [run for run in all_runs() if not records.has(run.key)]

    assert len(all_runs()) == 393
    assert missing == []


def test_no_record_in_the_repository_is_without_a_run_that_makes_it() -> None:
    made = {run.key[:3] + run.key[4:] for run in all_runs()}
    trained = ("accuracy", "heads", "ablation", "probe", "keywords")

    for experiment in trained:
        for record in Records(PAPER_RECORDS).of(experiment):
            key = record.key[:3] + record.key[4:]
            assert key in made or record.model in BASELINE_NAMES, record


def test_every_probe_is_run_once() -> None:
    assert len([run for run in all_runs() if run.experiment == "probe"]) == len(PROBES)


def test_published_accuracies_are_those_of_the_paper() -> None:
    assert published_accuracy("lama-ctx", "r8") == 0.973
    assert published_accuracy("lama-encoder", "imdb") == 0.830
    assert published_accuracy("bert", "clothing-polarity") == 0.97
    assert published_accuracy("lama-ctx", "mr") is None
    assert published_accuracy("lama-encoder", "news") is None
    assert len(DATASETS) == 7


def test_records_without_training_runs_are_recognised_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "no data"))
    shutil.copytree(PAPER_RECORDS, tmp_path / "records")
    records = Records(tmp_path / "records")
    before = {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.json")}

    assert count_datasets(records, tuple(DATASETS)) == []
    measure_scaling(records)
    for dataset in DATASETS:
        for baseline in BASELINE_NAMES:
            measure_baseline(records, dataset, baseline)

    after = {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.json")}
    assert after == before
