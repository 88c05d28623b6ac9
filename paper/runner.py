"""Many trials side by side on one device; each is recorded as soon as it is done.

At 32 texts a batch a single run leaves a GPU idle most of the time, so a pool of processes shares
it (``nvidia-cuda-mps-control -d`` lets their kernels run at once). A call that ends early loses
only the trials in flight: the next call goes on with those that have no record.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import torch

from lamatext.training.trainer import pick_device
from paper.predictions import hits_name, keep_hits
from paper.prepared import SUBWORDS, Prepared, load_prepared
from paper.records import Results
from paper.trial import Outcome, Trial, part_of, run_trial, vectors_of

LONG = {"imdb": 9, "clothing": 5, "news": 4, "clothing-polarity": 4, "clothing-long": 3, "mr": 2}
Part = tuple[str, int, int | None]
Say = Callable[[str], None]
P = ParamSpec("P")
R = TypeVar("R")
Todo = Callable[[Results], Iterable[Trial]]


class Place(NamedTuple):
    """Where a run reads and writes, and on what."""

    results: Path
    prepared: Path
    device: str = "auto"
    texts: int | None = None  # of each part, for a quick look


@dataclass
class _Board:
    """What is under way and what is ready to be."""

    flying: dict["Future[Outcome | None]", Trial | Part] = field(default_factory=dict)
    vectors: set[Part] = field(default_factory=set)
    failed: dict[Trial, str] = field(default_factory=dict)


def run_all(
    place: Place,
    todo: Todo,
    *,
    workers: int,
    minutes: float,
    say: Say,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Train all trials that have no record, until done or out of time.

    ``todo`` says what there is to train, given the records so far. ``meanwhile`` runs in this
    process while the first word vectors are made, with the device to itself.
    """
    stop = time.monotonic() + 60 * minutes
    results, board = Results(place.results), _Board()
    with _Here() if workers == 1 else _pool(workers) as pool:
        if meanwhile is not None:
            _submit(pool, board, place, workers, _waiting(results, board, todo), trials=0)
            meanwhile()
        while time.monotonic() < stop:
            waiting = _waiting(results, board, todo)
            if not waiting and not board.flying:
                break
            _submit(pool, board, place, workers, waiting, trials=workers)
            done, _ = wait(board.flying, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                _finish(future, board, results, say)
        if board.flying and isinstance(pool, ProcessPoolExecutor):
            for process in (pool._processes or {}).values():
                process.kill()
    left = len(_waiting(results, board, todo)) + len(board.flying)
    say(f"{left} trials remain, {len(board.failed)} failed")


def _pool(workers: int) -> Executor:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    return ProcessPoolExecutor(workers, mp_context=context)


class _Here(Executor):
    """Does the work at once, in this process: one trial at a time needs no other."""

    def submit(self, work: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> "Future[R]":
        """The finished work."""
        future: Future[R] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def _waiting(results: Results, board: _Board, todo: Todo) -> list[Trial]:
    """What is left to start, in the order to start it."""
    busy = set(board.flying.values())
    left = [
        trial
        for trial in todo(results)
        if trial not in busy and trial not in board.failed and not results.has(trial.key)
    ]
    return sorted(left, key=_order)


def _order(trial: Trial) -> tuple[int, int]:
    """What others wait for goes first, then the main table; within each the longest first."""
    size = LONG.get(trial.dataset, 1)
    group = {"heads": 0, "accuracy": 2, "keywords": 3, "ablation": 4}.get(trial.experiment, 5)
    if trial.dataset == "imdb" and group < 3:
        group = 1
    return group, -size * (3 if trial.model == "te" else 1)


def _submit(
    pool: Executor,
    board: _Board,
    place: Place,
    workers: int,
    waiting: Sequence[Trial],
    *,
    trials: int,
) -> None:
    """Fill the pool: word vectors before the trials that start from them."""
    asked = {job for job in board.flying.values() if isinstance(job, tuple)}
    for trial in waiting:
        if len(board.flying) >= workers:
            return
        words = trial.model != "bert" and trial.recipe.text.word_vectors == "word2vec"
        needs = words and trial.part not in board.vectors
        if needs and trial.part not in asked:
            asked.add(trial.part)
            board.flying[pool.submit(_make_vectors, trial, place)] = trial.part
        elif not needs and trials:
            board.flying[pool.submit(_work, trial, place, alone=workers == 1)] = trial


def _finish(future: "Future[Outcome | None]", board: _Board, results: Results, say: Say) -> None:
    job = board.flying.pop(future)
    error = future.exception()
    if isinstance(job, tuple):
        board.vectors.add(job)
        say(f"vectors {job} {error or ''}")
        return
    outcome = None if error else future.result()
    if outcome is None:
        board.failed[job] = repr(error)
        say(f"FAILED {job}: {error!r}")
        return
    if outcome.correct is not None:
        name = hits_name(job.experiment, job.model, job.seed, dict(job.values))
        keep_hits(results.folder, job.dataset, name, outcome.correct)
    results.add(outcome.records)
    found = {record.metric: record.value for record in outcome.records}
    say(
        f"{job.experiment} {job.dataset} {job.model} {job.seed} {job.fold} {dict(job.values)}: "
        f"valid {found['valid_accuracy']:.4f} test {found.get('accuracy', 0):.4f} "
        f"{outcome.records[-1].seconds:.0f} s, {len(found['valid_curve'])} epochs"  # type: ignore[arg-type]
    )


def data_name(trial: Trial) -> str:
    """The prepared file of a trial: words, or the subwords of a pretrained encoder."""
    if trial.model != "bert":
        return trial.dataset
    return f"{trial.dataset}{SUBWORDS}{trial.recipe.model.pretrained}"


@lru_cache(maxsize=3)
def _data(name: str, place: Place) -> Prepared:
    return load_prepared(name, place.prepared, texts=place.texts)


def _work(trial: Trial, place: Place, *, alone: bool) -> Outcome:
    if not alone:
        torch.set_num_threads(1)
    data = _data(data_name(trial), place)
    return run_trial(trial, data, pick_device(place.device))


def _make_vectors(trial: Trial, place: Place) -> None:
    vectors_of(trial, part_of(trial, _data(trial.dataset, place)))
