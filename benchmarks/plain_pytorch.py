"""Plain PyTorch as a baseline: the same network with lamatext's compiled kernels switched off."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from lamatext.kernels import attention_dispatch, gru_dispatch

SWITCHES = (gru_dispatch.SWITCH, attention_dispatch.SWITCH)


@contextmanager
def plain_pytorch(threads: int = 1) -> Iterator[None]:
    """Run plain PyTorch in the block: no lamatext kernels, ``threads`` PyTorch threads."""
    threads_before = torch.get_num_threads()
    switches = {name: os.environ.get(name) for name in SWITCHES}
    torch.set_num_threads(threads)
    os.environ.update(dict.fromkeys(SWITCHES, "plain"))
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        for name, value in switches.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def best_threads(run: Callable[[], object]) -> int:
    """Return the number of threads, one or all, at which plain PyTorch executes ``run`` fastest."""
    seconds: dict[int, float] = {}
    for threads in sorted({1, torch.get_num_threads()}):
        with plain_pytorch(threads):
            run()
            start = time.perf_counter()
            run()
            seconds[threads] = time.perf_counter() - start
    return min(seconds, key=lambda threads: seconds[threads])
