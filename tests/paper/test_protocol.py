"""The training runs of the protocol, and the choice of the number of heads."""

import shutil
from pathlib import Path

import pytest

from lamatext.errors import DataError
from paper import choices, protocol
from paper.ablation import DIVERGENT_MODELS, PROBES, SUM_OVER_BATCH
from paper.datasets import count_datasets
from paper.heads import HEADS
from paper.linear_baselines import BASELINE_NAMES, measure_baseline
from paper.protocol import final_runs
from paper.published_results import DATASETS, published_accuracy
from paper.records import PAPER_RECORDS, Records
from paper.runtime import measure_scaling
from paper.training_run import TrainingRun


def all_runs() -> list[TrainingRun]:
    """All training runs, given the records in the repository."""
    records, runs = Records(PAPER_RECORDS), []
    for dataset in DATASETS:
        runs += [
            *choices.choice_runs(dataset),
            *protocol.cross_validation_runs(dataset),
            *protocol.final_runs(records, dataset),
            *protocol.fold_runs(dataset),
            *protocol.fine_tuning_runs(dataset),
            *protocol.bert_runs(dataset),
            *protocol.ablation_runs(dataset),
            *protocol.probe_runs(dataset),
            *protocol.attention_runs(dataset),
        ]
    return runs


def record_heads(records: Records, model: str, accuracies: dict[int, float]) -> None:
    settings = (*choices.recipe_schedule(), *choices.penalty_settings(model))
    for heads, accuracy in accuracies.items():
        run = choices.heads_run("r8", model, heads, settings)
        records.add([run.record("validation_accuracy", accuracy)])


def test_the_heads_that_are_best_on_validation_are_chosen_for_lama_too(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert choices.chosen_heads(records, "r8", "lama") is None

    record_heads(records, "lama", {heads: 0.9 if heads == 10 else 0.8 for heads in HEADS})

    assert choices.chosen_heads(records, "r8", "lama") == 10


def test_of_tied_numbers_of_heads_the_smallest_is_used_and_all_are_shown(tmp_path: Path) -> None:
    records = Records(tmp_path)

    record_heads(records, "san", {1: 0.8, 5: 0.9, 10: 0.85, 15: 0.9, 20: 0.7})

    assert choices.chosen_heads(records, "r8", "san") == 5
    row = next(
        line for line in choices.chosen_heads_table(records).splitlines() if "r8, SAN" in line
    )
    assert row.count("**.900**") == 2


def test_the_final_runs_wait_for_the_choice_of_heads(tmp_path: Path) -> None:
    records = Records(tmp_path)
    before = {run.model for run in final_runs(records, "r8")}

    record_heads(records, "lama-ctx", {heads: 0.9 if heads == 10 else 0.8 for heads in HEADS})

    after = [run for run in final_runs(records, "r8") if run.model == "lama-ctx"]
    assert not {"lama-ctx", "lama-ctx-dp", "lama", "san"} & before
    assert [run.seed for run in after] == [0, 1, 2, 3, 4]
    assert {dict(run.settings)["model.heads"] for run in after} == {10}
    assert "lama-ctx-dp" in {run.model for run in final_runs(records, "r8")}


def record_schedules(records: Records, dataset: str, accuracies: tuple[float, ...]) -> None:
    runs = [run for run in choices.schedule_runs(dataset) if run.model == "avg"]
    for run, accuracy in zip(runs, accuracies, strict=False):
        records.add([run.record("validation_accuracy", accuracy)])


def test_the_schedule_is_chosen_by_the_mean_over_systems_that_have_all_three(
    tmp_path: Path,
) -> None:
    records = Records(tmp_path)
    assert choices.choose_schedule(records) is None

    record_schedules(records, "r8", (0.9, 0.8, 0.7))
    record_schedules(records, "mr", (0.5, 0.7, 0.5))
    record_schedules(records, "news", (0.1, 0.1))  # one schedule is missing: does not count

    assert choices.choose_schedule(records) == list(choices.SCHEDULES.values())[1]


def test_the_penalty_of_san_is_chosen_by_the_mean_over_data_sets(tmp_path: Path) -> None:
    records, schedule = Records(tmp_path), choices.recipe_schedule()
    for dataset, accuracies in (("r8", (0.9, 0.8, 0.7)), ("mr", (0.5, 0.7, 0.5))):
        for run, accuracy in zip(choices.penalty_runs(dataset, schedule), accuracies, strict=True):
            records.add([run.record("validation_accuracy", accuracy)])

    assert choices.choose_penalty(records, schedule) == choices.PENALTIES[1]


def test_choices_are_never_scored_on_test() -> None:
    assert not any(run.is_tested for run in choices.choice_runs("r8"))
    assert all(run.is_tested for run in protocol.fold_runs("r8"))


def test_the_papers_own_protocol_trains_three_folds_for_each_number_of_heads() -> None:
    runs = [run for run in protocol.fold_runs("r8") if run.model == "lama"]

    assert len(runs) == len(set(runs)) == 3 * len(HEADS)
    assert {run.fold for run in runs} == {0, 1, 2}
    assert len([run for run in protocol.fold_runs("r8") if run.model == "avg"]) == 3
    assert [run.fold for run in protocol.bert_fold_runs("r8")] == [0, 1, 2]


def test_every_system_runs_five_seeds_on_the_small_sets_and_three_elsewhere(
    tmp_path: Path,
) -> None:
    for dataset, seeds in (("r8", 5), ("mr", 5), ("news", 3), ("yelp", 3)):
        found = [run for run in final_runs(Records(tmp_path), dataset) if run.model == "avg"]
        assert [run.seed for run in found] == list(range(seeds))


def test_every_run_of_the_protocol_has_a_recipe() -> None:
    for run in all_runs():
        assert run.recipe.model.name == run.model


def test_no_record_in_the_repository_is_without_a_run_that_makes_it() -> None:
    made = {run.key[:3] + run.key[4:] for run in all_runs()}
    for model in DIVERGENT_MODELS:
        run = TrainingRun("probe", "r8", model, settings=SUM_OVER_BATCH)
        made.add(run.key[:3] + run.key[4:])
    trained = ("choices", "accuracy", "folds", "heads", "ablation", "probe", "keywords")

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
    assert published_accuracy("te", "yelp-long") == 0.569
    assert len(DATASETS) == 10


def test_records_without_training_runs_are_recognized_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DataError("no network")  # at once instead of after several attempts

    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "no data"))
    monkeypatch.setattr("lamatext.data.named_datasets.hub_table", fail)
    shutil.copytree(PAPER_RECORDS, tmp_path / "records")
    records = Records(tmp_path / "records")
    before = {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.json")}

    assert all(name.startswith("yelp") for name in count_datasets(records, tuple(DATASETS)))
    measure_scaling(records)
    for dataset in ("r8", "mr", "news", "clothing"):
        for baseline in BASELINE_NAMES:
            measure_baseline(records, dataset, baseline)

    after = {path: path.read_bytes() for path in (tmp_path / "records").rglob("*.json")}
    assert after == before


def test_the_recipes_hold_what_the_recorded_choices_say() -> None:
    records, schedule = Records(PAPER_RECORDS), choices.recipe_schedule()
    penalty = dict(choices.penalty_settings("san"))["model.disagreement_weight"]

    assert choices.choose_schedule(records) in (schedule, None)
    assert choices.choose_penalty(records, schedule) in (penalty, None)
