"""Metrics that worker processes share: nothing is forgotten, and nothing is counted twice."""

from collections import Counter
from pathlib import Path

from lamatext.serve.prometheus import Histogram, Metrics, SharedMetrics


def busy_metrics() -> Metrics:
    """Return metrics in which every counter and histogram has counted something."""
    metrics = Metrics()
    metrics.count_request("/predict", "POST", 200, 0.01)
    metrics.texts["/predict"] += 2
    metrics.batches.observe(2)
    metrics.reloads["reviews", "ok"] += 1
    metrics.inputs["words", "reviews", ""] += 7
    return metrics


def test_every_metric_of_another_worker_is_in_the_total(tmp_path: Path) -> None:
    other, own = SharedMetrics(tmp_path, 0), SharedMetrics(tmp_path, 1)
    other.save(busy_metrics())

    total = own.total(Metrics())

    for name, value in vars(total).items():
        filled = value.counts if isinstance(value, Histogram) else value
        assert Counter(filled) != Counter(), name
    assert total.exposition() == busy_metrics().exposition()


def test_a_worker_does_not_count_its_own_file(tmp_path: Path) -> None:
    shared, metrics = SharedMetrics(tmp_path, 0), busy_metrics()
    shared.save(metrics)

    assert shared.total(metrics).exposition() == metrics.exposition()


def test_the_successor_of_a_worker_continues_with_its_counts(tmp_path: Path) -> None:
    SharedMetrics(tmp_path, 0).save(busy_metrics())
    successor = Metrics()

    SharedMetrics(tmp_path, 0).restore(successor)

    assert successor.exposition() == busy_metrics().exposition()


def test_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{")

    assert SharedMetrics(tmp_path, 0).total(busy_metrics()).exposition() == (
        busy_metrics().exposition()
    )
