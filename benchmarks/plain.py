"""The baseline inside: the same network by PyTorch alone."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from lamatext.kernels import attention_cpu, gru

SWITCHES = (gru.SWITCH, attention_cpu.SWITCH)


@contextmanager
def plain_torch(threads: int = 1) -> Iterator[None]:
    """Torch on so many threads, with none of our kernels: its own GRU on packed sequences."""
    before = torch.get_num_threads()
    switches = {name: os.environ.get(name) for name in SWITCHES}
    torch.set_num_threads(threads)
    os.environ.update(dict.fromkeys(SWITCHES, "plain"))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        for name, value in switches.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


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
