"""How many threads a run on the CPU takes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from lamatext.kernels.workers import kernel_threads


@contextmanager
def fitting_threads(network: nn.Module) -> Iterator[None]:
    """Torch's own operations on one thread, our kernels on all that torch was given.

    Torch's threads wait for each other after every operation by spinning. Beside the kernel these
    operations are short: on an idle machine a second thread gains little, and where other
    programs run, it waits for one that is not let run, and an epoch takes ten times as long.
    A network without our kernel keeps torch's threads. The process is left as it was.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not any(isinstance(module, nn.GRU) for module in network.modules()):
        yield
        return
    torch.set_num_threads(1)
    try:
        with kernel_threads(threads):
            yield
    finally:
        torch.set_num_threads(threads)
