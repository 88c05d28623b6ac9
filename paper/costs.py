"""What each model of the leaderboard costs: all on one machine, one after the other.

Trained once on all training texts; the test texts are read for speed, their labels are not.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import ParamSpec

import numpy as np

from benchmarks.comparison import cpu_name
from lamatext.baselines import BASELINES, check_baselines
from lamatext.classifier import TextClassifier
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.recipes import resolve_recipe
from lamatext.runtime.parallel import usable_cores
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe
from paper.leaderboard import OURS, recipe_for
from paper.pool import listed, name_of
from paper.protocol import MINILM as FINE_TUNING
from paper.records import Results, blank

EXPERIMENT = "costs"
MINILM = "minilm"
MODELS = (*OURS, *BASELINES, MINILM)
NO_ROW = {("imdb", "tfidf-chars")}  # of the leaderboard
MANY, FEW = 2048, 256  # texts read for speed; few by a model that reads tens in a second
ONE_BY_ONE = 100  # texts read for latency
EACH = 10  # texts of each class to warm up with

P = ParamSpec("P")
Predict = Callable[[list[str]], object]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a record is made of."""

    bytes: float
    texts_per_second: float
    latency_ms: float  # p50 of one text
    seconds: float | None  # to train; None where that was measured elsewhere


@dataclass(frozen=True, slots=True)
class Trained:
    """A model at work, and what it took."""

    predict: Predict
    bytes: int
    seconds: float | None = None


def run_costs(results: Results, dataset: str, model: str) -> None:
    """Measure a model on a set, unless that was done before."""
    waiting = blank(EXPERIMENT, name_of(dataset), model, "bytes", device=device())
    if results.has(waiting.key) or (dataset, model) in NO_ROW:
        return
    found = asdict(measure_costs(load_dataset(dataset), load_dataset(dataset, split="test"), model))
    results.add(
        replace(waiting, metric=metric, value=value)
        for metric, value in found.items()
        if value is not None
    )


def measure_costs(train: Dataset, test: Dataset, model: str) -> Costs:
    """Train on ``train``, then read some texts of ``test`` together and one by one."""
    rows = np.random.default_rng(0).permutation(len(test))[: FEW if model == MINILM else MANY]
    texts = test.texts.take(rows).to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        trained = _trained(model, train, Path(folder))
        trained.predict(texts[:EACH])
        return Costs(
            bytes=trained.bytes,
            texts_per_second=len(texts) / _seconds(trained.predict, texts),
            latency_ms=1e3 * median(_seconds(trained.predict, [one]) for one in texts[:ONE_BY_ONE]),
            seconds=trained.seconds,
        )


def _trained(model: str, train: Dataset, folder: Path) -> Trained:
    if model in BASELINES:
        return _baseline(model, train)
    if model == MINILM:  # its size and speed are the same after any training
        values = {**dict(FINE_TUNING), "training.epochs": 1}
        recipe = resolve_recipe(recipe="paper/bert", values=values)
        return replace(_ours(recipe, handful(train), folder), seconds=None)
    recipe = recipe_for(model, seed=0)
    _ours(recipe, handful(train), folder)  # compiles kernels, imports libraries
    return _ours(recipe, train, folder)


def _ours(recipe: Recipe, train: Dataset, folder: Path) -> Trained:
    classifier = TextClassifier.of_recipe(recipe, device="cpu")
    with empty_cache():
        seconds = _seconds(classifier.fit, train.texts, train.labels)
    classifier.save(folder)
    return Trained(Predictor.load(folder).predict_proba, folder_size(folder), seconds)


def _baseline(name: str, train: Dataset) -> Trained:
    check_baselines([name])
    baseline = BASELINES[name][1]()
    labels = train.require_labels()
    class_indices = LabelEncoder.fit(labels).encode(labels)
    seconds = _seconds(baseline.fit, train.texts.to_pylist(), class_indices)
    return Trained(baseline.probabilities, baseline.size(), seconds)


def handful(corpus: Dataset) -> Dataset:
    """The first few texts of each class."""
    labels = corpus.require_labels()
    encoder = LabelEncoder.fit(labels)
    indices = encoder.encode(labels)
    rows = [np.flatnonzero(indices == i)[:EACH] for i in range(len(encoder.classes))]
    return corpus.take(np.sort(np.concatenate(rows)))


@contextmanager
def empty_cache() -> Iterator[None]:
    """Nothing that was kept before helps; what is kept now is forgotten."""
    name = "LAMATEXT_CACHE"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]
            if before is not None:
                os.environ[name] = before


def device() -> str:
    """The processor and how much of it may be used."""
    return f"{cpu_name()}, {usable_cores()} cores"


def _seconds(work: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> float:
    started = time.perf_counter()
    work(*arguments, **named)
    return time.perf_counter() - started


def main() -> None:
    """``python -m paper.costs``: the shortest sets first, a record at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=listed, default=["mr", "r8", "news", "clothing", "imdb"])
    parser.add_argument("--models", type=listed, default=list(MODELS))
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    results = Results(given.results)
    for dataset in given.sets:
        for model in given.models:
            seconds = _seconds(run_costs, results, dataset, model)
            print(f"{dataset} {model}: {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
