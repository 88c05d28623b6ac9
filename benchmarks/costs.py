"""``python -m benchmarks costs``: size, speed and training time of the leaderboard's models.

All models run on one machine, one after the other: trained once on all training texts, then timed
on test texts, whose labels are not read.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, ParamSpec

import numpy as np
import typer

from benchmarks.accuracy_jobs import RECORDS, Datasets, Folder, Force, dataset_name, split_names
from benchmarks.comparison import cpu_name
from benchmarks.leaderboard import RECIPES, load_row_recipe
from lamatext.baselines import BASELINES, train_baseline
from lamatext.classifier import TextClassifier
from lamatext.data.cache import empty_cache
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.errors import plural
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.recipes import resolve_recipe
from lamatext.runtime.predictor import Predictor
from lamatext.runtime.scoring import median_latency
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe
from paper.official_datasets import load_paper_dataset
from paper.protocol import MINILM as MINILM_SETTINGS
from paper.records import Record, Records

EXPERIMENT = "costs"
MINILM = "minilm"
MODELS = (*RECIPES, *BASELINES, MINILM)
ALL_MODELS = ",".join(MODELS)
SKIPPED = {("imdb", "tfidf-chars")}  # not in the leaderboard
TIMED_TEXTS, TIMED_TEXTS_MINILM = 2048, 256  # MiniLM predicts tens of texts per second
TEXTS_PER_CLASS = 10  # for warming up

P = ParamSpec("P")
Predict = Callable[[list[str]], object]


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one model: size, throughput, latency and training time."""

    bytes: float
    texts_per_second: float
    latency_ms: float  # median of one text
    seconds: float | None  # training time; None if it was measured elsewhere


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A trained model whose costs are measured."""

    predict: Predict
    bytes: int
    seconds: float | None = None


def record_costs(records: Records, dataset: str, model: str) -> None:
    """Measure the costs of a model on a data set, unless a record exists."""
    waiting = Record(EXPERIMENT, dataset_name(dataset), model, "bytes", 0.0, device=describe_cpu())
    if records.has(waiting.key) or (dataset, model) in SKIPPED:
        return
    costs = asdict(
        measure_costs(load_paper_dataset(dataset), load_paper_dataset(dataset, "test"), model)
    )
    records.add(
        replace(waiting, metric=metric, value=value).with_provenance()
        for metric, value in costs.items()
        if value is not None
    )


def measure_costs(train: Dataset, test: Dataset, model: str) -> Costs:
    """Train a model, then time it on test texts, together and one at a time."""
    timed = TIMED_TEXTS_MINILM if model == MINILM else TIMED_TEXTS
    rows = np.random.default_rng(0).permutation(len(test))[:timed]
    texts = test.texts.take(rows).to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        fitted = _fit(model, train, Path(folder))
        latency = median_latency(fitted.predict, texts)
        return Costs(
            bytes=fitted.bytes,
            texts_per_second=len(texts) / _seconds(fitted.predict, texts),
            latency_ms=latency,
            seconds=fitted.seconds,
        )


def _fit(model: str, train: Dataset, folder: Path) -> FittedModel:
    if model in BASELINES:
        return _fit_baseline(model, train)
    if model == MINILM:  # its size and speed do not depend on the training texts
        values = {**dict(MINILM_SETTINGS), "training.epochs": 1}
        recipe = resolve_recipe(recipe="paper/bert", values=values)
        return replace(_fit_recipe(recipe, few_texts(train), folder), seconds=None)
    recipe = load_row_recipe(model, seed=0)
    _fit_recipe(recipe, few_texts(train), folder)  # compiles kernels, imports libraries
    return _fit_recipe(recipe, train, folder)


def _fit_recipe(recipe: Recipe, train: Dataset, folder: Path) -> FittedModel:
    classifier = TextClassifier.of_recipe(recipe, device="cpu")
    with empty_cache():
        seconds = _seconds(classifier.fit, train.texts, train.labels)
    classifier.save(folder)
    return FittedModel(Predictor.load(folder).predict_proba, folder_size(folder), seconds)


def _fit_baseline(name: str, train: Dataset) -> FittedModel:
    baseline = train_baseline(name, train)
    return FittedModel(baseline.model.predict_proba, baseline.model.size(), baseline.seconds)


def few_texts(dataset: Dataset) -> Dataset:
    """Return the first few texts of each class, to warm up before costs are measured."""
    labels = dataset.require_labels()
    encoder = LabelEncoder.fit(labels)
    indices = encoder.encode(labels)
    rows = [np.flatnonzero(indices == i)[:TEXTS_PER_CLASS] for i in range(len(encoder.classes))]
    return dataset.take(np.sort(np.concatenate(rows)))


def describe_cpu() -> str:
    """Return the processor and the number of usable cores, as the costs records name them."""
    return f"{cpu_name()}, {plural(usable_cores(), 'core')}"


def _seconds(work: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> float:
    started = time.perf_counter()
    work(*arguments, **named)
    return time.perf_counter() - started


def run(
    datasets: Datasets = "mr,r8,news,clothing,imdb",
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = ALL_MODELS,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure the costs of the leaderboard's models, one at a time."""
    store = Records(records, force=force)
    for dataset in split_names(datasets):
        for model in split_names(models):
            seconds = _seconds(record_costs, store, dataset, model)
            print(f"{dataset} {model}: {seconds:.0f} s", flush=True)
