"""``python -m benchmarks clean``: how many randomly flipped labels are found, next to cleanlab.

In the training part of a data set, 5 % of the labels are replaced by another label at random. Every
text is predicted out of fold as ``lamatext clean`` does, and the precision among the first 5 % of
each ranking is recorded: that of lamatext, and those of confident learning (cleanlab) by the same
probabilities. ``default`` trains the default recipe with its network on the folds of the first
repetition, and ``both`` averages the logarithms of both probabilities.
"""

from pathlib import Path
from statistics import mean
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from benchmarks.accuracy_jobs import (
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
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import group_rows
from lamatext.errors import DataError, require
from lamatext.recipes import resolve_recipe
from lamatext.suspect_labels import FOLDS, IMPROBABLE, OutOfFoldModels, suspect_scores
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "flipped_labels"
FLIPPED = 0.05
DATASETS = "clothing,mr,r8"
SEEDS = "10,11,12,13,14"  # the ranking was chosen with others
NETWORKS = {
    "default": "the default recipe with its network",
    "both": "the mean of both",
}
MODELS = ("ngrams", *NETWORKS)
CLEANLAB = {
    f"cleanlab {method.replace('_', ' ')}{', adjusted' if adjusted else ''}": (method, adjusted)
    for method, adjusted in (
        ("self_confidence", False),
        ("normalized_margin", False),
        ("confidence_weighted_entropy", False),
        ("self_confidence", True),
        ("normalized_margin", True),
    )
}
CLEANLAB_ISSUES = "cleanlab find_label_issues"

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class FlippedLabels(NamedTuple):
    """A data set with flipped labels: class indices, and which of them were flipped."""

    dataset: Dataset
    labels: Indices  # (n,)
    is_flipped: Flags  # (n,)


def flip_labels(name: str, seed: int) -> FlippedLabels:
    """Replace 5 % of the training labels of a data set by another label, drawn at random."""
    dataset = load_paper_dataset(name)
    names, labels = np.unique(dataset.require_labels().to_pylist(), return_inverse=True)
    generator = np.random.default_rng(seed)
    flipped = generator.choice(len(labels), round(FLIPPED * len(labels)), replace=False)
    steps = generator.integers(1, len(names), len(flipped))
    labels = labels.astype(np.int64)
    labels[flipped] = (labels[flipped] + steps) % len(names)
    column = pa.chunked_array([names[labels].tolist()], pa.string())
    is_flipped = np.zeros(len(labels), bool)
    is_flipped[flipped] = True
    return FlippedLabels(dataset.with_labels(column), labels, is_flipped)


def predict_out_of_fold(data: FlippedLabels, model: str, seed: int, device: str) -> Floats:
    """Predict the class probabilities of every text by models that were not trained on it (n, C).

    ``model`` is one of ``MODELS``.
    """
    dataset = data.dataset
    models = OutOfFoldModels.prepare(dataset, seed, group_rows(dataset.texts))
    probabilities = []
    if model in ("ngrams", "both"):
        tables = [models.predict_fold(number) for number in range(len(models.folds))]
        probabilities.append(models.combine(tables).probabilities)
    if model in ("default", "both"):
        network = np.full((len(dataset), models.classes), 1 / models.classes)
        recipe = resolve_recipe(recipe="default", values={"seed": seed})
        for train, held_out in models.folds[:FOLDS]:
            part, rest = dataset.take(train), dataset.take(held_out)
            classifier = TextClassifier.of_recipe(recipe, device=device)
            classifier.fit(part.texts, part.labels)
            network[held_out] = classifier.predict_proba(rest.texts.to_pylist())
        probabilities.append(network)
    logs = np.mean([np.log(np.maximum(p, 1e-12)) for p in probabilities], axis=0)
    powers = np.exp(logs)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


def precision_of_first(badness: Floats, is_flipped: Flags) -> float:
    """Return the share of flipped labels among the first 5 % of a ranking."""
    first = np.argsort(-badness, kind="stable")[: round(FLIPPED * len(badness))]
    return float(is_flipped[first].mean())


def score_rankings(data: FlippedLabels, probabilities: Floats) -> dict[str, float]:
    """Return the precision of the rankings of lamatext and cleanlab by the same probabilities."""
    filters = require("cleanlab.filter", extra="dev", purpose="confident learning")
    ranks = require("cleanlab.rank", extra="dev", purpose="confident learning")
    labels, is_flipped = data.labels, data.is_flipped
    own = probabilities[np.arange(len(labels)), labels]
    is_listed = (own < IMPROBABLE) & (probabilities.argmax(axis=1) != labels)
    scores = {
        "lamatext": precision_of_first(suspect_scores(probabilities, labels), is_flipped),
        "listed": float(is_listed.mean()),
        "precision of listed": float(is_flipped[is_listed].mean()),
        "recall of listed": float(is_listed[is_flipped].mean()),
        "agreement": float((probabilities.argmax(axis=1) == labels).mean()),
    }
    for name, (method, adjusted) in CLEANLAB.items():
        quality = ranks.get_label_quality_scores(
            labels, probabilities, method=method, adjust_pred_probs=adjusted
        )
        scores[name] = precision_of_first(-quality, is_flipped)
    # Found issues first, ranked as the package does by default; then the others.
    issues = filters.find_label_issues(labels, probabilities, n_jobs=1)
    scores[CLEANLAB_ISSUES] = precision_of_first(issues * 1.0 - own, is_flipped)
    return scores


def measure_job(job: AccuracyJob, device: str, saved: Path | None = None) -> list[Record]:
    """Flip labels, predict out of fold and return the precision of each ranking.

    ``saved`` is a folder with probabilities that another machine has computed.
    """
    assert job.seed is not None
    data = flip_labels(job.dataset, job.seed)
    path = None if saved is None else probability_path(saved, job)
    if path is None:
        probabilities = predict_out_of_fold(data, job.model, job.seed, device)
        device = device_name(device) if job.model != "ngrams" else "cpu"
    else:
        arrays = np.load(path)
        probabilities, device = arrays["probabilities"].astype(np.float64), str(arrays["device"])
        if len(probabilities) != len(data.labels):
            raise DataError(f"{path}: expected {len(data.labels)} rows, got {len(probabilities)}.")
    return [
        Record(
            EXPERIMENT, job.dataset_name, job.model, metric, value, job.seed, device=device
        ).with_provenance()
        for metric, value in score_rankings(data, probabilities).items()
    ]


def probability_path(folder: Path, job: AccuracyJob) -> Path:
    """Return the file of a job's out-of-fold probabilities."""
    return folder / f"{job.dataset_name}-{job.model}-{job.seed}.npz"


def save_probabilities(job: AccuracyJob, device: str, folder: Path) -> None:
    """Predict the texts of a job out of fold and save the probabilities for ``--probabilities``."""
    assert job.seed is not None
    data = flip_labels(job.dataset, job.seed)
    probabilities = predict_out_of_fold(data, job.model, job.seed, device)
    np.savez_compressed(
        probability_path(folder, job),
        probabilities=probabilities.astype(np.float32),
        device=device_name(device),
    )


def flipped_labels_table(records: Records) -> str:
    """Format the precision among the first 5 % of each ranking, and what lamatext lists."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for record in records.of(EXPERIMENT):
        values.setdefault((record.dataset, record.model, record.metric), []).append(record.number)
    datasets = [name for name in split_names(DATASETS) if (name, "ngrams", "lamatext") in values]

    def cells(metric: str, model: str = "ngrams") -> list[str]:
        found = (values.get((dataset, model, metric)) for dataset in datasets)
        return [MISSING if numbers is None else f"{mean(numbers):.3f}" for numbers in found]

    rows = [
        ["**`lamatext clean`**", *cells("lamatext")],
        *([name, *cells(name)] for name in (*CLEANLAB, CLEANLAB_ISSUES)),
        *(
            [f"ranked like `lamatext clean`, by {title}", *cells("lamatext", model)]
            for model, title in NETWORKS.items()
            if any((dataset, model, "lamatext") in values for dataset in datasets)
        ),
        ["share of texts that `lamatext clean` lists", *cells("listed")],
        ["of these flipped", *cells("precision of listed")],
        ["flipped labels that are listed", *cells("recall of listed")],
    ]
    seeds = [len(values[dataset, "ngrams", "lamatext"]) for dataset in datasets]
    titles = [f"{dataset}, {count} draws" for dataset, count in zip(datasets, seeds, strict=True)]
    return markdown_table(["precision among the first 5 %", *titles], rows)


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = DATASETS,
    seeds: Seeds = SEEDS,
    models: Annotated[str, typer.Option(help=f"Of {', '.join(MODELS)}.")] = "ngrams",
    probabilities: Annotated[
        Path | None, typer.Option(help="Folder of probabilities that were computed elsewhere.")
    ] = None,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Flip labels at random and measure how many of them lamatext and cleanlab find."""
    from functools import partial

    store = Records(records, force=force)
    jobs = [
        AccuracyJob(dataset, model, int(seed))
        for model in split_names(models)
        for seed in split_names(seeds)
        for dataset in split_names(datasets)
    ]
    run_accuracy_jobs(
        store,
        jobs,
        partial(measure_job, saved=probabilities),
        lambda job: Record(EXPERIMENT, job.dataset_name, job.model, "lamatext", 0.0, job.seed),
        device=device,
        workers=workers,
    )
    print(flipped_labels_table(store))
