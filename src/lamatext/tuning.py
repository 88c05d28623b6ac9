"""Hyperparameter search with Optuna within limits on time, size and latency (``lamatext tune``).

open_study      create or continue the study, an SQLite file in the output folder
run_trials      the default recipe, the default with other seeds, then settings that TPE proposes
finish_study    choose a trial, train its recipe as ``lamatext train`` does, check the limits, save

A trial is trained on growing shares of the training texts and stopped early if it is worse than
others were on the same share (successive halving). Trials are compared on the validation texts,
which they do not see; the test texts are scored once, with the final model.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lamatext.atomic_write import host_code, is_running
from lamatext.comparison import score_decisions, true_classes
from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset, dataset_fingerprint
from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import Rows, hold_out_validation
from lamatext.errors import (
    ConfigError,
    LamatextError,
    ModelError,
    ProcessError,
    percent,
    require,
)
from lamatext.kernels.kernel_threads import kernel_threads, usable_cores
from lamatext.label_thresholds import decide_classes
from lamatext.metrics import Floats
from lamatext.pipeline import Splits, TrainingResult, fit_recipe, train_and_score
from lamatext.progress import SILENT, NamedProgress, Progress
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.ray_tasks import RayTasks, ray_tasks
from lamatext.runtime.scoring import median_latency
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe, has_effect
from lamatext.trials import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    UNFINISHED,
    Choice,
    Limits,
    Trial,
    choose_trial,
    finished_trials,
)

STUDY, MODEL, TRIALS = "study.sqlite3", "model", "trials"  # in the output folder
SHARES = (0.25, 0.5, 1.0)  # of the training texts
LEAST_TEXTS = 2000  # of a share
SEEDS = 2  # further seeds of the default recipe
STORAGE_ATTEMPTS = 10  # to open a study whose tables another process may be creating
STARTUP_TRIALS = 6  # random ones, before TPE proposes settings
LATENCY_ROUNDS = 3  # the lowest median counts: other processes only add to it
OVERRUN = 1.05  # multiple of the time limit at which the final training is abandoned
RAY_GRACE = 5.0  # seconds for a trial on Ray to stop by itself at its deadline
FINAL_MARGIN = 1.3  # multiple of the estimated time of the final training that is reserved
LATEST = 1.1  # multiple of the time limit at which the command must have ended
CLOSING_SECONDS = 2.0  # to measure and save a trained model and to exit, on idle cores
MAX_SLOWNESS = 4.0  # of busy cores, for which more time is left


class Range(NamedTuple):
    """Range of values of a tuned setting, on a linear or logarithmic scale."""

    low: float
    high: float
    log: bool = False


SPACE: Mapping[str, tuple[Any, ...] | Range] = {
    "model.name": ("lama-ctx", "lama-encoder", "avg"),
    "model.hidden_size": (16, 32, 64, 96),
    "model.heads": (5, 10, 15, 20),
    "model.dropout": Range(0.1, 0.6),
    "model.embedding_dropout": Range(0.1, 0.7),
    "text.vector_width": (50, 100, 150),
    "text.min_count": ("auto", 1, 2, 5),
    "training.learning_rate": Range(1e-3, 1e-2, log=True),
    "training.weight_decay": Range(1e-3, 1e-1, log=True),
    "ngrams.max_words": (1, 2, 3),
    "ngrams.characters": ("auto", True, False),
    "ngrams.svm_c": Range(0.1, 10, log=True),
    "ngrams.naive_bayes_power": Range(0.0, 1.0),
    "ngrams.max_megabytes": Range(0.2, 12, log=True),
}
"""The settings that are searched, unless the user fixes them."""


class OutOfTimeError(Exception):
    """Error raised inside a tuning trial when its deadline has passed."""


class DeadlineProgress(Progress):
    """Progress reporter that stops a tuning trial when its deadline has passed.

    It passes stages and steps on to another progress display, and raises OutOfTimeError at the
    first report (of a stage, steps or a note) after the deadline.
    """

    def __init__(self, deadline: float, shown: Progress = SILENT) -> None:
        self.deadline, self._shown = deadline, shown  # time.monotonic()

    def _check(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTimeError

    def stage(self, name: str, total: int | None = None) -> None:
        """Report a new stage of a tuning trial, or stop the trial if its deadline has passed."""
        self._check()
        self._shown.stage(name, total)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report progress of a tuning trial, or stop the trial if its deadline has passed."""
        self._check()
        self._shown.advance(steps, detail)

    def note(self, text: str) -> None:  # noqa: ARG002 - the notes of trials are not shown
        """Ignore a note of a tuning trial, but stop the trial after its deadline."""
        self._check()


