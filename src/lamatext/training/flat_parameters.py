"""Flat parameters: a network's weights as one tensor, which the optimizer updates in one operation.

With separate tensors, a training step of a small network on the CPU would spend as much time on
calling an operation for each weight tensor as on the operations themselves. The parameters become
views of one tensor, and their gradients are concatenated into another. Word vectors are not
included, because lazy embedding updates change them.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamatext.training.lazy_embedding import DenseUpdates, LazyUpdates
from lamatext.training.optimizers import set_learning_rate
from lamatext.training.process_group import current_processes


class WeightUpdates:
    """Ordinary weight updates, with separate tensors instead of one flat tensor of parameters."""

    def __init__(self, network: nn.Module, optimizer: Optimizer) -> None:
        self._network, self._optimizer = network, optimizer

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next weight update."""
        set_learning_rate(self._optimizer, rate)

    def zero_grad(self) -> None:
        """Reset the gradients of all weights before the backward pass."""
        self._optimizer.zero_grad()

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of all weights from the loss."""
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self, gradient_clip: float | None) -> None:
        """Sum the gradients over all processes, clip them and update the parameters."""
        trained = [p for p in self._network.parameters() if p.grad is not None]
        if current_processes().size > 1:
            _sum_gradients(trained)
        if gradient_clip is not None:
            nn.utils.clip_grad_norm_(trained, gradient_clip)
        self._optimizer.step()

    def export_state(self) -> None:
        """Do nothing before a checkpoint; only flat parameters must copy their optimizer state."""

    def release(self) -> None:
        """Do nothing when training ends; only flat parameters must be separated again."""


class FlatUpdates(WeightUpdates):
    """Weight updates of one flat tensor that holds all parameters except the word embeddings."""

    def __init__(self, network: nn.Module, optimizer: Optimizer, embeddings: LazyUpdates) -> None:
        super().__init__(network, optimizer)
        self._embeddings = embeddings
        self._parameters = [
            p
            for group in optimizer.param_groups
            for p in group["params"]
            if p is not embeddings.whole
        ]
        self._sizes = [p.numel() for p in self._parameters]
        self._flat = nn.Parameter(self._join(self._parameters))
        self._zeros = self._views(torch.zeros_like(self._flat))  # gradients of unused parameters
        self._memory = self._flat.new_empty(0)  # of the gradients of weights and embedding rows
        options = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
        kind: Any = type(optimizer)
        self._update: Optimizer = kind([{**options, "params": [self._flat]}])
        self._import_state()
        for parameter, values in zip(self._parameters, self._views(self._flat.data), strict=True):
            parameter.data = values

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next weight update."""
        set_learning_rate(self._update, rate)

    def zero_grad(self) -> None:
        """Skip resetting the flat gradients, because the backward pass replaces them."""

    def backward(self, loss: Tensor) -> None:
        """Compute the gradient of each weight from the loss, to be flattened in the next step."""
        *self._gradients, self._rows_gradient = torch.autograd.grad(
            loss, [*self._parameters, self._embeddings.rows], allow_unused=True
        )

    def step(self, gradient_clip: float | None) -> None:
        """Sum the flat gradients over all processes, clip them and update the parameters.

        The gradient of the embedding rows is summed and clipped together with the others.
        """
        rows, size = self._embeddings.rows, len(self._flat)
        joined = self._gradient_memory(size + rows.numel())
        parts = [
            (zeros if gradient is None else gradient).reshape(-1)
            for gradient, zeros in zip(self._gradients, self._zeros, strict=True)
        ]
        current_processes().sum_joined([*parts, self._rows_gradient.reshape(-1)], joined)
        self._flat.grad, rows.grad = joined[:size], joined[size:].view_as(rows)
        if gradient_clip is not None:
            norms = (torch.linalg.vector_norm(g) for g in (self._flat.grad, rows.grad))
            norm = math.hypot(*map(float, norms))
            if norm > gradient_clip:
                joined.mul_(gradient_clip / (norm + 1e-6))
        self._update.step()

    def _gradient_memory(self, size: int) -> Tensor:
        """Return a flat buffer for ``size`` gradient values, reusing memory of earlier steps."""
        if len(self._memory) < size:
            self._memory = self._flat.new_empty(size + size // 2)
        return self._memory[:size]

    def export_state(self) -> None:
        """Split the flat parameters' optimizer state by parameter, as a checkpoint stores it."""
        for name, value in self._update.state[self._flat].items():
            parts = self._views(value) if _has_entries(value) else [value] * len(self._sizes)
            for parameter, part in zip(self._parameters, parts, strict=True):
                is_tensor = isinstance(part, Tensor)
                self._optimizer.state[parameter][name] = part.clone() if is_tensor else part

    def release(self) -> None:
        """Copy each parameter out of the flat tensor when training ends."""
        for parameter in self._parameters:
            parameter.data = parameter.data.clone()

    def _import_state(self) -> None:
        """Copy the optimizer state restored from a checkpoint to the flat parameters."""
        states = [self._optimizer.state[p] for p in self._parameters if p in self._optimizer.state]
        if len(states) < len(self._parameters):
            return
        for name, value in states[0].items():
            self._update.state[self._flat][name] = (
                self._join([state[name] for state in states]) if _has_entries(value) else value
            )

    def _join(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([tensor.detach().flatten() for tensor in tensors])

    def _views(self, flat: Tensor) -> list[Tensor]:
        """Return a view of the flat tensor for each parameter in its original shape."""
        parts = torch.split(flat, self._sizes)
        return [part.view_as(p) for part, p in zip(parts, self._parameters, strict=True)]


def weight_updates(
    network: nn.Module, optimizer: Optimizer, embeddings: DenseUpdates
) -> WeightUpdates:
    """Return flat weight updates if the embedding is updated lazily, else ordinary updates.

    ``embedding_updates`` decides whether the embedding updates are lazy.
    """
    if isinstance(embeddings, LazyUpdates):
        return FlatUpdates(network, optimizer, embeddings)
    return WeightUpdates(network, optimizer)


def _sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sum the gradients over all processes in place, using one flat tensor for the transfer."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    current_processes().sum(flat)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, summed in zip(gradients, torch.split(flat, sizes), strict=True):
        gradient.copy_(summed.view_as(gradient))


def _has_entries(value: object) -> bool:
    """Return whether an optimizer state value has one entry per weight, unlike a step counter."""
    return isinstance(value, Tensor) and value.ndim > 0
