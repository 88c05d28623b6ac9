"""Request counters, drift counters and histograms of a server in the Prometheus text format.

The worker processes of a server share them through one JSON file per worker. A worker saves its
counters every second. The worker that answers ``GET /metrics`` adds the counters of the other
workers to its own; the successor of a killed worker continues with that worker's counters.
"""

import asyncio
import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lamatext.outliers import OUTLIER, ValidationStatistics
from lamatext.runtime.predictor import TextAssessment

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
References = Mapping[str, tuple[Sequence[object], ValidationStatistics]]  # labels by model
INPUTS = {
    "predicted_labels": "Predictions of each label.",
    "unsure": "Predictions below the model's threshold.",
    "outliers": "Texts more unusual than 99 % of the validation texts.",
    "words": "Words of the predicted texts.",
    "unknown_words": "Words outside the model's vocabulary.",
}
COUNTERS = ("requests", "texts", "reloads", "inputs")  # of ``Metrics``
SAVE_SECONDS = 1.0  # between two saves of a worker's metrics
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """A Prometheus histogram, which counts observations in buckets."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add one observation to the Prometheus histogram."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """Yield the histogram in the Prometheus text format, adding ``labels`` to every sample."""
        cumulative = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            cumulative += count
            bucket = f'le="{bound}"'
            yield f"{name}_bucket{_braces(labels, bucket)} {cumulative}"
        yield f"{name}_sum{_braces(labels)} {self.total:.6f}"
        yield f"{name}_count{_braces(labels)} {cumulative}"


class Metrics:
    """All counters and histograms that the server exposes to Prometheus."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()  # route, method, status
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self.texts: Counter[str] = Counter()  # by route
        self.batches = Histogram(SIZES)
        self.reloads: Counter[tuple[str, str]] = Counter()  # model, ok or failed
        self.inputs: Counter[tuple[str, str, str]] = Counter()  # key of INPUTS, model, label

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Record a completed request and its duration in the Prometheus metrics."""
        self.requests[route, method, status] += 1
        self.seconds[route].observe(seconds)

    def count_inputs(
        self,
        model: str,
        assessments: Sequence[TextAssessment],
        predictions: Sequence[Mapping[str, Any]],
    ) -> None:
        """Add the labels, words and outliers of predicted texts to the Prometheus counters.

        As in the response, each prediction has a ``label`` or a list of ``labels``.
        """
        for assessment, prediction in zip(assessments, predictions, strict=True):
            for label in prediction["labels"] if "labels" in prediction else [prediction["label"]]:
                self.inputs["predicted_labels", model, str(label)] += 1
            self.inputs["unsure", model, ""] += bool(assessment.is_unsure)
            self.inputs["outliers", model, ""] += (assessment.outlier_score or 0.0) >= OUTLIER
            self.inputs["words", model, ""] += assessment.words
            self.inputs["unknown_words", model, ""] += assessment.unknown_words

    def exposition(self, references: References | None = None) -> str:
        """Return all metrics in the Prometheus text exposition format.

        ``references`` are the statistics of the validation texts, to which inputs can be compared.
        """
        return "\n".join([*self._lines(), *_reference_lines(references or {})]) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _header("lamatext_requests_total", "counter", "Answered requests.")
        for (route, method, status), count in sorted(self.requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            yield f"lamatext_requests_total{{{labels}}} {count}"
        yield from _header("lamatext_request_seconds", "histogram", "Duration of a request.")
        for route, histogram in sorted(self.seconds.items()):
            yield from histogram.lines("lamatext_request_seconds", f'route="{route}"')
        yield from _header("lamatext_texts_total", "counter", "Texts processed by a model.")
        for route, count in sorted(self.texts.items()):
            yield f'lamatext_texts_total{{route="{route}"}} {count}'
        yield from _header("lamatext_reloads_total", "counter", "Reloads of a model.")
        for (model, result), count in sorted(self.reloads.items()):
            labels = _braces(_pair("model", model), _pair("result", result))
            yield f"lamatext_reloads_total{labels} {count}"
        for series, description in INPUTS.items():
            yield from _header(f"lamatext_{series}_total", "counter", description)
            for (name, model, label), count in sorted(self.inputs.items()):
                if name == series:
                    labels = _braces(_pair("model", model), label and _pair("label", label))
                    yield f"lamatext_{series}_total{labels} {count}"
        yield from _header("lamatext_batch_texts", "histogram", "Texts per batch.")
        yield from self.batches.lines("lamatext_batch_texts")


def _reference_lines(references: References) -> Iterator[str]:
    """Yield Prometheus gauges of label and unknown-word shares in the validation texts."""
    name = "lamatext_validation_label_share"
    yield from _header(name, "gauge", "Share of each predicted label among validation texts.")
    for model, (labels, validation) in references.items():
        for label, count in zip(labels, validation.labels, strict=True):
            braces = _braces(_pair("model", model), _pair("label", str(label)))
            yield f"{name}{braces} {count / max(validation.texts, 1):.6g}"
    name = "lamatext_validation_unknown_word_share"
    yield from _header(name, "gauge", "Share of unknown words in validation texts.")
    for model, (_, validation) in references.items():
        share = validation.unknown_words / max(validation.words, 1)
        yield f"{name}{_braces(_pair('model', model))} {share:.6g}"


def _pair(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'


def _header(name: str, kind: str, description: str) -> Iterator[str]:
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"


def _braces(*labels: str) -> str:
    inner = ",".join(label for label in labels if label)
    return f"{{{inner}}}" if inner else ""


class SharedMetrics:
    """Prometheus metrics that the worker processes of a server share through files."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.path = folder, folder / f"{number}.json"

    def restore(self, metrics: Metrics) -> None:
        """Restore the Prometheus metrics that an earlier process of this worker saved."""
        _add_file(metrics, self.path)

    def save(self, metrics: Metrics) -> None:
        """Save the metrics of this worker to a file that the other workers read."""
        temporary = self.path.with_suffix(".tmp")
        with suppress(OSError):
            temporary.write_text(json.dumps(_values(metrics)), encoding="utf-8")
            temporary.replace(self.path)

    async def save_regularly(self, metrics: Metrics) -> None:
        """Save the metrics of this worker to its shared file every second."""
        while True:
            self.save(metrics)
            await asyncio.sleep(SAVE_SECONDS)

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