@dataclass(frozen=True, slots=True)
class TuningTask:
    """Definition of a tuning run, with its data, recipe, metric, limits and output folder."""

    splits: "TuningSplits"
    recipe: Recipe
    fixed: frozenset[str]  # settings that the user has given, which are not searched
    metric: str  # accuracy, micro-F1 or macro-F1
    limits: Limits
    folder: Path
    device: str
    started: float  # time.monotonic() at the start of the command

    @property
    def deadline(self) -> float:
        """Time at which hyperparameter tuning must end, on the ``time.monotonic()`` clock."""
        return self.started + self.limits.seconds

    @property
    def validation(self) -> Dataset:
        """Validation texts on which tuning trials are compared."""
        assert self.splits.search.validation is not None
        return self.splits.search.validation

    @property
    def train(self) -> Dataset:
        """Training texts of the tuning trials."""
        return self.splits.search.train


@dataclass(frozen=True, slots=True)
class TuningResult:
    """Result of hyperparameter tuning, with the chosen trial, the saved model and test scores."""

    choice: Choice
    trials: list[Trial]
    folder: Path  # of the saved model
    final: TrainingResult | None  # None if a trial's own model was saved
    bytes: int
    latency_ms: float
    reason: str  # why the trial's own model was saved; empty otherwise


class TuningSplits(NamedTuple):
    """Data splits for tuning trials and for the final training."""

    search: Splits  # with a validation set; without folds
    final: Splits  # all texts but the test set, split as ``lamatext train`` does


def tuning_splits(splits: Splits, seed: int) -> TuningSplits:
    """Hold out a validation set for tuning trials, and a test set if the data is small."""
    if splits.folds:
        rows, held_out = splits.folds[0]
        splits = replace(
            splits, train=splits.test.take(rows), test=splits.test.take(held_out), folds=()
        )
    labels = LabelEncoder.fit(splits.train.require_labels())
    final = replace(splits, test=labels.drop_unknown(splits.test))
    if final.validation is not None:
        final = replace(final, validation=labels.drop_unknown(final.validation))
        return TuningSplits(final, final)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        groups = TextGroups(final.train.texts, final.train.group_values)
        split = hold_out_validation(final.train.require_labels(), 0.2, seed, groups)
    train, validation = final.train.take(split.train), final.train.take(split.validation)
    validation = LabelEncoder.fit(train.require_labels()).drop_unknown(validation)
    return TuningSplits(replace(final, train=train, validation=validation), final)


# 1 · The study


