"""What a user would pick instead, on the same texts: records of TF-IDF + linear and fastText."""

import time
from dataclasses import replace

from lamatext.baselines import BASELINES, Numbers, Texts
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from paper.predictions import keep_hits, packed
from paper.prepared import some
from paper.records import Results, blank

NAMES = ("tfidf", "tfidf-svc", "fasttext", "fasttext-bigrams")


def measure_baseline(
    results: Results, dataset: str, name: str, *, texts: int | None = None
) -> None:
    """Train on the whole training part, as these have nothing to stop early, and score once."""
    config: dict[str, object] = {} if texts is None else {"texts": texts}
    record = blank("accuracy", dataset, name, "accuracy", config)
    if results.has(record.key):
        return
    (train, labels), (test, truth) = _parts(dataset, texts)
    baseline, started = BASELINES[name][1](), time.perf_counter()
    baseline.fit(train, labels)
    seconds = time.perf_counter() - started
    right = baseline.probabilities(test).argmax(axis=1) == truth
    keep_hits(results.folder, dataset, f"accuracy {name}", packed(right))
    results.add([replace(record, value=float(right.mean()), seconds=round(seconds, 2))])


def _parts(dataset: str, most: int | None) -> tuple[tuple[Texts, Numbers], tuple[Texts, Numbers]]:
    """Texts and class numbers of both parts."""
    train, test = (some(load_dataset(dataset, split=split), most) for split in ("train", "test"))
    encoder = LabelEncoder.fit(train.require_labels())
    labels = [encoder.encode(part.require_labels(), source=dataset) for part in (train, test)]
    return (train.texts.to_pylist(), labels[0]), (test.texts.to_pylist(), labels[1])
