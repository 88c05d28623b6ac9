"""Jobs side by side, each with a results folder of its own: a killed run loses those in flight."""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import torch

from lamatext.training.trainer import pick_device
from paper.records import Results

SETS = ("imdb", "clothing", "r8", "news", "mr")  # the longest first
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Job:
    """One model, trained once."""

    dataset: str  # a known name, or a folder that holds the set
    model: str
    seed: int | None = None

    @property
    def folder(self) -> str:
        """Where its records lie."""
        return f"{name_of(self.dataset)}-{self.model}-{self.seed}".replace(" ", "-")

    @property
    def shared(self) -> tuple[str, int | None]:
        """Jobs of one set and seed share what the first of them leaves in the cache."""
        return self.dataset, self.seed


def name_of(dataset: str) -> str:
    """What the records call a set: a known name, or that of its folder."""
    folder = Path(dataset)
    return folder.name if folder.is_dir() else dataset


Work = Callable[[Results, Job, str], None]  # trains on the device of that name, adds the records


def run_pool(work: Work, jobs: Sequence[Job], parts: Path, *, device: str, workers: int) -> None:
    """Do all jobs, the first ones first; a shared cache is filled by one job, not by many."""
    waiting, begun, filled = (
        list(jobs),
        set[tuple[str, int | None]](),
        set[tuple[str, int | None]](),
    )
    flying: dict[Future[str], Job] = {}
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        while waiting or flying:
            free = [job for job in waiting if job.shared in filled or job.shared not in begun]
            if free and len(flying) < workers:
                job = free[0]
                waiting.remove(job)
                begun.add(job.shared)
                flying[pool.submit(_work, work, parts, job, device, workers == 1)] = job
                continue
            done, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in done:
                filled.add(flying.pop(future).shared)
                print(future.exception() or future.result(), flush=True)


def _work(work: Work, parts: Path, job: Job, device: str, alone: bool) -> str:
    if not alone:
        torch.set_num_threads(1)
    started = time.perf_counter()
    work(Results(parts / job.folder), job, device)
    return f"{job.dataset} {job.model} {job.seed}: {time.perf_counter() - started:.0f} s"


def collect(parts: Path, results: Results, experiment: str) -> None:
    """Bring the records of all jobs that are done into one file."""
    for part in sorted(parts.iterdir()):
        results.add(Results(part).of(experiment))


def options(description: str | None) -> argparse.ArgumentParser:
    """What every run of a pool can be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--parts", type=Path, required=True, help="a folder a job, for resuming")
    parser.add_argument("--sets", type=listed, default=list(SETS), help="names, or folders")
    parser.add_argument("--seeds", type=numbers, default=list(SEEDS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1, help="0: only collect what is there")
    parser.add_argument("--results", type=Path, default=Path("results"))
    return parser


def run_given(work: Work, jobs: Sequence[Job], experiment: str, given: argparse.Namespace) -> None:
    """Do the jobs as the options say, then bring their records together."""
    given.parts.mkdir(parents=True, exist_ok=True)
    if given.workers:
        run_pool(work, jobs, given.parts, device=given.device, workers=given.workers)
    collect(given.parts, Results(given.results), experiment)


def listed(names: str) -> list[str]:
    """``a,b`` as a list."""
    return [name for name in names.split(",") if name]


def numbers(names: str) -> list[int]:
    """``0,1`` as a list."""
    return [int(name) for name in listed(names)]


def device_name(device: str) -> str:
    """What a record says of the machine it was made on."""
    picked = pick_device(device)
    return torch.cuda.get_device_name(picked) if picked.type == "cuda" else "cpu"