def open_study(task: TuningTask) -> Any:
    """Create the Optuna study of a tuning run in its folder, or continue an existing one.

    Raises:
        ConfigError: the folder holds a study of other data, or of another recipe or metric.
    """
    optuna = require("optuna", extra="tune", purpose="lamatext tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    task.folder.mkdir(parents=True, exist_ok=True)
    path = (task.folder / STUDY).resolve()
    storage = _open_storage(optuna, path)
    _lock_in_transactions(storage.engine)
    study = optuna.create_study(
        study_name="tune",
        storage=storage,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(
            seed=task.recipe.seed + os.getpid(), n_startup_trials=STARTUP_TRIALS, constant_liar=True
        ),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )
    _check_identity(study, task)
    _restore_model(task.folder)
    for trial in study.get_trials(deepcopy=False):
        if trial.state == optuna.trial.TrialState.RUNNING and not _is_alive(trial.user_attrs):
            with suppress(ValueError, RuntimeError):  # another process has done it
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    _enqueue_default(study, task)
    return study


@contextmanager
def study_errors_named(folder: Path) -> Iterator[None]:
    """Convert database errors of the tuning study in ``folder`` to errors that name its file."""
    optuna = require("optuna", extra="tune", purpose="lamatext tune")
    errors = require("sqlalchemy.exc", extra="tune", purpose="lamatext tune")
    try:
        yield
    except (errors.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = getattr(error, "orig", None) or getattr(error.__cause__, "orig", None) or error
        raise ConfigError(
            f"{folder / STUDY}: cannot be used: {reason}. If there is space on the disk, the file "
            "is damaged: move it away to start the search anew."
        ) from error


def _open_storage(optuna: Any, path: Path) -> Any:
    """Open a tuning study's SQLite file, retrying while another process creates its tables."""
    errors = require("sqlalchemy.exc", extra="tune", purpose="lamatext tune")
    for attempt in range(1, STORAGE_ATTEMPTS + 1):
        try:
            return optuna.storages.RDBStorage(
                f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}}
            )
        except errors.OperationalError:
            if attempt == STORAGE_ATTEMPTS:
                raise
            time.sleep(0.2 * attempt)
    raise AssertionError("the last attempt returns or raises")


def _lock_in_transactions(engine: Any) -> None:
    """Lock the SQLite file of a tuning study at the beginning of each transaction.

    SQLite has no SELECT FOR UPDATE: without a lock, two processes could run
    the same queued trial.
    """
    sqlalchemy = require("sqlalchemy", extra="tune", purpose="lamatext tune")

    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    sqlalchemy.event.listen(engine, "begin", begin)


def _check_identity(study: Any, task: TuningTask) -> None:
    """Store the identity of a new tuning study, or check that a continued study matches."""
    parts = (task.train, task.validation, task.splits.final.test)
    identity = {
        "data": fingerprint(*(dataset_fingerprint(part) for part in parts)),
        "metric": task.metric,
        "recipe": fingerprint(task.recipe.model_dump_json(), sorted(task.fixed)),
    }
    stored = study.user_attrs.get("identity")
    if stored is None:
        study.set_user_attr("identity", identity)
        return
    names = {"data": "other data", "metric": "another metric", "recipe": "other settings"}
    for name, value in identity.items():
        if stored.get(name) != value:
            raise ConfigError(
                f"{task.folder / STUDY}: holds a study of {names[name]} than this search of "
                f"{task.train.source}. Give --out another folder to start a new study."
            )


def _enqueue_default(study: Any, task: TuningTask) -> None:
    """Enqueue tuning trials of the default recipe with several seeds.

    Trials that have failed, or had no time in an earlier run, are tried again.
    """
    own = task.recipe.seed
    known = {
        trial.user_attrs.get("seed")
        for trial in study.get_trials(deepcopy=False)
        if trial.user_attrs.get("default") and trial.state.name != "FAIL"
    }
    for seed in range(own, own + SEEDS + 1):
        if seed not in known:
            point = _parameters_of(task.recipe, task.fixed) if seed == own else None
            study.enqueue_trial(point or {}, user_attrs={"default": True, "seed": seed})


def _parameters_of(recipe: Recipe, fixed: frozenset[str]) -> dict[str, Any] | None:
    """Convert a recipe to Optuna parameters; return None if it is outside the tuned ranges."""
    point: dict[str, Any] = {}
    for name in _searched(recipe, fixed, recipe.model.name):
        value, domain = _setting(recipe, name), SPACE[name]
        if name == "ngrams.max_megabytes" and value == "auto":
            value = 6.0
        is_inside = (
            isinstance(value, float | int) and domain.low <= value <= domain.high
            if isinstance(domain, Range)
            else value in domain
        )
        if not is_inside:
            return None
        point[name] = value
    return point


def _setting(recipe: Recipe, name: str) -> Any:
    table, _, leaf = name.partition(".")
    return getattr(getattr(recipe, table), leaf)


