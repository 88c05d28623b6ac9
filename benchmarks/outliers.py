"""``python -m benchmarks outliers``: texts that belong to none of the classes, on clinc150.

All models learn from the training and validation texts, which have 150 classes; the texts of the
part ``oos-test`` have none of them and are never trained on. A model refuses the texts with the
smallest evidence: lamatext by its outlier score, TF-IDF + SVM by the largest margin, fastText and
MiniLM by the largest probability.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

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
from benchmarks.costs import MINILM
from lamatext.baselines import TfidfLinear, train_baseline
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.outliers import OUTLIER
from lamatext.recipes import resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.settings import Recipe
from paper.official_datasets import load_paper_dataset
from paper.protocol import MINILM as MINILM_SETTINGS
from paper.records import Record, Records

EXPERIMENT = "outliers"
DATASET = "clinc150"
REFUSED = 0.05  # share of in-scope texts
BASELINES = ("tfidf-svc", "tfidf-chars", "fasttext")

Floats = NDArray[np.float64]


class Refusals(NamedTuple):
    """A model's predicted labels, and how unusual it finds each text."""

    labels: list[str]
    scores: Floats  # larger: more unusual


Assess = Callable[[Sequence[str]], Refusals]


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train one model and measure how well it tells texts of no class from the others."""
    train, validation = (load_paper_dataset(job.dataset, part) for part in ("train", "valid"))
    test, outside = (load_paper_dataset(job.dataset, part) for part in ("test", "oos-test"))
    if job.seed is None:
        assess, device = _train_baseline(job.model, train.concatenate(validation)), "cpu"
    else:
        recipe = _recipe(job.model, job.seed)
        assess = _train_classifier(recipe, train, validation, device)
        device = device_name(device)
    inside, outliers = assess(test.texts.to_pylist()), assess(outside.texts.to_pylist())
    truth = test.require_labels().to_pylist()
    values = {
        "accuracy": float(np.mean([a == b for a, b in zip(inside.labels, truth, strict=True)])),
        "auroc": area_under_roc(inside.scores, outliers.scores),
        "caught": share_caught(inside.scores, outliers.scores, REFUSED),
    }
    if job.model == "default":
        values["flagged_in_scope"] = float((inside.scores >= OUTLIER).mean())
        values["flagged_outliers"] = float((outliers.scores >= OUTLIER).mean())
    return [
        Record(
            EXPERIMENT, job.dataset_name, job.model, metric, value, job.seed, device=device
        ).with_provenance()
        for metric, value in values.items()
    ]


def area_under_roc(inside: Floats, outliers: Floats) -> float:
    """Return the probability that an outlier is more unusual than an in-scope text."""
    ascending = np.sort(inside)
    below, above = (np.searchsorted(ascending, outliers, side=side) for side in ("left", "right"))
    return float((below + above).mean() / (2 * len(inside)))


def share_caught(inside: Floats, outliers: Floats, refused: float) -> float:
    """Return the share of outliers caught if this share of in-scope texts is refused."""
    return float((outliers > np.quantile(inside, 1 - refused)).mean())


def _recipe(model: str, seed: int) -> Recipe:
    if model == "default":
        return resolve_recipe(recipe="default", values={"seed": seed})
    longer = {"training.epochs": 5, "seed": seed}  # for 150 classes
    return resolve_recipe(recipe="paper/bert", values={**dict(MINILM_SETTINGS), **longer})


def _train_classifier(recipe: Recipe, train: Dataset, validation: Dataset, device: str) -> Assess:
    """Train lamatext or MiniLM; lamatext is saved and loaded as users do."""
    classifier = TextClassifier.of_recipe(recipe, device=device).fit(
        train.texts, train.labels, validation_data=(validation.texts, validation.labels)
    )
    if recipe.model.name == "bert":
        return lambda texts: _largest(classifier.classes_, classifier.predict_proba(texts))
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor.load(classifier.save(folder))

    def assess(texts: Sequence[str]) -> Refusals:
        found = predictor.assess(texts)
        labels = predictor.classes_[found.probabilities.argmax(axis=1)].tolist()
        return Refusals(labels, found.outlier_scores)

    return assess


def _train_baseline(name: str, train: Dataset) -> Assess:
    trained = train_baseline(name, train)
    classes, model = np.array(trained.labels.names), trained.model
    values = model.margins if isinstance(model, TfidfLinear) else model.predict_proba
    return lambda texts: _largest(classes, values(texts))


def _largest(classes: NDArray[np.generic], values: NDArray[np.floating]) -> Refusals:
    """Return the refusals of a model by its largest probability or margin."""
    return Refusals(classes[values.argmax(axis=1)].tolist(), -values.max(axis=1).astype(np.float64))


def run(  # noqa: PLR0913 - each argument is one option on the command line
    dataset: Annotated[str, typer.Option(help="A name or folder with an oos-test part.")] = DATASET,
    seeds: Seeds = ALL_SEEDS,
    models: Annotated[str, typer.Option(help=f"Of default, {MINILM}.")] = "default",
    baselines: Annotated[str, typer.Option(help="Names of baselines.")] = ",".join(BASELINES),
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure how well models tell texts of no class from the texts of their classes."""
    rows: list[tuple[str, int | None]] = [
        *((model, int(seed)) for model in split_names(models) for seed in split_names(seeds)),
        *((name, None) for name in split_names(baselines)),
    ]
    run_accuracy_jobs(
        Records(records, force=force),
        [AccuracyJob(dataset, model, seed) for model, seed in rows],
        measure_job,
        partial(job_record, EXPERIMENT, metric="accuracy"),
        device=device,
        workers=workers,
    )
