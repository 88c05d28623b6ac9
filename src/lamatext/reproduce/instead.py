"""What a user would pick instead, on the same texts: records of TF-IDF + linear and fastText."""

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lamatext.data.sources import load
from lamatext.reproduce.predictions import keep_hits, packed
from lamatext.reproduce.records import Results, blank
from lamatext.rivals import RIVALS, Numbers, Texts

NAMES = ("tfidf", "tfidf-svc", "fasttext", "fasttext-bigrams")


def measure_rival(results: Results, dataset: str, name: str, *, texts: int | None = None) -> None:
    """Train on the whole training part, as these have nothing to stop early, and score once."""
    config: dict[str, object] = {} if texts is None else {"texts": texts}
    record = blank("accuracy", dataset, name, "accuracy", config)
    if results.has(record.key):
        return
    (train, labels), (test, truth) = _parts(dataset, texts)
    rival, started = RIVALS[name][1](), time.perf_counter()
    rival.fit(train, labels)
    seconds = time.perf_counter() - started
    right = rival.probabilities(test).argmax(axis=1) == truth
    keep_hits(results.folder, dataset, f"accuracy {name}", packed(right))
    results.add([replace(record, value=float(right.mean()), seconds=round(seconds, 2))])


def _parts(dataset: str, texts: int | None) -> tuple[tuple[Texts, Numbers], tuple[Texts, Numbers]]:
    """Texts and class numbers of both parts; only some, drawn at random, for a quick look."""
    train, test = load(dataset), load(dataset, split="test")
    names = np.unique(np.array(_strings(train.labels)))
    parts = []
    for corpus in (train, test):
        order = np.random.default_rng(0).permutation(len(corpus))[:texts]
        rows = np.arange(len(corpus)) if texts is None else order
        kept = corpus.take(rows)
        numbers = np.searchsorted(names, np.array(_strings(kept.labels)))
        parts.append((kept.texts.to_pylist(), numbers))
    return parts[0], parts[1]


def _strings(column: pa.ChunkedArray | None) -> list[str]:
    return [] if column is None else column.to_pylist()
