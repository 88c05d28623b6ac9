"""Many texts: from a file to labels, against TF-IDF, fastText and eager PyTorch.

All read the same Parquet file of test texts, and all learned their words from the same training
texts. Ours is the paper's ``lama-ctx``; the default recipe, with its n-grams, is told beside it.
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

from benchmarks.figures import Figure, Seconds, in_turns
from benchmarks.models import eager, save_untrained
from benchmarks.plain import plain_torch
from lamatext.baselines import BASELINES, Baseline
from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load
from lamatext.data.token_ids import by_length
from lamatext.recipes import load_recipe
from lamatext.runtime.predictor import Predictor

BATCHES = (2048, 8192, 32768)  # words in a batch that eager PyTorch is tried with
PROBES = 3  # turns in which its best way is found
BASELINE_NAMES = {"TF-IDF + LR": "tfidf", "fastText": "fasttext"}

Run = Callable[[list[str]], object]


def figures(
    source: str = "imdb", *, train: int = 3000, test: int = 1500, turns: int = 3
) -> list[Figure]:
    """Texts a second, reading and tokenising included."""
    learned, asked = _some(load(source), train), _some(load(source, split="test"), test)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pq.write_table(pa.table({"text": asked.texts}), place / "texts.parquet")
        lama = load_recipe("paper/lama-ctx").with_values({"text.tokenizer": "words"})
        default = load_recipe("default").with_values({"ngrams.characters": False})
        saved = save_untrained(place / "lama-ctx", lama, learned)
        whole = save_untrained(place / "default", default, learned)
        plain, way = _eager(saved, asked.texts.to_pylist()[:60])
        runs: dict[str, Run] = {
            "ours": Predictor.load(saved).predict,
            "default recipe": Predictor.load(whole).predict,
            "eager torch": plain,
            **{
                title: _fitted(name, learned)
                for title, name in BASELINE_NAMES.items()
                if _has(name)
            },
        }

        def from_file(run: Run) -> Callable[[], object]:
            return lambda: run(pq.read_table(place / "texts.parquet").column("text").to_pylist())

        seconds = in_turns({name: from_file(run) for name, run in runs.items()}, turns)
    return _told(seconds, len(asked), {"eager torch": asdict(way)})


def _told(
    seconds: dict[str, Seconds], texts: int, details: Mapping[str, Mapping[str, object]]
) -> list[Figure]:
    speeds = {name: [texts / taken for taken in times] for name, times in seconds.items()}
    found = []
    for ours, prefix in (("ours", ""), ("default recipe", "default recipe: ")):
        for name in speeds.keys() - {"ours", "default recipe"}:
            ratios = [a / b for a, b in zip(speeds[ours], speeds[name], strict=True)]
            what = f"{prefix}texts/s, {name}"
            both = speeds[ours], speeds[name]
            more = details.get(name, {})
            found.append(Figure.of(what, ratios, *both, scale=1, unit="texts/s", details=more))
    return sorted(found, key=lambda figure: figure.what, reverse=True)


@dataclass(frozen=True, slots=True)
class Way:
    """How eager PyTorch is run."""

    words: int  # in a batch, padding included
    threads: int


def _eager(folder: Path, probe: list[str]) -> tuple[Run, Way]:
    """The network in PyTorch on packed sequences, at its best size of batch and best threads."""
    predictor = eager(folder)

    def run(texts: list[str], way: Way) -> None:
        with plain_torch(way.threads):
            rows = predictor.encoder.encode(texts)
            for batch in by_length(rows.lengths, words=way.words):
                predictor.engine.logits(*rows.pad(batch))

    threads = sorted({1, torch.get_num_threads()})
    ways = {f"{way}": way for way in (Way(w, t) for t in threads for w in BATCHES)}
    tried = in_turns({name: partial(run, probe, way) for name, way in ways.items()}, PROBES)
    best = ways[min(tried, key=lambda name: min(tried[name]))]
    return partial(run, way=best), best


def _fitted(name: str, corpus: Dataset) -> Run:
    """The baseline of that name, trained on the corpus."""
    labels = corpus.require_labels()
    baseline: Baseline = BASELINES[name][1]()
    baseline.fit(corpus.texts.to_pylist(), LabelEncoder.fit(labels).encode(labels))
    return baseline.probabilities


def _has(name: str) -> bool:
    return name != "fasttext" or importlib.util.find_spec("fasttext") is not None


def _some(corpus: Dataset, texts: int) -> Dataset:
    return corpus.take(np.random.default_rng(0).permutation(len(corpus))[:texts])
