"""What a benchmark finds: ratios with their spread, held against bars, kept as records.

A benchmark ``NAME`` is a module ``benchmarks.NAME`` with ``figures() -> list[Figure]``.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.provenance import commit, versions
from lamatext.runtime.parallel import usable_cores

Seconds = list[float]


class SkippedError(Exception):
    """The benchmark cannot run here, and the message says why."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Where a ratio must lie."""

    value: float
    at_most: bool = False  # otherwise at least

    def holds(self, ratio: float) -> bool:
        """Whether the ratio is on the right side."""
        return ratio <= self.value if self.at_most else ratio >= self.value

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.value:g}"


ON_GPU = ("attention", "gpu")  # benchmarks that run on an NVIDIA GPU where there is one

# Every bar, by benchmark and ratio; a ratio that is not here is only told.
BARS: Mapping[str, Mapping[str, Bar]] = {
    "train": {
        "encoder, packed nn.GRU": Bar(6),
        "encoder, padded nn.GRU": Bar(4),
        "step, r8": Bar(5),
        "step, imdb": Bar(5),
    },
    "sizes": {f"slowest at {hidden} units, nn.GRU": Bar(0.95) for hidden in (50, 128, 256)},
    "prepare": {"words/s, spaCy": Bar(3), "words/s, CountVectorizer": Bar(1)},
    "latency": {
        "one text, eager torch": Bar(8),
        "default recipe, lama-ctx": Bar(2, at_most=True),
        "cold start, import torch": Bar(0.5, at_most=True),
    },
    "throughput": {"texts/s, TF-IDF + LR": Bar(0.4), "texts/s, eager torch": Bar(2)},
    "memory": {"1M texts, 10k texts": Bar(1.1, at_most=True)},
    "attention": {
        "slope, LAMA": Bar(1.2, at_most=True),
        "slope, SDPA": Bar(1.7),
        "time at 1024 words, SDPA": Bar(0.5),
        "time at 262144 words, LAMA, as written": Bar(10),
    },
    "gpu": {"words/s at batch 32, cuDNN": Bar(0.5), "words/s at batch 256, cuDNN": Bar(0.5)},
    "serve": {
        f"{what}, {words} words": bar
        for words in (40, 200)
        for what, bar in (
            ("peak, bare runtime", Bar(0.5)),
            ("p99, p50", Bar(5, at_most=True)),
            ("memory after, before", Bar(1.1, at_most=True)),
            ("errors, requests", Bar(0, at_most=True)),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One ratio: its median, and the quartiles over the turns."""

    what: str  # a name in BARS where there is a bar
    ratio: float
    low: float
    high: float
    ours: float  # median, in ``unit``
    theirs: float
    unit: str
    details: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def faster(
        cls, what: str, ours: Seconds, theirs: Seconds, *, unit: str = "ms", **details: object
    ) -> "Figure":
        """How many times faster we are, turn by turn."""
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        scale = {"ms": 1e3, "s": 1.0}[unit]
        return cls.of(what, ratios, ours, theirs, scale=scale, unit=unit, details=details)

    @classmethod
    def of(  # noqa: PLR0913 - what is told of a ratio
        cls,
        what: str,
        ratios: Sequence[float],
        ours: Sequence[float],
        theirs: Sequence[float],
        *,
        scale: float,
        unit: str,
        details: Mapping[str, object],
    ) -> "Figure":
        """The median and quartiles of ``ratios``, beside the medians they come from."""
        low, middle, high = quartiles(ratios)
        return cls(
            what,
            middle,
            low,
            high,
            scale * statistics.median(ours),
            scale * statistics.median(theirs),
            unit,
            details,
        )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quarter, the half and the three quarters of some values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def in_turns(contestants: Mapping[str, Callable[[], object]], turns: int) -> dict[str, Seconds]:
    """The seconds of each, one after the other in every turn; a first turn warms up."""
    seconds: dict[str, Seconds] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def missed(name: str, figures: Sequence[Figure]) -> list[Figure]:
    """Those on the wrong side of their bar."""
    bars = BARS.get(name, {})
    return [f for f in figures if f.what in bars and not bars[f.what].holds(f.ratio)]


def records(name: str, figures: Sequence[Figure]) -> list[dict[str, object]]:
    """Figures with all that is needed to get them again."""
    origin = {
        "device": gpu() if name in ON_GPU and gpu() else machine(),
        "threads": usable_cores(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions(),
        "commit": commit(),
    }
    bars = BARS.get(name, {})
    return [
        {
            "experiment": f"bench-{name}",
            "metric": figure.what,
            "value": figure.ratio,
            **{k: v for k, v in asdict(figure).items() if k not in ("what", "ratio")},
            "bar": str(bars[figure.what]) if figure.what in bars else None,
            **origin,
        }
        for figure in figures
    ]


def write(name: str, figures: Sequence[Figure], folder: Path) -> Path:
    """``NAME.json`` in ``folder``, made anew."""
    path = folder / f"{name}.json"
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records(name, figures))
    write_text(path, f"[\n{lines}\n]\n")
    return path


def gpu() -> str:
    """The GPU, in words; nothing where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def machine() -> str:
    """The processor, in words."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
