"""Steps on an NVIDIA GPU: recorded once for each shape of batch, and played from then on.

A step of so small a network is about a hundred kernels of some microseconds each. To ask for them
one by one takes the processor longer than the GPU needs to run them; a CUDA graph asks for all at
once.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamatext.data.token_ids import PAD
from lamatext.kernels.gru import on_gpu
from lamatext.nn.encoders import GruEncoder, NoEncoder
from lamatext.nn.network import Network
from lamatext.training.training_step import Batch, Plan, move, step

SWITCH = "LAMATEXT_STEPS"  # environment: "plain" never records
MULTIPLE = 16  # of words that a batch is padded to, so that many batches share a shape
MOST_SHAPES = 64
RECORDED = 2  # the step of a shape that is recorded: all is compiled and allocated by then

Step = Callable[[Batch, float], Tensor]  # a batch and the rate in, the loss out


def steps_of(network: nn.Module, optimizer: Optimizer, plan: Plan) -> Step:
    """What makes the steps of a run: recorded where that can be done."""
    if can_record(network, plan):
        return RecordedSteps(network, optimizer, plan)
    return partial(step, network, optimizer, plan)


def can_record(network: nn.Module, plan: Plan) -> bool:
    """Whether a step never asks the processor for a number, such as the length of a text."""
    if plan.device.type != "cuda" or os.environ.get(SWITCH) == "plain":
        return False
    if not isinstance(network, Network):
        return False
    encoder = network.encoder
    return isinstance(encoder, NoEncoder) or (
        isinstance(encoder, GruEncoder) and on_gpu(encoder.gru)
    )


@dataclass
class _Recording:
    """Where batches of one shape are put, and the step that was recorded on them."""

    batch: Batch
    loss: Tensor
    graph: torch.cuda.CUDAGraph | None = None
    steps: int = 0

    def put(self, given: Batch) -> None:
        """Take a batch over; its lengths come to the GPU too."""
        words = given.ids.shape[1]
        if words < self.batch.ids.shape[1]:
            self.batch.ids[:, words:] = PAD
        self.batch.ids[:, :words].copy_(given.ids, non_blocking=True)
        self.batch.lengths.copy_(given.lengths, non_blocking=True)
        self.batch.labels.copy_(given.labels, non_blocking=True)


class RecordedSteps:
    """The first step of a shape is made as any other, the second recorded, and all later played."""

    def __init__(self, network: nn.Module, optimizer: Optimizer, plan: Plan) -> None:
        self._network, self._optimizer, self._plan = network, optimizer, plan
        self._recordings: dict[tuple[int, int], _Recording] = {}
        self._rate = torch.zeros((), device=plan.device)
        self._last_rate: float | None = None
        self._memory = torch.cuda.graph_pool_handle()  # one for all: they never run at once

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """Make one step; the loss is to be read before the next."""
        shape = len(batch.ids), -(-batch.ids.shape[1] // MULTIPLE) * MULTIPLE
        recording = self._recordings.get(shape)
        if recording is None and len(self._recordings) < MOST_SHAPES:
            self._recordings[shape] = recording = _Recording(_room(batch, shape), self._rate)
        if recording is None:
            return step(self._network, self._optimizer, self._plan, batch, rate)
        recording.put(batch)
        recording.steps += 1
        if recording.steps == RECORDED:
            self._record(recording)
        if recording.graph is None:
            return step(self._network, self._optimizer, self._plan, recording.batch, rate)
        return self._play(recording.graph, recording.loss, rate)

    def _record(self, recording: _Recording) -> None:
        """Nothing is computed here; what cannot be recorded is made as any other step."""
        groups, changed = self._optimizer.param_groups, {"lr": self._rate, "capturable": True}
        before = [{name: group[name] for name in changed if name in group} for group in groups]
        for group, own in zip(groups, before, strict=True):
            group.update({name: changed[name] for name in own})
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._memory):
                loss = move(self._network, self._optimizer, self._plan, recording.batch)
            recording.graph, recording.loss = graph, loss.detach()
        except RuntimeError:
            self._optimizer.zero_grad()
        finally:
            for group, own in zip(groups, before, strict=True):
                group.update(own)

    def _play(self, graph: torch.cuda.CUDAGraph, loss: Tensor, rate: float) -> Tensor:
        if rate != self._last_rate:
            self._rate.fill_(rate)
            self._last_rate = rate
        graph.replay()
        return loss


def _room(batch: Batch, shape: tuple[int, int]) -> Batch:
    """Space on the GPU for batches of a shape."""
    ids, lengths, labels = batch
    return Batch(
        ids.new_zeros(shape),
        torch.ones(shape[0], dtype=lengths.dtype, device=ids.device),
        torch.zeros_like(labels),
    )
