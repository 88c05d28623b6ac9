"""One step of training: a batch in, the weights moved."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamatext.data.token_ids import Ids, Indices
from lamatext.nn.network import Output, disagreement
from lamatext.settings import ModelSettings, TrainingSettings
from lamatext.training.batching import Examples
from lamatext.training.lazy_sgd import WordVectors


class Plan(NamedTuple):
    """What a run is asked to do."""

    model: ModelSettings
    training: TrainingSettings
    seed: int
    device: torch.device
    class_weights: Tensor | None = None
    checkpoint: Path | None = None
    identity: str = ""


class Batch(NamedTuple):
    """Some texts on the device of the network."""

    ids: Tensor  # (B, T)
    lengths: Tensor  # (B,); on the CPU, but for the steps that are recorded
    labels: Tensor  # (B,)


def batch_of(
    examples: Examples, rows: Indices, device: torch.device, vectors: WordVectors
) -> Batch:
    """Some of the examples as tensors; ids are those of the vectors that are read."""
    ids, lengths = examples.rows.pad(rows)
    return Batch(
        _host(vectors.read(ids), device).to(device, non_blocking=True),
        _host(lengths, device),
        _host(examples.labels[rows], device).to(device, non_blocking=True),
    )


def _host(values: Ids | Indices, device: torch.device) -> Tensor:
    """For a GPU in pinned memory, so that no step waits for the copy."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory() if device.type == "cuda" else tensor


def step(
    network: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan, batch: Batch, rate: float
) -> Tensor:
    """Move the weights once; the loss before."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    return move(network, optimizer, plan, batch)


def move(network: nn.Module, optimizer: torch.optim.Optimizer, plan: Plan, batch: Batch) -> Tensor:
    """A step at the rate that the optimiser has."""
    ids, lengths, labels = batch
    optimizer.zero_grad()
    output: Output = network(ids, lengths)
    loss = objective(output, labels, plan)
    loss.backward()  # type: ignore[no-untyped-call]
    if plan.training.gradient_clip is not None:
        nn.utils.clip_grad_norm_(network.parameters(), plan.training.gradient_clip)
    optimizer.step()
    return loss


def objective(output: Output, labels: Tensor, plan: Plan) -> Tensor:
    """J = L − λ D: cross entropy less λ times the mean disagreement of the heads."""
    loss = F.cross_entropy(output.logits, labels, weight=plan.class_weights)
    heads_differ = disagreement(plan.model, output)
    return (
        loss
        if heads_differ is None
        else loss - plan.model.disagreement_weight * heads_differ.mean()
    )
