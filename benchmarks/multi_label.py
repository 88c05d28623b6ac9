"""``python -m benchmarks multi_label``: test scores with several labels per text, and of baselines.

A data set is a folder with train and test files, such as reuters or goemotions, and perhaps valid;
without it a tenth of the training texts is the validation set. All models choose their thresholds
on the validation set by the same rule, for the default goal.
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.accuracy_jobs import (
    ALL_SEEDS,
    RECORDS,
    AccuracyJob,
    Datasets,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    run_accuracy_jobs,
    split_names,
)
from lamatext.baselines import BASELINES, LeaderboardRow, train_baseline
from lamatext.data.dataset import Dataset
from lamatext.data.named_datasets import dataset_folder
from lamatext.data.readers.folder_reader import folder_has_split
from lamatext.data.sources import load_dataset
from lamatext.errors import DataError
from lamatext.pipeline import Splits, fit_recipe, score_saved_model
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.saved.format import folder_size
from paper.records import Record, Records

EXPERIMENT = "multi_label"
METRICS = (
    *("micro_f1", "macro_f1", "mean_average_precision", "accuracy", "calibration_error"),
    *("bytes", "texts_per_second", "seconds"),
)
OURS = "default"


def load_splits(dataset: str) -> Splits:
    """Load the parts of a multi-label data set from its folder."""
    folder = dataset_folder(dataset) or Path(dataset)
    if not folder.is_dir():
        raise DataError(f"{dataset}: no such folder, also not in $LAMATEXT_DATA.")

    def load(split: str) -> Dataset:
        return load_dataset(str(folder), split=split)

    validation = load("valid") if folder_has_split(folder, "valid") else None
    return Splits(load("train"), validation, load("test"))


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train and score one multi-label model or baseline; baselines have no seed."""
    splits = load_splits(job.dataset)
    if job.seed is None:
        row = train_baseline(job.model, splits.train, splits.validation).evaluate(splits.test)
        return make_records(job, row, "cpu")
    recipe, started = resolve_recipe(values={"seed": job.seed}), time.perf_counter()
    classifier = fit_recipe(recipe, splits, SILENT, device=device)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        scores, speed = score_saved_model(Path(folder), splits.test)
        size = folder_size(Path(folder))
    row = LeaderboardRow.from_scores(job.model, scores, size=size, speed=speed, seconds=seconds)
    return make_records(job, row, device_name(device))


def make_records(job: AccuracyJob, row: LeaderboardRow, device: str) -> list[Record]:
    """Return the records of one multi-label model."""
    return [
        Record(
            EXPERIMENT,
            job.dataset_name,
            job.model,
            metric,
            float(getattr(row, metric)),
            job.seed,
            device=device,
        ).with_provenance()
        for metric in METRICS
    ]


def first_record(job: AccuracyJob) -> Record:
    """Return the record whose key shows that a multi-label model has been measured."""
    return Record(EXPERIMENT, job.dataset_name, job.model, METRICS[0], 0.0, job.seed)


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = "reuters,goemotions",
    seeds: Seeds = ALL_SEEDS,
    baselines: Annotated[str, typer.Option(help=f"Of {', '.join(BASELINES)}.")] = ",".join(
        BASELINES
    ),
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train models with several labels per text, and baselines, and record their test scores."""
    rows: list[tuple[str, int | None]] = [
        *((OURS, int(seed)) for seed in split_names(seeds)),
        *((name, None) for name in split_names(baselines)),
    ]
    jobs = [AccuracyJob(dataset, *row) for dataset in split_names(datasets) for row in rows]
    run_accuracy_jobs(
        Records(records, force=force),
        jobs,
        measure_job,
        first_record,
        device=device,
        workers=workers,
    )