def _searched(recipe: Recipe, fixed: frozenset[str], model: str) -> Iterator[str]:
    """Yield the names of the settings to tune: those that affect the model and are not fixed."""
    for name in SPACE:
        is_off = name.startswith("ngrams.") and not recipe.ngrams.enabled
        if name not in fixed and not is_off and has_effect(name, model):
            yield name


def sample_settings(trial: Any, recipe: Recipe, fixed: frozenset[str]) -> dict[str, Any]:
    """Ask an Optuna trial to suggest a value for each tuned setting."""
    values: dict[str, Any] = {}
    model = recipe.model.name
    if model in SPACE["model.name"] and "model.name" not in fixed:
        model = trial.suggest_categorical("model.name", SPACE["model.name"])
        values["model.name"] = model
    for name in _searched(recipe, fixed | {"model.name"}, model):
        domain = SPACE[name]
        if isinstance(domain, Range):
            drawn = trial.suggest_float(name, domain.low, domain.high, log=domain.log)
            values[name] = float(f"{drawn:.4g}")
        else:
            values[name] = trial.suggest_categorical(name, domain)
    return values


def read_trials(study: Any) -> list[Trial]:
    """Read all trials of a tuning study, including those of other processes."""
    states = {"COMPLETE": FINISHED, "RUNNING": RUNNING, "PRUNED": STOPPED, "FAIL": UNFINISHED}
    return [
        Trial(
            number=trial.number,
            state=FAILED if "error" in trial.user_attrs else states[trial.state.name],
            settings=trial.user_attrs.get("settings", {}),
            is_default=trial.user_attrs.get("default", False),
            seed=trial.user_attrs.get("seed", 0),
            **trial.user_attrs.get("measured", {}),
        )
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name in states
    ]


def _choose(task: TuningTask, trials: Sequence[Trial]) -> Choice:
    """Choose the best trial of a tuning study within the limits of the task."""
    texts = len(task.validation)
    return choose_trial(trials, task.limits, task.metric, validation_texts=texts)


def _is_alive(attributes: Mapping[str, Any]) -> bool:
    host, _, process = str(attributes.get("process", "")).partition("-")
    return not process or host != host_code() or is_running(int(process))


# 2 · Trials


Measurements = dict[str, float]  # score, bytes, latency_ms and seconds of a trial
# Trains a recipe on some rows, saves the model in a folder and measures it.
TrainTrial = Callable[[TuningTask, Recipe, Rows, Path, DeadlineProgress], Measurements]


class _TrialEngine(NamedTuple):
    """Resources that all tuning trials share: text order, progress and training function."""

    order: Rows  # of the training texts; a share is its beginning
    progress: Progress
    train: TrainTrial


def run_trials(
    task: TuningTask,
    study: Any,
    show: Callable[[list[Trial]], None],
    progress: Progress,
    train: TrainTrial | None = None,
) -> None:
    """Run tuning trials until only the time for the final training is left."""
    if train is None:
        load_libraries(progress)
    order = _nested_order(task.train, task.recipe.seed)
    engine = _TrialEngine(order, progress, train or train_trial)
    while True:
        trials = read_trials(study)
        show(trials)
        quickest = min(
            (t.seconds for t in trials if t.seconds is not None and t.state != RUNNING),
            default=0.0,
        )
        if time.monotonic() + quickest > task.deadline - final_seconds(task, trials):
            return
        trial = study.ask()
        trial.set_user_attr("process", f"{host_code()}-{os.getpid()}")
        try:
            _run_trial(task, study, trial, engine)
        except (ProcessError, OutOfTimeError) as error:
            _tell(study, trial, "FAIL")
            if isinstance(error, ProcessError):  # no further trial can be trained
                raise
        except LamatextError as error:  # such as a training that diverged
            trial.set_user_attr("error", str(error))
            _tell(study, trial, "FAIL")


def load_libraries(progress: Progress) -> None:
    """Import the training libraries first, so that no tuning trial spends time on the import."""
    progress.stage("loading the training libraries")
    from lamatext.classifier import TextClassifier  # noqa: F401
    from lamatext.kernels.numba_compat import compile_cpu_kernels
    from lamatext.training import trainer  # noqa: F401

    compile_cpu_kernels()


