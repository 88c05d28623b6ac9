"""Ablation of the default recipe on texts held out of the training part."""

from pathlib import Path

import pytest

from benchmarks.accuracy_jobs import RECORDS, AccuracyJob, run_accuracy_jobs
from benchmarks.recipe_ablation import (
    CHANGES,
    EXPERIMENT,
    FULL,
    METRICS,
    NGRAMS_ONLY,
    ablation_jobs,
    ablation_table,
    changed_recipe,
    differences,
    first_record,
    measure_job,
    score_ngram_model,
    split_training_part,
    values_by_seed,
)
from lamatext.data.sources import load_dataset
from lamatext.recipes import load_recipe
from paper.records import Record, Records
from tests.paper.tiny_datasets import write_datasets

pytestmark = pytest.mark.filterwarnings("ignore:.*texts in its.*")


@pytest.fixture(autouse=True)
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write training parts only: a job that reads a test part fails."""
    write_datasets(tmp_path / "data", train=80)
    for path in (tmp_path / "data").glob("*/test.parquet"):
        path.unlink()
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))


def test_a_change_leaves_all_other_settings_of_the_default_recipe_alone() -> None:
    for name, values in CHANGES.items():
        recipe = changed_recipe(AccuracyJob("r8", name, 3))
        whole = load_recipe("default").with_values({"seed": 3})

        assert recipe == whole.with_values(values)
        assert (recipe == whole) == (not values)


def test_the_full_recipe_of_each_data_set_runs_first() -> None:
    found = list(ablation_jobs(["imdb", "r8"], [0, 1]))

    assert found[:2] == [AccuracyJob("imdb", FULL, 0), AccuracyJob("imdb", FULL, 1)]
    assert AccuracyJob("imdb", "first words only", 0) in found
    assert AccuracyJob("r8", "first words only", 0) not in found


def test_changes_can_be_selected_and_a_folder_is_known_by_its_name(
    tmp_path: Path,
) -> None:
    without, added = "without character n-grams", "with character n-grams"
    folder = tmp_path / "r52"
    folder.mkdir()

    found = list(ablation_jobs([str(folder), "r8"], [0], [without, added]))

    assert found == [
        AccuracyJob(str(folder), FULL, 0),
        AccuracyJob(str(folder), without, 0),
        AccuracyJob("r8", FULL, 0),
        AccuracyJob("r8", added, 0),
    ]


def test_a_job_is_scored_on_held_out_texts_of_the_training_part() -> None:
    records = measure_job(AccuracyJob("r8", "stored as float32", 0), "cpu")

    by_metric = {record.metric: record for record in records}
    assert by_metric.keys() == {*METRICS, "bytes"}
    assert by_metric["accuracy"].number == 1.0
    assert by_metric["bytes"].number > 10_000
    assert by_metric["accuracy"].config == {"storage": "float32"}


def test_a_job_with_a_record_is_not_run_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add([Record(EXPERIMENT, "no-such-set", FULL, "accuracy", 0.5, 0)])

    jobs = [AccuracyJob("no-such-set", FULL, 0)]
    run_accuracy_jobs(records, jobs, measure_job, first_record, device="cpu", workers=1)

    assert len(records.of(EXPERIMENT)) == 1


def test_a_cell_is_the_mean_difference_over_seeds_with_its_spread(tmp_path: Path) -> None:
    change = "without n-grams"
    accuracies = {FULL: [0.80, 0.90], change: [0.79, 0.87, 0.10]}  # seed 2 has no full recipe
    records = Records(tmp_path)
    records.add(
        Record(EXPERIMENT, "mr", name, "accuracy", value, seed)
        for name, values in accuracies.items()
        for seed, value in enumerate(values)
    )

    lines = ablation_table(records, "accuracy", "accuracy").splitlines()

    assert f"| {FULL} | – | – | – | – | 0.8500 | – | – |" in lines
    assert f"| {change} | – | – | – | – | −2.00 ± 1.41 | – | – |" in lines
    assert len(differences(values_by_seed(records), change, "mr", "accuracy")) == 2


def test_every_recorded_change_can_be_measured_again() -> None:
    for record in Records(RECORDS).of(EXPERIMENT):
        assert record.config == CHANGES[record.model]


def test_the_n_gram_model_alone_separates_the_classes_with_calibrated_probabilities() -> None:
    recipe = changed_recipe(AccuracyJob("r8", NGRAMS_ONLY, 0))

    scores, size = score_ngram_model(recipe, split_training_part(load_dataset("r8"), recipe))

    assert scores.accuracy == 1.0
    assert scores.log_loss < 0.2
    assert 1_000 < size < 100_000


@pytest.mark.slow
def test_the_process_pool_continues_after_a_job_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = Records(tmp_path)
    jobs = [
        AccuracyJob("no-such-set", NGRAMS_ONLY, 0),
        AccuracyJob("r8", NGRAMS_ONLY, 0),
        AccuracyJob("r8", NGRAMS_ONLY, 1),
    ]

    run_accuracy_jobs(records, jobs, measure_job, first_record, device="cpu", workers=2)

    seeds = {record.seed for record in Records(tmp_path).of(EXPERIMENT)}
    assert seeds == {0, 1}
    assert "FAILED AccuracyJob(dataset='no-such-set'" in capsys.readouterr().out
