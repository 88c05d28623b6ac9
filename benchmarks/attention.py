"""How attention grows with the words of a text: LAMA against scaled dot-product attention.

Both at the same width, forward, on one text. With an NVIDIA GPU it is measured there, beside two
more: the plain layer, and the equation in the order in which the paper writes it, whose softmax
walks over the words of (B, T, M). Without one it is measured on the CPU.
``benchmarks.attention_figure`` draws it.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.figures import Figure, quartiles
from lamatext.kernels.attention import SWITCH
from lamatext.nn.attention import LowRankAttention

WIDTH, HEADS = 128, 15
DOT_HEADS = 8  # of 16, in the baseline
ENOUGH = 0.1  # seconds of calls in one turn
MOST = 5.0  # seconds after which a layer takes no further turn

CPU_WORDS = tuple(2**k for k in range(10, 16))  # 1k … 32k
GPU_WORDS = tuple(2**k for k in range(10, 21))  # 1k … 1M
MOST_DOT_WORDS = 2**18  # of the baseline on a GPU

LAMA, EAGER, WRITTEN, DOT = "LAMA", "LAMA, eager", "LAMA, as written", "SDPA"

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Point:
    """One layer at one length of text."""

    layer: str
    words: int
    seconds: list[float]  # of one call, a turn each
    bytes: int  # the most it held at once beyond its inputs

    @property
    def typical(self) -> float:
        """The median over the turns."""
        return median(self.seconds)


def figures() -> list[Figure]:
    """Slopes over the last decade of lengths, and the ratios at single lengths."""
    on_gpu = torch.cuda.is_available()
    return summary(measure_gpu()) if on_gpu else summary(measure_cpu())


def measure_cpu(words: Sequence[int] = CPU_WORDS, *, turns: int = 3) -> list[Point]:
    """Float32 on one thread, in the processor's time: other programs must not bend a slope."""
    points: list[Point] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for count in words:
            calls = _calls(count, torch.device("cpu"), torch.float32)
            del calls[EAGER], calls[WRITTEN]
            points += _measure(calls, count, turns, _host_seconds, _host_bytes)
    finally:
        torch.set_num_threads(threads)
    return points


def measure_gpu(words: Sequence[int] = GPU_WORDS, *, turns: int = 7) -> list[Point]:
    """LAMA in float32 and its baseline in bfloat16, each call with what it costs to launch."""
    points: list[Point] = []
    for count in words:
        calls = _calls(count, torch.device("cuda"), torch.bfloat16)
        if count > MOST_DOT_WORDS:
            calls.pop(DOT)
        points += _measure(calls, count, turns, _device_seconds, _device_bytes)
    return points


def _calls(words: int, device: torch.device, baseline: torch.dtype) -> dict[str, Call]:
    torch.manual_seed(words)
    layer = LowRankAttention(WIDTH, HEADS, WIDTH).to(device)
    states = torch.randn(1, words, WIDTH, device=device)
    mask = torch.ones(1, words, dtype=torch.bool, device=device)
    context = torch.randn(1, WIDTH, device=device)
    heads = states.to(baseline).view(1, words, DOT_HEADS, -1).transpose(1, 2).contiguous()

    def eager() -> tuple[Tensor, Tensor]:
        with plain_attention():
            found: tuple[Tensor, Tensor] = layer(states, mask, context)
            return found

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


def _measure(
    calls: Mapping[str, Call],
    words: int,
    turns: int,
    seconds_of: Callable[[Call], float],
    bytes_of: Callable[[Call], int],
) -> list[Point]:
    with torch.inference_mode():
        held = {name: bytes_of(call) for name, call in calls.items()}  # warms up too
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(turns):
            for name, call in calls.items():
                if sum(seconds[name]) <= MOST:  # the slowest take fewer turns
                    seconds[name].append(seconds_of(call))
    return [Point(name, words, seconds[name], held[name]) for name in calls]


def _host_seconds(call: Call) -> float:
    started, calls = time.process_time(), 0
    while (passed := time.process_time() - started) < ENOUGH or not calls:
        call()
        calls += 1
    return passed / calls


def _host_bytes(call: Call) -> int:
    """From the profiler's account of what torch allocates and frees."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would tell of its start and end
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as run:
        call()
    assert run.profiler is not None
    now = most = 0
    for event in run.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def _device_seconds(call: Call) -> float:
    """By events around as many calls as the time allows."""
    once = _between_events(call, 1)
    return _between_events(call, max(1, min(200, int(ENOUGH / 2 / once))))


def _between_events(call: Call, calls: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls


def _device_bytes(call: Call) -> int:
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - before


@contextmanager
def plain_attention() -> Iterator[None]:
    """The layer by its equation, operation after operation."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "plain"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def slope(points: Sequence[Point], layer: str) -> float:
    """Of log time over log words, by least squares over the last decade of lengths."""
    own = [point for point in points if point.layer == layer]
    longest = max(point.words for point in own)
    x = [math.log(point.words) for point in own if point.words * 10 >= longest]
    y = [math.log(point.typical) for point in own if point.words * 10 >= longest]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    along = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return along / sum((a - x_mean) ** 2 for a in x)


def summary(points: Sequence[Point]) -> list[Figure]:
    """Slopes with their curves, and how often LAMA is faster and leaner than the others."""
    layers = list(dict.fromkeys(point.layer for point in points))
    found = [_slope_figure(points, layer) for layer in layers]
    by = {(point.layer, point.words): point for point in points}
    for baseline in layers[1:]:
        lengths = [words for layer, words in by if layer == baseline]
        for words in {1024, 262_144, lengths[-1]} & set(lengths):
            ours, theirs = by[LAMA, words], by[baseline, words]
            found += [_times(ours, theirs), _memory(ours, theirs)]
    return sorted(found, key=lambda figure: figure.what)


def _slope_figure(points: Sequence[Point], layer: str) -> Figure:
    own, found = [point for point in points if point.layer == layer], slope(points, layer)
    curve = {
        "layer": layer,
        "width": WIDTH,
        "words": [point.words for point in own],
        "seconds": [point.typical for point in own],
        "bytes": [point.bytes for point in own],
    }
    last = own[-1].typical * 1e3
    return Figure(f"slope, {layer}", found, found, found, last, last, "ms", curve)


def _times(ours: Point, theirs: Point) -> Figure:
    turns = zip(ours.seconds, theirs.seconds, strict=False)
    low, middle, high = quartiles([b / a for a, b in turns])
    what = f"time at {ours.words} words, {theirs.layer}"
    return Figure(what, middle, low, high, ours.typical * 1e3, theirs.typical * 1e3, "ms")


def _memory(ours: Point, theirs: Point) -> Figure:
    ratio = theirs.bytes / max(1, ours.bytes)
    what = f"memory at {ours.words} words, {theirs.layer}"
    return Figure(what, ratio, ratio, ratio, ours.bytes / 1e6, theirs.bytes / 1e6, "MB")