def _tell(study: Any, trial: Any, state: str, value: float | None = None) -> None:
    states = require("optuna", extra="tune", purpose="lamatext tune").trial.TrialState
    study.tell(trial, value, state=states[state])


def final_seconds(task: TuningTask, trials: list[Trial]) -> float:
    """Estimate the time to reserve at the end of tuning, mainly for training the final model.

    While no trial is within the limits, no time is reserved for the final training: it is better
    spent on finding such a trial, whose own model can be saved.
    """
    finished = finished_trials(trials)
    try:
        chosen = [_choose(task, trials).trial] if finished else []
    except ConfigError:
        return closing_seconds(task)
    if not chosen:
        running = [t for t in trials if t.is_default and t.seconds is not None]
        chosen = sorted(running, key=lambda trial: -trial.share)[:1]
    if not chosen:
        return closing_seconds(task)
    return FINAL_MARGIN * _seconds_on_everything(task, chosen[0]) + closing_seconds(task)


def closing_seconds(task: TuningTask) -> float:
    """Estimate how long tuning needs to measure and save a trained model and to exit.

    It takes longer on cores that other programs use as well. How busy they are is estimated from
    the processor time that this process has received so far.
    """
    slowness = (time.monotonic() - task.started) / max(time.process_time(), 1.0)
    return CLOSING_SECONDS * min(max(slowness, 1.0), MAX_SLOWNESS)


def _seconds_on_everything(task: TuningTask, trial: Trial) -> float:
    """Estimate how long it takes to train the recipe of a tuning trial on all texts."""
    more = len(task.splits.final.train) / max(1, len(task.train))
    return more * (trial.seconds or 0.0) / trial.share


def _run_trial(task: TuningTask, study: Any, trial: Any, engine: _TrialEngine) -> None:
    """Train one tuning trial on growing shares of the texts until it is finished or pruned."""
    is_default, seed = trial.user_attrs.get("default"), trial.user_attrs.get("seed")
    is_repeated = bool(is_default) and seed != task.recipe.seed
    if not is_default:
        settings = sample_settings(trial, task.recipe, task.fixed)
        trial.set_user_attr("settings", settings)
        recipe = task.recipe.with_values(settings, where="tune")
    else:
        recipe = task.recipe.with_values({"seed": seed})
        if not is_repeated and _parameters_of(task.recipe, task.fixed) is not None:
            sample_settings(trial, task.recipe, task.fixed)  # tells TPE where the default is
    shares = _shares(study, task, only_last=is_repeated)
    if is_repeated and not _is_affordable(task, study):
        raise OutOfTimeError
    value = 0.0
    for place, share in enumerate(shares):
        measured, value = _measure(task, study, trial, recipe, share, engine)
        if share == shares[-1] or not _has_time(task, study, measured, shares[place + 1]):
            break
        trial.report(value, step=round(4 * share))
        if not is_default and trial.should_prune():
            _tell(study, trial, "PRUNED")
            return
    if is_default and not is_repeated:
        study.set_user_attr("largest_share", measured["share"])
    is_done = measured["share"] >= study.user_attrs.get("largest_share", 1.0)
    _tell(study, trial, *(("COMPLETE", value) if is_done else ("PRUNED",)))
    _keep_best_models(task, study)


def _shares(study: Any, task: TuningTask, *, only_last: bool) -> list[float]:
    """Return the increasing shares of the training texts on which to train a tuning trial."""
    largest = study.user_attrs.get("largest_share", 1.0)
    texts = len(task.train)
    shares = [s for s in SHARES if s <= largest and (s * texts >= LEAST_TEXTS or s == largest)]
    return shares[-1:] if only_last else shares


def _is_affordable(task: TuningTask, study: Any) -> bool:
    """Return whether there is time for a tuning trial of the default recipe with another seed.

    If the default recipe is over a limit, it is not chosen, and its spread is of no use.
    """
    trials = read_trials(study)
    left = task.deadline - time.monotonic() - final_seconds(task, trials)
    default = next((trial for trial in finished_trials(trials) if trial.is_default), None)
    if default is None:  # while another process trains it
        return True
    is_allowed = task.limits.allow(default.bytes or 0, default.latency_ms or 0.0)
    return is_allowed and (default.seconds or 0.0) < left / 3


