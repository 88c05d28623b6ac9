"""Throughput of predicting a file of texts, against TF-IDF, fastText and eager PyTorch.

All read the same Parquet file of test texts and learned their words from the same training texts.
On long texts (IMDB) the paper's ``lama-ctx`` and the default recipe with n-grams are measured, on
short texts (news) the default recipe.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.comparison import Comparison, time_alternating
from benchmarks.plain_pytorch import plain_pytorch
from benchmarks.untrained_models import load_eager, save_untrained
from lamatext.baselines import train_baseline
from lamatext.data.dataset import Dataset
from lamatext.data.token_ids import batches_by_length
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import Predictor
from paper.official_datasets import load_paper_dataset

BATCH_WORDS = (2048, 8192, 32768)  # batch sizes that eager PyTorch is tried with
TRIAL_ROUNDS = 3  # rounds that choose its batch size and threads
MORE_SHORT_TEXTS = 8  # factor: short texts take a twentieth of the time of long ones
OURS = {"lama-ctx", "default recipe"}
BASELINE_NAMES = {"TF-IDF + LR": "tfidf", "fastText": "fasttext"}

Predict = Callable[[list[str]], object]


def measure(
    source: str = "imdb",
    short_source: str = "news",
    *,
    train: int = 3000,
    test: int = 1500,
    rounds: int = 3,
) -> list[Comparison]:
    """Compare the throughput in texts per second, including reading and tokenizing."""
    long_texts = _load(source, train, test)
    short_texts = _load(short_source, MORE_SHORT_TEXTS * train, MORE_SHORT_TEXTS * test)
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_measure_long_texts(Path(folder), *long_texts, rounds),
            *_measure_short_texts(Path(folder), *short_texts, rounds),
        ]


def _measure_long_texts(
    folder: Path, train: Dataset, test: Dataset, rounds: int
) -> list[Comparison]:
    lama = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
    lama_folder = save_untrained(folder / "lama-ctx", lama, train)
    eager, eager_options = _tuned_eager(lama_folder, test.texts.to_pylist()[:60])
    contestants: dict[str, Predict] = {
        "lama-ctx": Predictor.load(lama_folder).predict,
        "default recipe": _default_recipe(folder / "default", train, characters=False),
        "eager torch": eager,
        **_baselines(train),
    }
    speeds = _speeds(contestants, folder / "texts.parquet", test, rounds)
    details = {"eager torch": asdict(eager_options)}
    return [
        *_compare(speeds, "lama-ctx", "", details),
        *_compare(speeds, "default recipe", "default recipe: ", details),
    ]


def _measure_short_texts(
    folder: Path, train: Dataset, test: Dataset, rounds: int
) -> list[Comparison]:
    contestants: dict[str, Predict] = {
        "default recipe": _default_recipe(folder / "short", train, characters=True),
        **_baselines(train),
    }
    speeds = _speeds(contestants, folder / "short.parquet", test, rounds)
    return _compare(speeds, "default recipe", "default recipe, short texts: ", {})


def _default_recipe(folder: Path, train: Dataset, *, characters: bool) -> Predict:
    """Return the prediction of the default recipe.

    ``characters`` is what ``ngrams.characters = "auto"`` resolves to with the whole data set.
    """
    recipe = load_recipe("default").with_values({"ngrams.characters": characters})
    return Predictor.load(save_untrained(folder, recipe, train)).predict


def _baselines(train: Dataset) -> dict[str, Predict]:
    names = {title: name for title, name in BASELINE_NAMES.items() if _is_installed(name)}
    return {title: train_baseline(name, train).model.predict_proba for title, name in names.items()}


def _speeds(
    contestants: Mapping[str, Predict], file: Path, test: Dataset, rounds: int
) -> dict[str, list[float]]:
    """Return the texts per second of each contestant and round, with reading a Parquet file."""
    pq.write_table(pa.table({"text": test.texts}), file)

    def from_file(run: Predict) -> Callable[[], object]:
        return lambda: run(pq.read_table(file).column("text").to_pylist())

    runs = {name: from_file(run) for name, run in contestants.items()}
    seconds = time_alternating(runs, rounds)
    return {name: [len(test) / taken for taken in times] for name, times in seconds.items()}


def _compare(
    speeds: Mapping[str, list[float]],
    ours: str,
    prefix: str,
    details: Mapping[str, Mapping[str, object]],
) -> list[Comparison]:
    """Compare one of our recipes with every contestant that is not ours."""
    return [
        Comparison.throughput(
            f"{prefix}texts/s, {name}",
            (speeds[ours], speeds[name]),
            "texts/s",
            details=details.get(name),
        )
        for name in sorted(speeds.keys() - OURS, reverse=True)
    ]


@dataclass(frozen=True, slots=True)
class EagerOptions:
    """Batch size and threads at which eager PyTorch reaches its best throughput."""

    words: int  # per batch, including padding
    threads: int


def _tuned_eager(folder: Path, probe: list[str]) -> tuple[Predict, EagerOptions]:
    """Return eager PyTorch prediction at the batch size and threads with the best throughput."""
    predictor = load_eager(folder)

    def run(texts: list[str], options: EagerOptions) -> None:
        with plain_pytorch(options.threads):
            rows = predictor.encoder.encode(texts)
            for batch in batches_by_length(rows.lengths, max_words=options.words):
                predictor.engine.logits(*rows.pad(batch))

    threads = sorted({1, torch.get_num_threads()})
    candidates = {
        f"{words} words, {count} threads": EagerOptions(words, count)
        for count in threads
        for words in BATCH_WORDS
    }
    seconds = time_alternating(
        {name: partial(run, probe, options) for name, options in candidates.items()}, TRIAL_ROUNDS
    )
    best = candidates[min(seconds, key=lambda name: min(seconds[name]))]
    return partial(run, options=best), best


def _is_installed(name: str) -> bool:
    return name != "fasttext" or importlib.util.find_spec("fasttext") is not None


def _load(source: str, train: int, test: int) -> tuple[Dataset, Dataset]:
    """Return samples of the training and test texts of a data set."""
    parts = load_paper_dataset(source), load_paper_dataset(source, "test")
    return _sample(parts[0], train), _sample(parts[1], test)


def _sample(dataset: Dataset, texts: int) -> Dataset:
    return dataset.take(np.random.default_rng(0).permutation(len(dataset))[:texts])
