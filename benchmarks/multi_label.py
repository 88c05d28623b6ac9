"""``python -m benchmarks multi_label``: test scores with several labels per text, and of baselines.

A data set is a folder with train and test files, such as reuters or goemotions, and perhaps valid;
without it a tenth of the training texts is the validation set. All models choose their thresholds
on the validation set by the same rule, for the default goal. A student's teacher may take an hour:
``distillation.teacher_minutes`` is 60. With ``--validation`` a tenth of the
training texts, which no model sees, stands in for the test part, to choose settings.
"""

import tempfile
import time
from dataclasses import replace
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
    job_record,
    row_records,
    run_accuracy_jobs,
    split_names,
)
from lamatext.baselines import BASELINES, LeaderboardRow, train_baseline
from lamatext.data.dataset import Dataset
from lamatext.data.named_datasets import dataset_folder
from lamatext.data.readers.folder_reader import folder_has_split
from lamatext.data.sources import load_dataset
from lamatext.data.splits import hold_out
from lamatext.errors import DataError
from lamatext.pipeline import Splits, fit_recipe, score_saved_model
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.saved.format import folder_size
from paper.records import Record, Records

EXPERIMENT = "multi_label"
METRICS = (
    *("micro_f1", "macro_f1", "mean_average_precision", "accuracy", "hamming_loss"),
    *("calibration_error", "bytes", "texts_per_second", "seconds"),
)
LABEL_METRICS = ("precision", "recall", "f1", "texts")
MODELS = "default,student"  # the student learns from MiniLM
HELD_OUT = 0.1
TEACHER = {"distillation.teacher_minutes": 60.0}  # a busy machine does not shorten its training


def load_splits(dataset: str, *, validation: bool = False) -> Splits:
    """Load the parts of a multi-label data set from its folder.

    With ``validation``, a tenth of the training part stands in for the test part.
    """
    folder = dataset_folder(dataset) or Path(dataset)
    if not folder.is_dir():
        raise DataError(f"{dataset}: no such folder, also not in $LAMATEXT_DATA.")

    def load(split: str) -> Dataset:
        return load_dataset(str(folder), split=split)

    train, stopping = load("train"), None
    if folder_has_split(folder, "valid"):
        stopping = load("valid")
    if not validation:
        return Splits(train, stopping, load("test"))
    rows, held_out = hold_out(train.require_labels(), HELD_OUT, 1_000, source=dataset)
    return Splits(train.take(rows), stopping, train.take(held_out))


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train and score one multi-label model or baseline; baselines have no seed."""
    model, _, part = job.model.partition("@")
    splits = load_splits(job.dataset, validation=part == "validation")
    if job.seed is None:
        row = train_baseline(model, splits.train, splits.validation).evaluate(splits.test)
        return _records(job, row, "cpu")
    values: dict[str, object] = {"seed": job.seed}
    if model == "student":
        splits, values = replace(splits, teacher="minilm"), {**values, **TEACHER}
    recipe = resolve_recipe(recipe=model, values=values)
    started = time.perf_counter()
    classifier = fit_recipe(recipe, splits, SILENT, device=device)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        scores, speed = score_saved_model(Path(folder), splits.test)
        size = folder_size(Path(folder))
    row = LeaderboardRow.from_scores(job.model, scores, size=size, speed=speed, seconds=seconds)
    return _records(job, row, device_name(device))


def _records(job: AccuracyJob, row: LeaderboardRow, device: str) -> list[Record]:
    """Return the records of a multi-label job: its metrics, and the scores of each label."""
    records = row_records(EXPERIMENT, job, row, METRICS, device)
    for name in LABEL_METRICS:
        by_label = {scores.label: getattr(scores, name) for scores in row.labels or ()}
        records.append(replace(records[0], metric=f"label_{name}", value=by_label))
    return [replace(record, config=_record_of(job).config) for record in records]


def _record_of(job: AccuracyJob) -> Record:
    """Return the record of a multi-label job by which it is found again."""
    record = job_record(EXPERIMENT, job, METRICS[0])
    return replace(record, config=TEACHER) if job.model.startswith("student") else record


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = "reuters,goemotions",
    seeds: Seeds = ALL_SEEDS,
    models: Annotated[str, typer.Option(help=f"Of {MODELS}.")] = "default",
    baselines: Annotated[str, typer.Option(help=f"Of {', '.join(BASELINES)}.")] = ",".join(
        BASELINES
    ),
    validation: Annotated[
        bool, typer.Option("--validation", help="Score on held-out training texts.")
    ] = False,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train models with several labels per text, and baselines, and record their test scores."""
    rows: list[tuple[str, int | None]] = [
        *((name, int(seed)) for name in split_names(models) for seed in split_names(seeds)),
        *((name, None) for name in split_names(baselines)),
    ]
    suffix = "@validation" if validation else ""
    jobs = [
        AccuracyJob(dataset, name + suffix, seed)
        for dataset in split_names(datasets)
        for name, seed in rows
    ]
    run_accuracy_jobs(
        Records(records, force=force),
        jobs,
        measure_job,
        _record_of,
        device=device,
        workers=workers,
    )
