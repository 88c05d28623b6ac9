"""Forward and backward of the encoder alone: the compiled bi-GRU against ``torch.nn.GRU``.

All run in one process in turns, so that a busy machine slows them alike; what counts are ratios.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamatext.kernels.gru import plain_gru, run_gru

Times = NDArray[np.float64]  # (turns,) seconds


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster ours is than a rival: quartiles over the turns."""

    rival: str
    low: float
    median: float
    high: float
    milliseconds: float  # of the rival, median
    threads: int  # at which the rival was best


@dataclass(frozen=True, slots=True)
class Shape:
    """What is run; the paper's sizes."""

    batch: int = 32
    shortest: int = 50
    longest: int = 200
    width: int = 100
    hidden: int = 50


def measure(shape: Shape, *, turns: int = 15, seed: int = 0) -> list[Ratio]:
    """Ratios to ``nn.GRU`` on packed sequences and the padded batch, each at its best threads."""
    random = torch.Generator().manual_seed(seed)
    gru = nn.GRU(shape.width, shape.hidden, batch_first=True, bidirectional=True)
    lengths = torch.randint(shape.shortest, shape.longest + 1, (shape.batch,), generator=random)
    size = (shape.batch, int(lengths.max()), shape.width)
    inputs = torch.randn(size, generator=random).requires_grad_()
    most = torch.get_num_threads()
    contestants: dict[tuple[str, int], Callable[[], Tensor]] = {
        ("ours", most): lambda: run_gru(gru, inputs, lengths)
    }
    for threads in {1, most}:
        contestants["packed", threads] = lambda: plain_gru(gru, inputs, lengths)
        contestants["padded", threads] = lambda: gru(inputs)[0]
    leaves = [inputs, *gru.parameters()]
    seconds: dict[tuple[str, int], Times] = {key: np.empty(turns) for key in contestants}
    for turn in range(-1, turns):  # the first turn warms up, and is overwritten
        for (name, threads), run in contestants.items():
            with _torch_threads(threads):
                seconds[name, threads][turn] = _time(run, leaves)
    ours = seconds["ours", most]
    return [_ratio(rival, ours, seconds) for rival in ("packed", "padded")]


def _time(run: Callable[[], Tensor], leaves: list[Tensor]) -> float:
    """Seconds of one forward and backward, without making the gradient they start from."""
    start = time.perf_counter()
    states = run()
    forward = time.perf_counter() - start
    given = torch.ones_like(states)
    start = time.perf_counter()
    torch.autograd.grad(states, leaves, given)
    return forward + time.perf_counter() - start


def _ratio(rival: str, ours: Times, seconds: dict[tuple[str, int], Times]) -> Ratio:
    """Compare turn by turn with the rival at the threads that serve it best."""
    theirs = {threads: times for (name, threads), times in seconds.items() if name == rival}
    threads = min(theirs, key=lambda count: float(np.median(theirs[count])))
    low, median, high = np.quantile(theirs[threads] / ours, [0.25, 0.5, 0.75]).tolist()
    return Ratio(rival, low, median, high, float(np.median(theirs[threads])) * 1e3, threads)


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
