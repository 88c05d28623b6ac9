"""``python -m benchmarks coverage``: does a threshold for a target accuracy hold on test texts?

A tenth of the training part is held out. A model trained on the rest gets the threshold that
``lamatext evaluate --target-accuracy`` finds on this tenth, and is scored once on the test part:
its accuracy on the answered test texts must lie inside the 95 % interval of the held-out texts.
"""

from functools import partial
from typing import Annotated

import numpy as np
import typer

from benchmarks.accuracy_jobs import (
    ALL_SEEDS,
    RECORDS,
    AccuracyJob,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    job_record,
    run_accuracy_jobs,
    split_names,
)
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.splits import hold_out
from lamatext.errors import DataError
from lamatext.metrics import Floats, Numbers, find_threshold, score
from lamatext.recipes import resolve_recipe
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "coverage"
HELD_OUT = 0.1
TARGETS = "imdb=0.95,clothing=0.75,r8=0.99"


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train one model, find its threshold on held-out texts and apply it to the test part.

    ``job.model`` is the target accuracy.
    """
    assert job.seed is not None
    whole, test = load_paper_dataset(job.dataset), load_paper_dataset(job.dataset, "test")
    rows, held_out = hold_out(whole.require_labels(), HELD_OUT, job.seed, source=whole.source)
    train, target = whole.take(rows), float(job.model)
    recipe = resolve_recipe(recipe="default", values={"seed": job.seed})
    classifier = TextClassifier.of_recipe(recipe, device=device).fit(train.texts, train.labels)
    truth, probabilities = _predict(classifier, whole.take(held_out))
    scores = score(classifier.classes_.tolist(), truth, probabilities)
    point = find_threshold(scores.coverage, target)
    if point is None:
        raise DataError(f"{job.dataset}: no threshold reaches an accuracy of {target:g}.")
    truth, probabilities = _predict(classifier, test)
    answered = probabilities.max(axis=1) >= point.threshold
    correct = probabilities.argmax(axis=1) == truth
    values = {
        "threshold": point.threshold,
        "held_out_answered": point.answered,
        "held_out_accuracy": point.accuracy,
        "low": point.low,
        "high": point.high,
        "test_answered": float(answered.mean()),
        "test_accuracy": float(correct[answered].mean()),
        "test_accuracy_of_all": float(correct.mean()),
    }
    return [
        Record(
            EXPERIMENT, job.dataset_name, job.model, name, value, job.seed,
            device=device_name(device),
        ).with_provenance()
        for name, value in values.items()
    ]  # fmt: skip


def _predict(classifier: TextClassifier, dataset: Dataset) -> tuple[Numbers, Floats]:
    """Return the true classes and the probabilities of a part of the coverage benchmark."""
    encoder = LabelEncoder(tuple(classifier.classes_.tolist()))
    truth = encoder.encode(dataset.require_labels(), place=dataset.place)
    return truth, classifier.predict_proba(dataset.texts).astype(np.float64)


def run(
    targets: Annotated[str, typer.Option(help="NAME=TARGET, separated by commas.")] = TARGETS,
    seeds: Seeds = ALL_SEEDS,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Find a threshold for a target accuracy on held-out texts and record it on test texts."""
    pairs = [target.split("=") for target in split_names(targets)]
    run_accuracy_jobs(
        Records(records, force=force),
        [
            AccuracyJob(dataset, target, int(seed))
            for dataset, target in pairs
            for seed in split_names(seeds)
        ],
        measure_job,
        partial(job_record, EXPERIMENT, metric="threshold"),
        device=device,
        workers=workers,
    )
