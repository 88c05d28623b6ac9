"""Accuracy jobs: train and score one model on one data set, many of them in the process pool."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import torch
import typer

from lamatext.baselines import LeaderboardRow
from lamatext.errors import ConfigError
from lamatext.training.trainer import pick_device
from paper.process_pool import run_jobs
from paper.records import Record, Records

ALL_DATASETS = "imdb,clothing,r8,news,mr"  # the longest first
ALL_SEEDS = "0,1,2"
RECORDS = Path(__file__).parent / "records"

Datasets = Annotated[str, typer.Option(help="Names or folders, separated by commas.")]
Seeds = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Workers = Annotated[int, typer.Option(help="Number of models trained in parallel.")]
Folder = Annotated[Path, typer.Option("--records", help="Folder of the records.")]
Force = Annotated[bool, typer.Option("--force", help="Measure existing records again.")]


class Measure(Protocol):
    """A function that trains and scores one accuracy job on a device."""

    def __call__(self, job: "AccuracyJob", device: str) -> list[Record]:
        """Return the records of one accuracy job."""


@dataclass(frozen=True, slots=True)
class AccuracyJob:
    """One model to train and score on one data set."""

    dataset: str  # a known name, or a folder with the data set
    model: str
    seed: int | None = None

    @property
    def cache_key(self) -> Hashable:
        """Accuracy jobs of one data set and seed share cached tokens and word vectors."""
        return self.dataset, self.seed

    @property
    def dataset_name(self) -> str:
        """The data set's name in the records: a known name, or the name of its folder."""
        return dataset_name(self.dataset)


def dataset_name(dataset: str) -> str:
    """Return the name of a data set in the accuracy records, without its folder."""
    folder = Path(dataset)
    return folder.name if folder.is_dir() else dataset


def run_accuracy_jobs(
    records: Records,
    jobs: Sequence[AccuracyJob],
    measure: Measure,
    first_record: Callable[[AccuracyJob], Record],
    *,
    device: str,
    workers: int,
) -> None:
    """Run the accuracy jobs that have no record yet and add their records.

    ``measure`` trains and scores one job on a device; ``first_record`` returns a record whose key
    shows that a job is finished.
    """

    def pending() -> list[AccuracyJob]:
        return [job for job in jobs if not records.has(first_record(job).key)]

    def finished(job: AccuracyJob, measured: list[Record]) -> None:
        records.add(measured)
        print(f"{job.dataset} {job.model} seed {job.seed}: done", flush=True)

    run_jobs(pending, partial(measure, device=device), finished, workers=workers)


def row_records(
    experiment: str,
    job: AccuracyJob,
    row: LeaderboardRow,
    metrics: Sequence[str],
    device: str,
) -> list[Record]:
    """Return the records of an accuracy job: these metrics of its leaderboard row."""
    return [
        replace(job_record(experiment, job, metric), value=value, device=device).with_provenance()
        for metric in metrics
        if (value := getattr(row, metric)) is not None
    ]


def job_record(experiment: str, job: AccuracyJob, metric: str) -> Record:
    """Return the record of an accuracy job and metric without its value: it has the same key."""
    return Record(experiment, job.dataset_name, job.model, metric, 0.0, job.seed)


def device_name(device: str) -> str:
    """Return the device name in the accuracy records."""
    picked = pick_device(device)
    return torch.cuda.get_device_name(picked) if picked.type == "cuda" else "cpu"


def split_names(names: str) -> list[str]:
    """Split a comma-separated option of the accuracy benchmarks."""
    return [name for name in names.split(",") if name]


def split_known_names(option: str, names: str, known: Collection[str]) -> list[str]:
    """Split a comma-separated option of a benchmark and check that all names are known."""
    given = split_names(names)
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"--{option}: unknown {unknown[0]!r}. Known: {', '.join(known)}.")
    return given
