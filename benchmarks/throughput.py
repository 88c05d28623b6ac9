"""Throughput of predicting a file of texts, against TF-IDF, fastText and eager PyTorch.

All read the same Parquet file of test texts and learned their words from the same training texts.
The main comparison is the paper's ``lama-ctx``; the default recipe with n-grams is measured too.
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

from benchmarks.comparison import Comparison, Seconds, time_alternating
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
BASELINE_NAMES = {"TF-IDF + LR": "tfidf", "fastText": "fasttext"}

Predict = Callable[[list[str]], object]


def measure(
    source: str = "imdb", *, train: int = 3000, test: int = 1500, rounds: int = 3
) -> list[Comparison]:
    """Compare the throughput in texts per second, including reading and tokenizing."""
    train_sample = _sample(load_paper_dataset(source), train)
    test_sample = _sample(load_paper_dataset(source, "test"), test)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pq.write_table(pa.table({"text": test_sample.texts}), place / "texts.parquet")
        lama = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        default = load_recipe("default").with_values({"ngrams.characters": False})
        lama_folder = save_untrained(place / "lama-ctx", lama, train_sample)
        default_folder = save_untrained(place / "default", default, train_sample)
        eager, eager_options = _tuned_eager(lama_folder, test_sample.texts.to_pylist()[:60])
        contestants: dict[str, Predict] = {
            "ours": Predictor.load(lama_folder).predict,
            "default recipe": Predictor.load(default_folder).predict,
            "eager torch": eager,
            **{
                title: _fitted(name, train_sample)
                for title, name in BASELINE_NAMES.items()
                if _is_installed(name)
            },
        }

        def from_file(run: Predict) -> Callable[[], object]:
            return lambda: run(pq.read_table(place / "texts.parquet").column("text").to_pylist())

        runs = {name: from_file(run) for name, run in contestants.items()}
        seconds = time_alternating(runs, rounds)
    return _compare(seconds, len(test_sample), {"eager torch": asdict(eager_options)})


def _compare(
    seconds: dict[str, Seconds], texts: int, details: Mapping[str, Mapping[str, object]]
) -> list[Comparison]:
    speeds = {name: [texts / taken for taken in times] for name, times in seconds.items()}
    comparisons = [
        Comparison.throughput(
            f"{prefix}texts/s, {name}",
            (speeds[ours], speeds[name]),
            "texts/s",
            details=details.get(name),
        )
        for ours, prefix in (("ours", ""), ("default recipe", "default recipe: "))
        for name in speeds.keys() - {"ours", "default recipe"}
    ]
    return sorted(comparisons, key=lambda comparison: comparison.metric, reverse=True)


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


def _fitted(name: str, dataset: Dataset) -> Predict:
    return train_baseline(name, dataset).model.predict_proba


def _is_installed(name: str) -> bool:
    return name != "fasttext" or importlib.util.find_spec("fasttext") is not None


def _sample(dataset: Dataset, texts: int) -> Dataset:
    return dataset.take(np.random.default_rng(0).permutation(len(dataset))[:texts])
