"""The rival inside: the same network by PyTorch alone."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from lamatext.kernels.gru import SWITCH


@contextmanager
def plain_torch(threads: int = 1) -> Iterator[None]:
    """Torch on so many threads, with its own GRU on packed sequences."""
    before, switch = torch.get_num_threads(), os.environ.get(SWITCH)
    torch.set_num_threads(threads)
    os.environ[SWITCH] = "plain"
    try:
        yield
    finally:
        torch.set_num_threads(before)
        if switch is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = switch


def best_threads(run: Callable[[], object]) -> int:
    """At how many threads ``run`` takes torch the least time: one, or all it may use."""
    seconds: dict[int, float] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        with plain_torch(threads):
            run()
            start = time.perf_counter()
            run()
            seconds[threads] = time.perf_counter() - start
    return min(seconds, key=lambda threads: seconds[threads])
