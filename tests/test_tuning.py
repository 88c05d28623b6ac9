"""Parts of the hyperparameter search: deadlines, shares of the texts, killed processes."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lamatext import tuning
from lamatext.atomic_write import host_code
from lamatext.data.dataset import Dataset
from lamatext.errors import ConfigError
from lamatext.pipeline import Splits
from lamatext.progress import SILENT
from lamatext.recipes import load_recipe
from lamatext.trials import FAILED, FINISHED, UNFINISHED, Limits, Trial
from lamatext.tuning import (
    SPACE,
    DeadlineProgress,
    OutOfTimeError,
    Range,
    TuningSplits,
    TuningTask,
    _nested_order,
    _open_storage,
    _parameters_of,
    _replace_model,
    _restore_model,
    _train_final,
    closing_seconds,
    final_seconds,
    open_study,
    read_trials,
    study_errors_named,
    tuning_splits,
    worker_processes,
)
from tests.corpora import reviews

pytest.importorskip("optuna")


def dataset(count: int, seed: int = 0) -> Dataset:
    texts, labels = reviews(count, seed=seed)
    return Dataset(
        pa.chunked_array([pa.array(texts, pa.large_string())]),
        pa.chunked_array([pa.array(labels)]),
        "reviews.csv",
    )


def make_task(folder: Path) -> TuningTask:
    whole = Splits(dataset(40), dataset(20, seed=1), dataset(20, seed=2))
    splits = TuningSplits(whole, whole)
    recipe, limits = load_recipe("default"), Limits(60)
    return TuningTask(
        splits, recipe, frozenset(), "accuracy", limits, folder, "cpu", time.monotonic()
    )


def test_a_training_stops_at_the_first_report_after_its_deadline() -> None:
    in_time, late = (DeadlineProgress(time.monotonic() + shift) for shift in (60, -1))

    in_time.stage("epoch 1", 3)
    in_time.advance()
    with pytest.raises(OutOfTimeError):
        late.advance()
    with pytest.raises(OutOfTimeError):
        late.stage("epoch 1")
    with pytest.raises(OutOfTimeError):
        late.note("epoch 1")


def test_every_beginning_of_the_order_has_all_classes_alike() -> None:
    data = dataset(200)

    order = _nested_order(data, seed=0)

    assert sorted(order.tolist()) == list(range(200))
    labels = np.array(data.require_labels().to_pylist())
    for end in (20, 50, 100):
        assert abs(int((labels[order[:end]] == "pos").sum()) - end // 2) <= 1


def test_the_default_recipe_is_a_point_of_the_search_space() -> None:
    point = _parameters_of(load_recipe("default"), frozenset({"model.heads"}))

    assert point is not None
    assert point.keys() == SPACE.keys() - {"model.heads"}
    assert _parameters_of(load_recipe("paper"), frozenset()) is None  # lies outside
    assert all(d.low < d.high for d in SPACE.values() if isinstance(d, Range))


def test_little_data_is_held_out_for_validation_and_test() -> None:
    data = dataset(100)
    folds = ((np.arange(20, 100), np.arange(20)),)

    search, final = tuning_splits(Splits(data, None, data, folds), seed=0)

    assert search.validation is not None
    assert (len(search.train), len(search.validation), len(search.test)) == (64, 16, 20)
    assert not search.folds
    assert final.train.texts.equals(data.texts[20:])  # the final training has all but the test
    assert final.validation is None
    assert final.test.texts.equals(data.texts[:20])


def test_a_search_validates_on_other_customers_than_it_trains_on() -> None:
    customers = pa.chunked_array([[f"customer {number % 20}" for number in range(100)]])
    data = replace(dataset(100), group_values=customers)

    search, _ = tuning_splits(Splits(data, None, dataset(20, seed=1)), seed=0)

    assert search.validation is not None
    columns = search.train.group_values, search.validation.group_values
    trained, validated = (set(column.to_pylist()) for column in columns if column is not None)
    assert len(validated) >= 2
    assert not trained & validated


def test_a_validation_set_of_its_own_stays_that_of_the_final_training() -> None:
    given = Splits(dataset(40), dataset(20, seed=1), dataset(20, seed=2))

    search, final = tuning_splits(given, seed=0)

    assert search is final
    assert final.train is given.train
    assert final.validation is not None
    assert len(final.validation) == 20


def test_the_trial_of_a_killed_process_is_not_finished_and_is_run_again(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    trial = open_study(task).ask()
    trial.set_user_attr("process", f"{host_code()}-{dead.pid}")

    study = open_study(task)

    assert [t.state for t in read_trials(study)] == [UNFINISHED]
    waiting = [t for t in study.get_trials() if t.state.name == "WAITING"]
    assert sorted(t.user_attrs["seed"] for t in waiting) == [0, 1, 2]


DEFAULT = Trial(
    0, FINISHED, is_default=True, share=1.0, score=0.9, bytes=500, latency_ms=1.0, seconds=12.0
)


def test_no_time_is_reserved_for_the_final_training_of_a_model_over_a_limit(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    smaller = replace(task, limits=Limits(60, max_bytes=400))

    assert final_seconds(task, [DEFAULT]) > 12
    assert final_seconds(smaller, [DEFAULT]) == closing_seconds(smaller)


def test_more_time_is_left_for_the_end_of_a_search_on_busy_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = replace(make_task(tmp_path), started=time.monotonic() - 30)

    monkeypatch.setattr(time, "process_time", lambda: 40.0)
    on_idle_cores = closing_seconds(task)
    monkeypatch.setattr(time, "process_time", lambda: 10.0)
    on_busy_cores = closing_seconds(task)

    assert on_busy_cores == pytest.approx(3 * on_idle_cores, rel=0.1)


@pytest.mark.parametrize(("seconds", "latest"), [(20, 20), (30, 31), (600, 630)])
def test_the_final_training_ends_early_enough_to_save_the_model_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, latest: float
) -> None:
    task = replace(make_task(tmp_path), limits=Limits(seconds))
    deadlines = list[float]()

    def train(*arguments: Any, **_: Any) -> None:
        deadlines.append(arguments[3].deadline - task.started)
        raise OutOfTimeError

    monkeypatch.setattr("lamatext.tuning.train_and_score", train)
    result = _train_final(task, replace(DEFAULT, seconds=1.0), tmp_path / "staged", SILENT)

    assert deadlines == pytest.approx([latest])
    assert result == (None, "there was no time left to train it on all texts")


def test_other_seeds_of_a_default_recipe_over_a_limit_are_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(tmp_path)
    smaller = replace(task, limits=Limits(60, max_bytes=400))
    monkeypatch.setattr(tuning, "read_trials", lambda _: [DEFAULT])

    assert tuning._is_affordable(task, study=None)
    assert not tuning._is_affordable(smaller, study=None)


def test_only_a_trial_with_an_error_has_failed(tmp_path: Path) -> None:
    study = open_study(make_task(tmp_path))
    diverged, out_of_time = study.ask(), study.ask()
    diverged.set_user_attr("error", "training diverged in epoch 1")

    for trial in (diverged, out_of_time):
        tuning._tell(study, trial, "FAIL")

    assert [trial.state for trial in read_trials(study)] == [FAILED, UNFINISHED]


def test_two_processes_on_one_study_run_different_trials(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    one, other = open_study(task), open_study(task)

    trials = [study.ask() for study in (one, other, one)]

    assert [trial.number for trial in trials] == [0, 1, 2]
    assert [trial.user_attrs["seed"] for trial in trials] == [0, 1, 2]
    assert all(trial.user_attrs["default"] for trial in trials)


def test_threads_that_ask_at_once_get_different_trials(tmp_path: Path) -> None:
    study = open_study(make_task(tmp_path))
    for number in range(30):
        study.enqueue_trial({}, user_attrs={"number": number})

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: study.ask().number, range(33)))

    assert sorted(numbers) == list(range(33))


def test_a_process_killed_between_two_renames_loses_no_model(tmp_path: Path) -> None:
    for name in (".model-old", ".model-999999999"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)

    _restore_model(tmp_path)

    assert (tmp_path / "model" / "config.json").read_text() == ".model-old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_new_model_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    for name in ("model", ".model-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)

    _replace_model(tmp_path / ".model-1", tmp_path / "model")

    assert (tmp_path / "model" / "config.json").read_text() == ".model-1"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_study_whose_tables_are_just_being_created_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optuna, sqlalchemy = pytest.importorskip("optuna"), pytest.importorskip("sqlalchemy")
    create, failures = optuna.storages.RDBStorage, iter([True, True, False])

    def create_or_fail(*arguments: object, **options: object) -> object:
        if next(failures):
            raise sqlalchemy.exc.OperationalError("CREATE TABLE studies", {}, Exception("exists"))
        return create(*arguments, **options)

    monkeypatch.setattr(optuna.storages, "RDBStorage", create_or_fail)
    monkeypatch.setattr(time, "sleep", lambda _: None)

    assert isinstance(_open_storage(optuna, tmp_path / "study.sqlite3"), create)


@pytest.mark.parametrize("content", [b"SQLite format 3\0damaged", bytes(range(256)) * 20])
def test_a_damaged_study_is_a_named_error(content: bytes, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    (tmp_path / "study.sqlite3").write_bytes(content)

    with (
        pytest.raises(ConfigError, match=r"study\.sqlite3: cannot be used: file is not a database"),
        study_errors_named(tmp_path),
    ):
        _open_storage(optuna, tmp_path / "study.sqlite3")


PRESS = """
import os, pathlib, signal
os.kill(os.getpid(), signal.SIGINT)
pathlib.Path("goes-on").touch()
"""


def test_ctrl_c_in_the_terminal_does_not_reach_the_other_processes_of_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ends = time.monotonic() + 60

    with worker_processes([[sys.executable, "-c", PRESS]]):
        while not (tmp_path / "goes-on").exists() and time.monotonic() < ends:
            time.sleep(0.05)

    assert (tmp_path / "goes-on").exists()