def _has_time(task: TuningTask, study: Any, measured: Measurements, share: float) -> bool:
    """Return whether a tuning trial has time to continue with the next share of the texts."""
    needed = measured["seconds"] * share / measured["share"]
    left = task.deadline - time.monotonic() - final_seconds(task, read_trials(study))
    return bool(needed < left / (1 if "largest_share" in study.user_attrs else 3))


def _measure(
    task: TuningTask, study: Any, trial: Any, recipe: Recipe, share: float, engine: _TrialEngine
) -> tuple[Measurements, float]:
    """Train a tuning trial on a share of the texts and measure its score, size and latency.

    Returns:
        The measurements, and the value that the search maximizes: the score, less a penalty for
        exceeding a limit.
    """
    name = f"trial {trial.number}, {percent(share, 0)} of the texts"
    reserve = final_seconds(task, read_trials(study))
    limited = DeadlineProgress(task.deadline - reserve, NamedProgress(name, engine.progress))
    rows = np.sort(engine.order[: round(share * len(engine.order))])
    folder = task.folder / TRIALS / str(trial.number)
    measured = {"share": share, **engine.train(task, recipe, rows, folder, limited)}
    trial.set_user_attr("measured", measured)
    return measured, measured["score"] - _penalty(task.limits, measured)


def train_trial(
    task: TuningTask, recipe: Recipe, rows: Rows, folder: Path, progress: DeadlineProgress
) -> Measurements:
    """Train and save the model of a tuning trial; measure its score, size and latency."""
    started = time.monotonic()
    splits = replace(task.splits.search, train=task.train.take(rows), validation=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few texts of a class in a share
        classifier = fit_recipe(recipe, splits, progress, device=task.device)
    classifier.save(folder)
    score, latency = score_model(folder, task)
    return {
        "score": score,
        "bytes": folder_size(folder),
        "latency_ms": latency,
        "seconds": time.monotonic() - started,
    }


def _penalty(limits: Limits, measured: Mapping[str, float]) -> float:
    pairs = [
        (measured["bytes"], limits.max_bytes),
        (measured["latency_ms"], limits.max_latency_ms),
    ]
    return float(sum(max(0.0, np.log(found / limit)) for found, limit in pairs if limit))


def score_model(folder: Path, task: TuningTask) -> tuple[float, float]:
    """Return the validation score and latency of a tuning trial's saved model."""
    predictor = Predictor.load(folder)
    labels = LabelEncoder.fit(task.train.require_labels())
    probabilities: Floats = predictor.predict_proba(task.validation.texts.to_pylist()).astype(
        np.float64
    )
    decided = decide_classes(probabilities, predictor.thresholds)
    columns = labels.encode([str(label) for label in predictor.classes_.tolist()])
    all_classes = np.zeros((len(decided), len(labels.classes)), np.bool_)
    all_classes[:, columns] = decided  # a small share may lack a class
    truth = true_classes(labels, task.validation)
    scores = score_decisions(truth, all_classes, is_multi_label=task.validation.is_multi_label)
    return scores[task.metric], measure_latency(predictor, task.validation)


def measure_latency(predictor: Predictor, dataset: Dataset) -> float:
    """Measure the latency of a tuned model as the lowest median of several rounds."""
    texts = dataset.texts.to_pylist()
    return min(median_latency(predictor.predict_proba, texts) for _ in range(LATENCY_ROUNDS))


def _nested_order(train: Dataset, seed: int) -> Rows:
    """Order the training rows for tuning so that any first part of them is stratified by class."""
    generator = np.random.default_rng(seed)
    if train.is_multi_label:
        return generator.permutation(len(train))
    labels = LabelEncoder.fit(train.require_labels()).encode(train.require_labels())
    places = np.zeros(len(train))
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        places[rows] = (np.arange(len(rows)) + generator.random()) / len(rows)
    return np.argsort(places, kind="stable")


def _keep_best_models(task: TuningTask, study: Any) -> None:
    """Delete the models of all tuning trials except the best, the default and the running ones."""
    trials = read_trials(study)
    kept = {str(trial.number) for trial in trials if trial.state == RUNNING or trial.is_default}
    with suppress(ConfigError):
        best = [t for t in finished_trials(trials) if not t.is_default]
        if best:
            kept.add(str(_choose(task, best).trial.number))
    for folder in (task.folder / TRIALS).iterdir():
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)


