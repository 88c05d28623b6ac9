"""How the time and memory of attention scale with text length: LAMA against dot-product attention.

Both layers have the same width and run forward on one text. On an NVIDIA GPU two more variants are
measured: the layer in eager PyTorch, and the equation in the order in which the paper writes it,
whose softmax runs over the words of a (B, T, M) tensor.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.comparison import Comparison, SkippedError
from lamatext.kernels.attention_dispatch import SWITCH
from lamatext.nn.attention import LowRankAttention

WIDTH, HEADS = 128, 15
DOT_HEADS = 8  # of width 16 each, in dot-product attention
ROUND_SECONDS = 0.1  # calls are repeated this long in one round
MAX_SECONDS = 5.0  # a layer that has used more takes no further round

CPU_WORDS = tuple(2**k for k in range(10, 16))  # 1k … 32k
GPU_WORDS = tuple(2**k for k in range(10, 21))  # 1k … 1M
MAX_DOT_WORDS = 2**18  # for dot-product attention on a GPU

LAMA, EAGER, WRITTEN, DOT = "LAMA", "LAMA, eager", "LAMA, as written", "SDPA"
LEGEND = {
    LAMA: ("LAMA (ours)", "#0b6e4f"),
    EAGER: ("LAMA, eager PyTorch", "#8fb996"),
    WRITTEN: ("LAMA, as the paper writes it", "#8a8a8a"),
    DOT: ("dot-product (SDPA)", "#c8553d"),
}

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Point:
    """Time and memory of one attention layer at one text length."""

    layer: str
    words: int
    seconds: list[float]  # per call, one value per round
    bytes: int  # peak memory beyond the inputs

    @property
    def median_seconds(self) -> float:
        """Median seconds of one attention call over the rounds."""
        return median(self.seconds)


def measure() -> list[Comparison]:
    """Measure how attention scales on the CPU: slopes, and ratios at single lengths."""
    return summarize(measure_cpu())


def measure_on_gpu() -> list[Comparison]:
    """Measure how attention scales on an NVIDIA GPU: slopes, and ratios at single lengths."""
    if not torch.cuda.is_available():
        raise SkippedError("it needs an NVIDIA GPU, and torch finds none.")
    return summarize(measure_gpu())


def measure_cpu(words: Sequence[int] = CPU_WORDS, *, rounds: int = 3) -> list[Point]:
    """Measure attention in float32 on one thread, in CPU time, so other programs do not count."""
    points: list[Point] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for count in words:
            calls = _layer_calls(count, torch.device("cpu"), torch.float32)
            del calls[EAGER], calls[WRITTEN]
            points += _measure_calls(calls, count, rounds, _cpu_seconds, _cpu_bytes)
    finally:
        torch.set_num_threads(threads)
    return points


def measure_gpu(words: Sequence[int] = GPU_WORDS, *, rounds: int = 7) -> list[Point]:
    """Measure LAMA in float32 and dot-product attention in bfloat16, launch overhead included."""
    points: list[Point] = []
    for count in words:
        calls = _layer_calls(count, torch.device("cuda"), torch.bfloat16)
        if count > MAX_DOT_WORDS:
            calls.pop(DOT)
        points += _measure_calls(calls, count, rounds, _gpu_seconds, _gpu_bytes)
    return points


def _layer_calls(words: int, device: torch.device, dot_type: torch.dtype) -> dict[str, Call]:
    torch.manual_seed(words)
    layer = LowRankAttention(WIDTH, HEADS, WIDTH).to(device)
    states = torch.randn(1, words, WIDTH, device=device)
    mask = torch.ones(1, words, dtype=torch.bool, device=device)
    context = torch.randn(1, WIDTH, device=device)
    heads = states.to(dot_type).view(1, words, DOT_HEADS, -1).transpose(1, 2).contiguous()

    def eager() -> tuple[Tensor, Tensor]:
        with eager_attention():
            output: tuple[Tensor, Tensor] = layer(states, mask, context)
            return output

    def as_written() -> tuple[Tensor, Tensor]:
        assert layer.project is not None
        scores = layer.p(context)[:, None, :] * layer.q(layer.project(states).tanh())  # (B, T, M)
        scores = F.normalize(scores.tanh(), dim=-1).masked_fill(~mask[:, :, None], -math.inf)
        weights = scores.softmax(dim=1).transpose(1, 2)
        return weights @ states, weights

    return {
        LAMA: lambda: layer(states, mask, context),
        EAGER: eager,
        WRITTEN: as_written,
        DOT: lambda: F.scaled_dot_product_attention(heads, heads, heads),
    }


def _measure_calls(
    calls: Mapping[str, Call],
    words: int,
    rounds: int,
    seconds_of: Callable[[Call], float],
    bytes_of: Callable[[Call], int],
) -> list[Point]:
    with torch.inference_mode():
        memory = {name: bytes_of(call) for name, call in calls.items()}  # also the warm-up
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                if sum(seconds[name]) <= MAX_SECONDS:
                    seconds[name].append(seconds_of(call))
    return [Point(name, words, seconds[name], memory[name]) for name in calls]


def _cpu_seconds(call: Call) -> float:
    start, calls = time.process_time(), 0
    while (elapsed := time.process_time() - start) < ROUND_SECONDS or not calls:
        call()
        calls += 1
    return elapsed / calls


def _cpu_bytes(call: Call) -> int:
    """Return the peak memory of an attention call from the profiler's record of allocations."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # no messages about its start and end
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as run:
        call()
    assert run.profiler is not None
    allocated = peak = 0
    for event in run.profiler.kineto_results.events():
        if event.name() == "[memory]":
            allocated += event.nbytes()
            peak = max(peak, allocated)
    return peak


