"""CPU threads during training: torch's operators on one thread, our kernels on all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from lamatext.kernels.kernel_threads import kernel_threads
from lamatext.nn.encoders import TransformerEncoder
from lamatext.nn.network import Network


@contextmanager
def training_threads(network: nn.Module) -> Iterator[None]:
    """Limit torch to one CPU thread while a small (non-Transformer) network is trained."""
    is_small = isinstance(network, Network) and not isinstance(network.encoder, TransformerEncoder)
    if not is_small:
        yield
        return
    with one_torch_thread():
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limit torch, but not our own kernels, to one CPU thread inside a ``with`` block.

    After every operator, torch's CPU threads wait for each other in a busy loop. The operators of
    our small networks are short: on an idle machine a second thread gains little, and on a busy
    one it waits for a thread that is not scheduled, which makes an epoch ten times slower. The
    thread counts are restored at the end of the block.
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
