"""A process pool that trains many models on one device and hands over each result when it is done.

At 32 texts per batch a single training run leaves a GPU mostly idle, so several processes share it
(``nvidia-cuda-mps-control -d`` lets their kernels run concurrently). A call that runs out of time
loses only the jobs in flight: the next call continues with the jobs that have no record.
"""

import multiprocessing
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from typing import ParamSpec, Protocol, TypeVar

import torch

Report = Callable[[str], None]


class Job(Hashable, Protocol):
    """A unit of work for the process pool; pickled to a worker process."""

    @property
    def cache_key(self) -> Hashable | None:
        """Jobs with one key share cached files: the first one fills the cache for the others."""


J = TypeVar("J", bound=Job)
P = ParamSpec("P")
R = TypeVar("R")


def run_jobs(
    pending: Callable[[], Sequence[J]],
    work: Callable[[J], R],
    finished: Callable[[J, R], None],
    *,
    workers: int,
    minutes: float = 24 * 60,
    report: Report = print,
) -> None:
    """Run jobs in a process pool until none is pending or the time is up.

    Args:
        pending: returns the jobs without a result, most important first; called repeatedly,
            because a result can make further jobs possible.
        work: runs one job in a worker process.
        finished: receives each job and its result in this process.
        workers: number of processes; 1 runs the jobs in this process.
        minutes: jobs still running after this time are killed.
        report: receives one line for each failed job and a summary.
    """
    deadline = time.monotonic() + 60 * minutes
    in_flight: dict[Future[R], J] = {}
    failed: set[J] = set()
    filled: set[Hashable] = set()

    def waiting() -> list[J]:
        busy = {*failed, *in_flight.values()}
        return [job for job in pending() if job not in busy]

    def collect(future: Future[R]) -> None:
        job = in_flight.pop(future)
        filled.add(job.cache_key)
        if error := future.exception():
            failed.add(job)
            report(f"FAILED {job}: {error!r}")
        else:
            finished(job, future.result())

    with _InProcessExecutor() if workers == 1 else _start_processes(workers) as pool:
        while time.monotonic() < deadline:
            jobs = waiting()
            if not jobs and not in_flight:
                break
            for job in _startable(jobs, list(in_flight.values()), filled, workers):
                in_flight[pool.submit(work, job)] = job
            done, _ = wait(in_flight, timeout=1, return_when=FIRST_COMPLETED)
            for future in done:
                collect(future)
        report(f"{len(waiting()) + len(in_flight)} jobs remain, {len(failed)} failed")
        _kill_processes(in_flight)


def _kill_processes(in_flight: Collection[object]) -> None:
    """Kill the pool's processes if jobs are still running; otherwise they end by themselves."""
    if in_flight:
        for process in multiprocessing.active_children():
            process.kill()


def _startable(
    jobs: Sequence[J], running: Sequence[J], filled: set[Hashable], workers: int
) -> Iterator[J]:
    """Yield jobs for the free workers of the pool; a cache is filled by one job, not by several."""
    free = workers - len(running)
    filling = {job.cache_key for job in running} - filled
    for job in jobs:
        if free <= 0:
            return
        if job.cache_key is None or job.cache_key not in filling:
            if job.cache_key not in filled:
                filling.add(job.cache_key)
            free -= 1
            yield job


def _start_processes(workers: int) -> Executor:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)
    )


class _InProcessExecutor(Executor):
    """A pool without processes: ``submit`` runs the work at once."""

    def submit(self, work: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Run the work in this process and return its finished future."""
        future: Future[R] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future