# 3 · Trials on Ray


def run_trials_on_ray(
    task: TuningTask,
    study: Any,
    show: Callable[[list[Trial]], None],
    progress: Progress,
    *,
    address: str | None = None,
    jobs: int | None = None,
) -> None:
    """Run tuning trials on a Ray cluster until the time is up.

    This process owns the study: it proposes settings, stops trials early and keeps the models.
    Ray workers only train, so they need no shared file system.

    Args:
        task: the search; its data is sent to the workers once.
        study: the Optuna study.
        show: displays the trials.
        progress: receives the stages of the trials.
        address: ``HOST:PORT`` of a running cluster, or ``auto`` for the one on this machine; None
            starts Ray on this machine until the search ends.
        jobs: number of trials at a time; None is one per core.
    """
    lock = threading.Lock()

    def show_locked(trials: list[Trial]) -> None:
        with lock:
            show(trials)

    progress.stage("connecting to Ray")
    with ray_tasks(train_on_worker, address, jobs) as tasks:
        sent = tasks.ray.put(replace(task, device="cpu"))
        arguments = (task, study, show_locked, progress, partial(_train_on_ray, tasks, sent))
        count = jobs or tasks.cores
        with ThreadPoolExecutor(count) as pool:
            futures = [pool.submit(run_trials, *arguments) for _ in range(count)]
            try:
                ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                tasks.stop()  # after an error or Ctrl-C, the other threads end, too
        for future in ended:
            future.result()


def _train_on_ray(  # noqa: PLR0913 - those of train_trial, and where it runs
    tasks: RayTasks,
    sent: Any,  # object reference of the task
    task: TuningTask,  # noqa: ARG001 - it is sent once
    recipe: Recipe,
    rows: Rows,
    folder: Path,
    progress: DeadlineProgress,
) -> Measurements:
    """Train a tuning trial on a Ray worker and save its model locally."""
    seconds = progress.deadline - time.monotonic()
    try:
        answer = tasks.call(sent, recipe, rows, seconds, deadline=progress.deadline + RAY_GRACE)
    except TimeoutError:
        raise OutOfTimeError from None
    if isinstance(answer, Exception):
        raise answer
    measured, files = answer
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return dict(measured)


