"""Linear baselines that the paper does not have, on the same texts: TF-IDF and fastText."""

from dataclasses import replace

from lamatext.baselines import train_baseline
from paper.confidence_intervals import pack_bits, prediction_name, store_correctness
from paper.datasets import read_parts
from paper.records import Record, Records

BASELINE_NAMES = ("tfidf", "tfidf-svc", "fasttext", "fasttext-bigrams")


def measure_baseline(
    records: Records, dataset: str, name: str, *, max_texts: int | None = None
) -> None:
    """Train a linear baseline on the whole training part and record its test accuracy."""
    config: dict[str, object] = {} if max_texts is None else {"texts": max_texts}
    record = Record("accuracy", dataset, name, "accuracy", 0.0, device="CPU", config=config)
    if records.has(record.key):
        return
    train, test = read_parts(dataset, max_texts)
    baseline = train_baseline(name, train)
    truth = baseline.labels.encode(test.require_labels(), place=test.place)
    correct = baseline.model.predict_proba(test.texts.to_pylist()).argmax(axis=1) == truth
    stored_as = prediction_name("accuracy", name, None, {})
    store_correctness(records.folder, dataset, stored_as, pack_bits(correct))
    finished = replace(record, value=float(correct.mean()), seconds=round(baseline.seconds, 2))
    records.add([finished.with_provenance()])
