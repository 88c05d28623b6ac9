"""``python -m benchmarks leaderboard``: test accuracy of the default recipe and its alternatives.

Each model is trained on the training part alone; the saved model is scored once on the test part.
"""

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.accuracy_jobs import (
    ALL_DATASETS,
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
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.metrics import Scores, score
from lamatext.recipes import resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "leaderboard"
METRICS = ("accuracy", "macro_f1", "calibration_error", "bytes", "texts_per_second", "seconds")
RECIPES = {"default": "default", "lama-ctx": "paper/lama-ctx"}  # our rows of the leaderboard


def load_row_recipe(model: str, seed: int) -> Recipe:
    """Load the recipe of one of our leaderboard rows with a seed."""
    return resolve_recipe(recipe=RECIPES[model], values={"seed": seed})


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train and score one leaderboard row; baselines have no seed."""
    train, test = load_paper_dataset(job.dataset), load_paper_dataset(job.dataset, "test")
    if job.seed is None:
        row = train_baseline(job.model, train).evaluate(test)
        return row_records(EXPERIMENT, job, row, METRICS, "cpu")
    recipe = load_row_recipe(job.model, job.seed)
    started = time.perf_counter()
    classifier = TextClassifier.of_recipe(recipe, device=device).fit(train.texts, train.labels)
    seconds = time.perf_counter() - started
    scores, size, speed = score_saved(classifier, test)
    row = LeaderboardRow.from_scores(job.model, scores, size=size, speed=speed, seconds=seconds)
    return row_records(EXPERIMENT, job, row, METRICS, device_name(device))


def score_saved(classifier: TextClassifier, test: Dataset) -> tuple[Scores, int, float]:
    """Save a classifier, then return the saved model's scores, bytes and texts per second."""
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        predictor = Predictor.load(folder)
        predictor.predict_proba([""])  # loads the inference engine
        started = time.perf_counter()
        probabilities = predictor.predict_proba(test.texts.to_pylist()).astype(np.float64)
        speed = len(test) / (time.perf_counter() - started)
        encoder = LabelEncoder(tuple(classifier.classes_.tolist()))
        truth = encoder.encode(test.require_labels(), place=test.place)
        return score(encoder.classes, truth, probabilities), folder_size(Path(folder)), speed


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = ALL_DATASETS,
    seeds: Seeds = ALL_SEEDS,
    models: Annotated[str, typer.Option(help=f"Of {', '.join(RECIPES)}.")] = "default",
    baselines: Annotated[str, typer.Option(help=f"Of {', '.join(BASELINES)}.")] = "",
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train the leaderboard's models and record their test scores."""
    rows: list[tuple[str, int | None]] = [
        *((model, int(seed)) for model in split_names(models) for seed in split_names(seeds)),
        *((name, None) for name in split_names(baselines)),
    ]
    jobs = [
        AccuracyJob(dataset, model, seed)
        for dataset in split_names(datasets)
        for model, seed in rows
    ]
    run_accuracy_jobs(
        Records(records, force=force),
        jobs,
        measure_job,
        partial(job_record, EXPERIMENT, metric=METRICS[0]),
        device=device,
        workers=workers,
    )