def _gpu_seconds(call: Call) -> float:
    once = _event_seconds(call, 1)
    return _event_seconds(call, max(1, min(200, int(ROUND_SECONDS / 2 / once))))


def _event_seconds(call: Call, calls: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls


def _gpu_bytes(call: Call) -> int:
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - before


@contextmanager
def eager_attention() -> Iterator[None]:
    """Run LAMA attention in eager PyTorch within the block, without the fused kernel."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "plain"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def scaling_slope(points: Sequence[Point], layer: str) -> float:
    """Return the slope of log time over log words, fitted to the last decade of text lengths.

    A slope of 1 means that attention scales linearly, 2 that it scales quadratically.
    """
    own = [point for point in points if point.layer == layer]
    longest = max(point.words for point in own)
    x = [math.log(point.words) for point in own if point.words * 10 >= longest]
    y = [math.log(point.median_seconds) for point in own if point.words * 10 >= longest]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - x_mean) ** 2 for a in x)


def summarize(points: Sequence[Point]) -> list[Comparison]:
    """Return the scaling slope of each attention layer, and time and memory ratios to LAMA."""
    layers = list(dict.fromkeys(point.layer for point in points))
    comparisons = [_slope_of(points, layer) for layer in layers]
    by_length = {(point.layer, point.words): point for point in points}
    for baseline in layers[1:]:
        lengths = [words for layer, words in by_length if layer == baseline]
        for words in {1024, 262_144, lengths[-1]} & set(lengths):
            ours, theirs = by_length[LAMA, words], by_length[baseline, words]
            comparisons += [_compare_time(ours, theirs), _compare_memory(ours, theirs)]
    return sorted(comparisons, key=lambda comparison: comparison.metric)


def _slope_of(points: Sequence[Point], layer: str) -> Comparison:
    own, slope = [point for point in points if point.layer == layer], scaling_slope(points, layer)
    curve = {
        "layer": layer,
        "width": WIDTH,
        "words": [point.words for point in own],
        "seconds": [point.median_seconds for point in own],
        "bytes": [point.bytes for point in own],
    }
    last = own[-1].median_seconds * 1e3
    return Comparison(f"slope, {layer}", slope, slope, slope, last, last, "ms", curve)


def _compare_time(ours: Point, theirs: Point) -> Comparison:
    rounds = min(len(ours.seconds), len(theirs.seconds))
    ratios = [b / a for a, b in zip(ours.seconds[:rounds], theirs.seconds[:rounds], strict=True)]
    metric = f"time at {ours.words} words, {theirs.layer}"
    return Comparison.of_ratios(metric, ratios, (ours.seconds, theirs.seconds), "ms", scale=1e3)


def _compare_memory(ours: Point, theirs: Point) -> Comparison:
    ratio = theirs.bytes / max(1, ours.bytes)
    metric = f"memory at {ours.words} words, {theirs.layer}"
    return Comparison.of_ratios(metric, [ratio], ([ours.bytes], [theirs.bytes]), "MB", scale=1e-6)


def draw(records: Path, folder: Path) -> list[Path]:
    """Draw the attention scaling curves of a record file: time and memory over words, log-log."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    slopes = [
        record
        for record in json.loads(records.read_text(encoding="utf-8"))
        if "words" in record["details"]
    ]
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    time_axes, memory_axes = figure.subplots(1, 2)
    for record in slopes:
        curve = record["details"]
        name, color = LEGEND[curve["layer"]]
        style: dict[str, Any] = {"color": color, "markersize": 4}
        milliseconds = [1e3 * seconds for seconds in curve["seconds"]]
        slope = f"{name}, slope {record['value']:.2f}"
        time_axes.loglog(curve["words"], milliseconds, "o-", label=slope, **style)
        megabytes = [count / 1e6 for count in curve["bytes"]]
        memory_axes.loglog(curve["words"], megabytes, "o-", label=name, **style)
    _label_axes(time_axes, "ms for one text", f"Time, {slopes[0]['device']}")
    _label_axes(memory_axes, "MB beyond the states", "Peak memory")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{records.stem}{ending}" for ending in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _label_axes(axes: Any, unit: str, title: str) -> None:
    axes.set_xlabel("words of the text")
    axes.set_ylabel(unit)
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