def train_on_worker(
    task: TuningTask, recipe: Recipe, rows: Rows, seconds: float
) -> tuple[Measurements, dict[str, bytes]] | Exception:
    """Train a tuning trial on one core of a Ray worker; return measurements and model files."""
    load_libraries(SILENT)
    limited = DeadlineProgress(time.monotonic() + seconds)
    with kernel_threads(1), tempfile.TemporaryDirectory() as folder:
        try:
            measured = train_trial(task, recipe, rows, Path(folder), limited)
        except (LamatextError, OutOfTimeError) as error:
            return error
        return measured, {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# 4 · The final model


def finish_study(task: TuningTask, study: Any, progress: Progress) -> TuningResult:
    """Finish tuning by training the best trial's recipe on all data and saving the model.

    If that would take too long, or if the new model is over a limit, the trial's own model is
    saved.

    Raises:
        ConfigError: no trial was finished in the time, or none is within the limits.
    """
    trials = read_trials(study)
    if not finished_trials(trials):
        errors = [t.user_attrs["error"] for t in study.get_trials() if "error" in t.user_attrs]
        raise ConfigError(
            f"no trial was finished in the time ({task.limits.seconds:.0f} s). The study is kept "
            f"in {task.folder}; continue it with a larger --time."
            + (f" The last trial failed: {errors[-1]}" if errors else "")
        )
    choice = _choose(task, trials)
    staged = task.folder / f".{MODEL}-{os.getpid()}"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        final, reason = _train_final(task, choice.trial, staged, progress)
        if final is None:
            _copy_trial(task, choice.trial, staged)
        size, latency = _measure_saved(staged, task)
        if final is not None and not task.limits.allow(size, latency):
            final, reason = None, "the model trained on all texts was over a limit"
            _copy_trial(task, choice.trial, staged)
            size, latency = _measure_saved(staged, task)
        if not task.limits.allow(size, latency):
            raise _over_limit(choice.trial, size, latency)
        _replace_model(staged, task.folder / MODEL)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return TuningResult(choice, trials, task.folder / MODEL, final, size, latency, reason)


def _train_final(
    task: TuningTask, trial: Trial, staged: Path, progress: Progress
) -> tuple[TrainingResult | None, str]:
    """Train the recipe of the chosen tuning trial on all texts, unless too little time is left."""
    seconds = task.limits.seconds
    limit = task.started + min(OVERRUN * seconds, LATEST * seconds - closing_seconds(task))
    recipe = task.recipe.with_values(trial.settings, where="tune")
    needed = _seconds_on_everything(task, trial)
    reason = "there was no time left to train it on all texts"
    if time.monotonic() + needed / 2 > limit:  # the estimate is cautious: try unless it is hopeless
        return None, reason
    progress.stage("training the final model")
    staged.mkdir(parents=True)
    try:
        limited = DeadlineProgress(limit, NamedProgress("final model", progress))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return train_and_score(
                task.splits.final, recipe, staged, limited, device=task.device
            ), ""
    except OutOfTimeError:
        return None, reason


def _copy_trial(task: TuningTask, trial: Trial, staged: Path) -> None:
    source = task.folder / TRIALS / str(trial.number)
    shutil.rmtree(staged, ignore_errors=True)
    if not source.is_dir():
        raise ModelError(
            f"{source}: the model of the chosen trial is missing. Run the command again."
        )
    shutil.copytree(source, staged)


def _measure_saved(folder: Path, task: TuningTask) -> tuple[int, float]:
    return folder_size(folder), measure_latency(Predictor.load(folder), task.validation)


def _over_limit(trial: Trial, size: int, latency: float) -> ConfigError:
    return ConfigError(
        f"the best model within the limits (trial {trial.number}) takes {size / 1e6:.3f} MB "
        f"and now {latency:.3f} ms per text, which is over a limit. Raise the limit, or run "
        "the command again on an idle machine."
    )


def _replace_model(staged: Path, target: Path) -> None:
    """Replace the tuned model so that an interruption leaves either the old or the new model."""
    old = target.with_name(f".{MODEL}-old")
    for _ in range(10):  # another process of the study may replace it, too
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):
            if target.exists():
                target.rename(old)
            staged.rename(target)
            shutil.rmtree(old, ignore_errors=True)
            return
        time.sleep(0.2)
    raise ModelError(f"{target}: could not be replaced. Run the command again.")


def _restore_model(folder: Path) -> None:
    old, target = folder / f".{MODEL}-old", folder / MODEL
    if old.is_dir() and not target.exists():
        with suppress(OSError):
            old.rename(target)
    for staged in folder.glob(f".{MODEL}-[0-9]*"):
        if not is_running(int(staged.name.rpartition("-")[2])):
            shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def worker_processes(commands: list[list[str]]) -> Iterator[None]:
    """Run additional worker processes for a tuning study until the block ends.

    They inherit a blocked SIGINT: Ctrl-C reaches this process alone, which ends the others.
    """
    import subprocess

    threads = str(max(1, usable_cores() // (len(commands) + 1)))
    environment = {**os.environ, "OMP_NUM_THREADS": threads} if commands else None
    with _blocked_interrupts():
        processes = [
            subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # nosec B603 # ours
            for command in commands
        ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block SIGINT while tuning worker processes are started, so that it stays blocked in them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
