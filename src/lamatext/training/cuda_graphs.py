"""CUDA graphs: record a training step once per batch shape on an NVIDIA GPU, then replay it.

A training step of a small network consists of about a hundred GPU kernels of a few microseconds
each. Launching them one by one takes the CPU longer than the GPU needs to run them; a CUDA graph
launches all of them at once.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamatext.data.token_ids import PAD
from lamatext.kernels.gru_dispatch import has_cuda_kernel
from lamatext.nn.encoders import GruEncoder, NoEncoder
from lamatext.nn.lama_blocks import BlocksEncoder
from lamatext.nn.network import Network
from lamatext.training.batching import Batch
from lamatext.training.optimizers import set_learning_rate

SWITCH = "LAMATEXT_STEPS"  # environment variable: "plain" disables CUDA graphs
LENGTH_MULTIPLE = 16  # batches are padded to a multiple of this many tokens, to share a graph
MAX_SHAPES = 64  # graphs recorded at most
RECORDED_STEP = 2  # which step of a shape is recorded: the first compiles and allocates

UpdateWeights = Callable[[Batch], Tensor]  # one step at the optimizer's learning rate → loss


def supports_cuda_graphs(network: nn.Module, device: torch.device) -> bool:
    """Return whether training steps of this network can be recorded as CUDA graphs.

    A recorded step must never copy a number from the GPU to the CPU.
    """
    if device.type != "cuda" or os.environ.get(SWITCH) == "plain":
        return False
    if not isinstance(network, Network):
        return False
    encoder, phrases = network.encoder, network.phrases
    if phrases is not None and phrases.ends is not None:  # counts the spans of each batch
        return False
    return isinstance(encoder, NoEncoder | BlocksEncoder) or (
        isinstance(encoder, GruEncoder) and has_cuda_kernel(encoder.gru)
    )


@dataclass
class _RecordedShape:
    """CUDA graph for batches of one shape, with its fixed GPU input buffers."""

    batch: Batch
    loss: Tensor
    graph: torch.cuda.CUDAGraph | None = None
    steps: int = 0

    def copy_from(self, batch: Batch) -> None:
        """Copy a batch into the GPU input buffers of the CUDA graph."""
        words = batch.ids.shape[1]
        if words < self.batch.ids.shape[1]:
            self.batch.ids[:, words:] = PAD
        self.batch.ids[:, :words].copy_(batch.ids, non_blocking=True)
        for buffer, values in zip(self.batch[1:], batch[1:], strict=True):
            if buffer is not None and values is not None:
                buffer.copy_(values, non_blocking=True)


class CudaGraphSteps:
    """Callable that runs training steps as CUDA graphs, one graph per batch shape.

    For each shape, the first step runs normally and the second is recorded.
    """

    def __init__(
        self, update_weights: UpdateWeights, optimizer: Optimizer, device: torch.device
    ) -> None:
        self._update_weights, self._optimizer = update_weights, optimizer
        self._shapes: dict[tuple[int, int], _RecordedShape] = {}
        self._rate = torch.zeros((), device=device)  # learning rate that the graphs read
        self._last_rate: float | None = None
        self._memory = torch.cuda.graph_pool_handle()  # shared: graphs never run concurrently

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """Run one training step, replaying the CUDA graph if one exists for the batch shape.

        Read the returned loss before the next step, which may overwrite it.
        """
        shape = len(batch.ids), -(-batch.ids.shape[1] // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
        recorded = self._shapes.get(shape)
        if recorded is None and len(self._shapes) < MAX_SHAPES:
            recorded = _RecordedShape(_empty_batch(batch, shape), self._rate)
            self._shapes[shape] = recorded
        if recorded is None:
            return self._run_plain(batch, rate)
        recorded.copy_from(batch)
        recorded.steps += 1
        if recorded.steps == RECORDED_STEP:
            self._record(recorded)
        if recorded.graph is None:
            return self._run_plain(recorded.batch, rate)
        return self._replay(recorded.graph, recorded.loss, rate)

    def _run_plain(self, batch: Batch, rate: float) -> Tensor:
        set_learning_rate(self._optimizer, rate)
        return self._update_weights(batch)

    def _record(self, recorded: _RecordedShape) -> None:
        """Record a training step as a CUDA graph, or continue without one if that fails.

        Recording does not execute the step.
        """
        groups, capture = self._optimizer.param_groups, {"lr": self._rate, "capturable": True}
        before = [{name: group[name] for name in capture if name in group} for group in groups]
        for group, values in zip(groups, before, strict=True):
            group.update({name: capture[name] for name in values})
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._memory):
                loss = self._update_weights(recorded.batch)
            recorded.graph, recorded.loss = graph, loss.detach()
        except RuntimeError:
            self._optimizer.zero_grad()
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)

    def _replay(self, graph: torch.cuda.CUDAGraph, loss: Tensor, rate: float) -> Tensor:
        if rate != self._last_rate:
            self._rate.fill_(rate)
            self._last_rate = rate
        graph.replay()
        return loss


def _empty_batch(batch: Batch, shape: tuple[int, int]) -> Batch:
    """Allocate GPU input buffers for the CUDA graph of one batch shape."""
    ids, lengths, labels, weights = batch
    return Batch(
        ids.new_zeros(shape),
        torch.ones(shape[0], dtype=lengths.dtype, device=ids.device),
        torch.zeros_like(labels),
        None if weights is None else torch.zeros_like(weights),
    )
