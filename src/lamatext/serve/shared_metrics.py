"""Metrics of all worker processes together, shared as one JSON file per worker.

A worker saves its counters every second. The worker that answers ``GET /metrics`` adds those of the
others to its own; the successor of a killed worker continues with its counters.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from lamatext.serve.prometheus import Histogram, Metrics

SECONDS = 1.0  # between two saves
COUNTERS = ("requests", "texts", "reloads", "inputs")  # of ``Metrics``


class SharedMetrics:
    """Files in which the worker processes of a server share their metrics.

    Args:
        folder: a folder of all workers.
        number: the number of this worker.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.path = folder, folder / f"{number}.json"

    def restore(self, metrics: Metrics) -> None:
        """Restore the shared metrics that an earlier process of this worker has saved."""
        _add_file(metrics, self.path)

    def save(self, metrics: Metrics) -> None:
        """Save the metrics of this worker to its shared file, which the other workers read."""
        temporary = self.path.with_suffix(".tmp")
        with suppress(OSError):
            temporary.write_text(json.dumps(_values(metrics)), encoding="utf-8")
            temporary.replace(self.path)

    async def save_regularly(self, metrics: Metrics) -> None:
        """Save the metrics of this worker to its shared file every second."""
        while True:
            self.save(metrics)
            await asyncio.sleep(SECONDS)

    def total(self, metrics: Metrics) -> Metrics:
        """Return the sum of this worker's metrics and the shared metrics of the other workers."""
        total = Metrics()
        _add(total, _values(metrics))
        for path in self.folder.glob("*.json"):
            if path != self.path:
                _add_file(total, path)
        return total


def _values(metrics: Metrics) -> dict[str, Any]:
    counters = {name: list(getattr(metrics, name).items()) for name in COUNTERS}
    return {
        **counters,
        "seconds": {route: [h.counts, h.total] for route, h in metrics.seconds.items()},
        "batches": [metrics.batches.counts, metrics.batches.total],
    }


def _add(metrics: Metrics, values: dict[str, Any]) -> None:
    for name in COUNTERS:
        for key, count in values[name]:  # JSON has lists instead of tuples
            getattr(metrics, name)[tuple(key) if isinstance(key, list) else key] += count
    for route, (counts, total) in values["seconds"].items():
        _add_histogram(metrics.seconds[route], counts, total)
    _add_histogram(metrics.batches, *values["batches"])


def _add_file(metrics: Metrics, path: Path) -> None:
    with suppress(OSError, ValueError):  # not saved yet
        _add(metrics, json.loads(path.read_bytes()))


def _add_histogram(histogram: Histogram, counts: list[int], total: float) -> None:
    histogram.counts = [own + more for own, more in zip(histogram.counts, counts, strict=True)]
    histogram.total += total
