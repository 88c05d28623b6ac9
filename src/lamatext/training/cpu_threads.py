"""How many threads a run on the CPU takes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from lamatext.kernels.threads import kernel_threads
from lamatext.nn.encoders import TransformerEncoder
from lamatext.nn.network import Network


@contextmanager
def fitting_threads(network: nn.Module) -> Iterator[None]:
    """As ``small_threads``; Transformers, whose products are large, keep torch's threads."""
    if not is_small(network):
        yield
        return
    with small_threads():
        yield


@contextmanager
def small_threads() -> Iterator[None]:
    """Torch's own operations on one thread, our kernels on all that torch was given.

    Torch's threads wait for each other after every operation by spinning. In our small networks
    these operations are short: on an idle machine a second thread gains little, and where other
    programs run, it waits for one that is not let run, and an epoch takes ten times as long.
    The process is left as it was.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        with kernel_threads(threads):
            yield
    finally:
        torch.set_num_threads(threads)


def is_small(network: nn.Module) -> bool:
    """Whether it is one of our own networks, and no Transformer."""
    return isinstance(network, Network) and not isinstance(network.encoder, TransformerEncoder)
