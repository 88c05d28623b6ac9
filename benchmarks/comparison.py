"""Comparisons of lamatext with a baseline: ratios with quartiles, their targets and records."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.saved.format import versions
from paper.records import commit

Seconds = list[float]


class SkippedError(Exception):
    """Reason why a benchmark's comparison cannot be measured on this machine."""


@dataclass(frozen=True, slots=True)
class Target:
    """Limit that the ratio of a comparison has to meet."""

    value: float
    at_most: bool = False  # otherwise at least

    def is_met(self, ratio: float) -> bool:
        """Return whether the comparison's ratio meets this target."""
        return ratio <= self.value if self.at_most else ratio >= self.value

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.value:g}"


# All targets, by benchmark and metric. A metric that is not listed has no target.
TARGETS: Mapping[str, Mapping[str, Target]] = {
    "training_step": {"step, r8": Target(5), "step, imdb": Target(5)},
    "training_processes": {
        f"epoch, {texts}, 1 process": Target(0.65, at_most=True)
        for texts in ("200 words", "20 words, batches of 256", "20 words")
    },
    "gru_encoder": {
        "encoder, packed nn.GRU": Target(6),
        "encoder, padded nn.GRU": Target(4),
        **{f"slowest at {size} units, nn.GRU": Target(0.95) for size in (50, 128, 256)},
    },
    "tokenization": {"words/s, spaCy": Target(3), "words/s, CountVectorizer": Target(1)},
    "latency": {
        "one text, eager torch": Target(8),
        "default recipe, lama-ctx": Target(2, at_most=True),
        "with outlier score, without": Target(1.1, at_most=True),
        "cold start, import torch": Target(0.5, at_most=True),
    },
    "throughput": {
        "texts/s, TF-IDF + LR": Target(0.4),
        "texts/s, eager torch": Target(2),
        "default recipe: texts/s, TF-IDF + LR": Target(0.8),
        "default recipe, short texts: texts/s, TF-IDF + LR": Target(0.8),
    },
    "memory": {"1M texts, 10k texts": Target(1.1, at_most=True)},
    "attention_scaling": {
        "slope, LAMA": Target(1.2, at_most=True),
        "slope, SDPA": Target(1.7),
        "time at 1024 words, SDPA": Target(0.5),
    },
    "attention_scaling_gpu": {
        "slope, LAMA": Target(1.2, at_most=True),
        "slope, SDPA": Target(1.7),
        "time at 1024 words, SDPA": Target(0.5),
        "time at 262144 words, LAMA, as written": Target(10),
    },
    "gpu_training": {
        "words/s at batch 32, cuDNN": Target(0.5),
        "words/s at batch 256, cuDNN": Target(0.5),
    },
    "serving": {
        f"{metric}, {words} words": target
        for words in (40, 200)
        for metric, target in (
            ("peak, bare runtime", Target(0.5)),
            ("p99, p50", Target(5, at_most=True)),
            ("memory after, before", Target(1.1, at_most=True)),
            ("errors, requests", Target(0, at_most=True)),
        )
    },
    "serving_workers": {},
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ratio between lamatext and a baseline: the median and quartiles over the rounds."""

    metric: str  # a key of TARGETS[benchmark] if the metric has a target
    ratio: float
    low: float
    high: float
    ours: float  # median, in ``unit``
    baseline: float  # median, in ``unit``
    unit: str
    details: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def speedup(
        cls, metric: str, ours: Seconds, baseline: Seconds, **details: object
    ) -> "Comparison":
        """Return the comparison of two lists of times: baseline time / our time per round."""
        ratios = [theirs / mine for mine, theirs in zip(ours, baseline, strict=True)]
        return cls.of_ratios(metric, ratios, (ours, baseline), "ms", scale=1e3, details=details)

    @classmethod
    def slowdown(cls, metric: str, ours: Seconds, baseline: Seconds) -> "Comparison":
        """Return the comparison of two lists of times: our time / baseline time per round."""
        ratios = [mine / theirs for mine, theirs in zip(ours, baseline, strict=True)]
        return cls.of_ratios(metric, ratios, (ours, baseline), "ms", scale=1e3)

    @classmethod
    def throughput(
        cls,
        metric: str,
        values: tuple[Sequence[float], Sequence[float]],
        unit: str,
        *,
        scale: float = 1,
        details: Mapping[str, object] | None = None,
    ) -> "Comparison":
        """Return the comparison of two lists of rates (ours, baseline): ours / baseline."""
        ratios = [mine / theirs for mine, theirs in zip(*values, strict=True)]
        return cls.of_ratios(metric, ratios, values, unit, scale=scale, details=details)

    @classmethod
    def single(
        cls,
        metric: str,
        values: tuple[float, float],
        unit: str,
        details: Mapping[str, object] | None = None,
    ) -> "Comparison":
        """Return the comparison of two values (ours, baseline) that were measured once."""
        ours, baseline = values
        return cls.of_ratios(metric, [ours / baseline], ([ours], [baseline]), unit, details=details)

    @classmethod
    def of_ratios(
        cls,
        metric: str,
        ratios: Sequence[float],
        values: tuple[Sequence[float], Sequence[float]],
        unit: str,
        *,
        scale: float = 1,
        details: Mapping[str, object] | None = None,
    ) -> "Comparison":
        """Summarize the ratios of all rounds as one comparison, with the medians of both sides."""
        low, middle, high = quartiles(ratios)
        ours, baseline = (scale * statistics.median(side) for side in values)
        return cls(metric, middle, low, high, ours, baseline, unit, details or {})


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile of a comparison's ratios."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def time_alternating(
    contestants: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, Seconds]:
    """Time all sides of a comparison in alternation, after one warm-up round."""
    seconds: dict[str, Seconds] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def missed_targets(benchmark: str, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons of a benchmark whose ratio misses its target."""
    targets = TARGETS.get(benchmark, {})
    return [c for c in comparisons if c.metric in targets and not targets[c.metric].is_met(c.ratio)]


def make_records(benchmark: str, comparisons: Sequence[Comparison]) -> list[dict[str, object]]:
    """Return the comparisons as JSON records with machine, load, versions and commit."""
    on_gpu = "gpu" in benchmark.split("_")
    origin = {
        "device": (gpu_name() if on_gpu else "") or cpu_name(),
        "threads": usable_cores(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions(),
        "commit": commit(),
    }
    targets = TARGETS.get(benchmark, {})
    return [
        {
            "experiment": benchmark,
            "metric": comparison.metric,
            "value": comparison.ratio,
            **{k: v for k, v in asdict(comparison).items() if k not in ("metric", "ratio")},
            "target": str(targets[comparison.metric]) if comparison.metric in targets else None,
            **origin,
        }
        for comparison in comparisons
    ]


def write_records(benchmark: str, comparisons: Sequence[Comparison], folder: Path) -> Path:
    """Write the records of a benchmark's comparisons to ``folder/BENCHMARK.json``."""
    path = folder / f"{benchmark}.json"
    records = make_records(benchmark, comparisons)
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    write_text(path, f"[\n{lines}\n]\n")
    return path


def gpu_name() -> str:
    """Return the name of the NVIDIA GPU for the records; empty if there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def cpu_name() -> str:
    """Return the processor's model name for the records."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
