"""Counters of the server in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How many values lay at or under each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """Its samples; ``labels`` like ``route="/predict"``."""
        below = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            below += count
            at = f'le="{bound}"'
            yield f"{name}_bucket{_braces(labels, at)} {below}"
        yield f"{name}_sum{_braces(labels)} {self.total:.6f}"
        yield f"{name}_count{_braces(labels)} {below}"


class Metrics:
    """All that the server counts."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()  # route, method, status
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self.texts: Counter[str] = Counter()  # by route
        self.batches = Histogram(SIZES)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, method, status] += 1
        self.seconds[route].observe(seconds)

    def text(self) -> str:
        """What ``/metrics`` says."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("lamatext_requests_total", "counter", "Requests answered.")
        for (route, method, status), count in sorted(self.requests.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            yield f"lamatext_requests_total{{{labels}}} {count}"
        yield from _head("lamatext_request_seconds", "histogram", "Time to the whole answer.")
        for route, histogram in sorted(self.seconds.items()):
            yield from histogram.lines("lamatext_request_seconds", f'route="{route}"')
        yield from _head("lamatext_texts_total", "counter", "Texts read by a model.")
        for route, count in sorted(self.texts.items()):
            yield f'lamatext_texts_total{{route="{route}"}} {count}'
        yield from _head("lamatext_batch_texts", "histogram", "Texts that were read together.")
        yield from self.batches.lines("lamatext_batch_texts")


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _braces(*labels: str) -> str:
    inner = ",".join(label for label in labels if label)
    return f"{{{inner}}}" if inner else ""
