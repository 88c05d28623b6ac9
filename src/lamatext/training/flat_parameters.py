"""A network's weights as one flat tensor, which the optimizer updates in one operation.

A step of a small network on the CPU otherwise spends as much time on calling an operation for each
of its weights as on the operations. The parameters become views of one tensor, and their gradients
views of another. Word vectors are not among them: lazy embedding updates change them.
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
    """Optimizer steps for a network's weights, which stay separate tensors."""

    def __init__(self, network: nn.Module, optimizer: Optimizer) -> None:
        self._network, self._optimizer = network, optimizer

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next weight update."""
        set_learning_rate(self._optimizer, rate)

    def zero_grad(self) -> None:
        """Reset the gradients of all weights before the backward pass."""
        self._optimizer.zero_grad()

    def step(self, gradient_clip: float | None) -> None:
        """Sum the gradients over all processes, clip their norm and update the weights."""
        trained = [p for p in self._network.parameters() if p.grad is not None]
        for parameter in trained:
            assert parameter.grad is not None
            parameter.grad = parameter.grad.contiguous()
        current_processes().sum_gradients([p.grad for p in trained if p.grad is not None])
        if gradient_clip is not None:
            nn.utils.clip_grad_norm_(trained, gradient_clip)
        self._optimizer.step()

    def export_state(self) -> None:
        """Do nothing: the optimizer already has the state that a checkpoint stores."""

    def release(self) -> None:
        """Do nothing: the parameters are not views of a flat tensor."""


class FlatUpdates(WeightUpdates):
    """Optimizer steps for all weights as one flat tensor, without the word embeddings."""

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
        self._gradient = torch.zeros_like(self._flat)
        self._flat.grad = self._gradient
        options = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
        kind: Any = type(optimizer)
        self._update: Optimizer = kind([{**options, "params": [self._flat]}])
        self._import_state()
        for parameter, values, gradient in zip(
            self._parameters, self._views(self._flat.data), self._views(self._gradient), strict=True
        ):
            parameter.data, parameter.grad = values, gradient

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next weight update."""
        set_learning_rate(self._update, rate)

    def zero_grad(self) -> None:
        """Reset the gradients of all weights before the backward pass."""
        self._gradient.zero_()

    def step(self, gradient_clip: float | None) -> None:
        """Sum the gradients over all processes, clip their norm and update the weights.

        The gradient of the embedding rows is summed and clipped together with the others.
        """
        gradients = [self._gradient, self._embeddings.gradient]
        current_processes().sum_gradients(gradients)
        if gradient_clip is not None:
            norm = math.hypot(*(float(torch.linalg.vector_norm(g)) for g in gradients))
            if norm > gradient_clip:
                for gradient in gradients:
                    gradient.mul_(gradient_clip / (norm + 1e-6))
        self._update.step()

    def export_state(self) -> None:
        """Copy the state of the flat weight updates to the optimizer, for a checkpoint."""
        for name, value in self._update.state[self._flat].items():
            parts = self._views(value) if _has_entries(value) else [value] * len(self._sizes)
            for parameter, part in zip(self._parameters, parts, strict=True):
                is_tensor = isinstance(part, Tensor)
                self._optimizer.state[parameter][name] = part.clone() if is_tensor else part

    def release(self) -> None:
        """Copy each parameter out of the flat tensor when training ends."""
        for parameter in self._parameters:
            parameter.data, parameter.grad = parameter.data.clone(), None

    def _import_state(self) -> None:
        """Copy the optimizer's state, as a checkpoint restored it, to the flat tensor."""
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
        """Return a view of the flat tensor for each parameter, in the parameter's shape."""
        parts = torch.split(flat, self._sizes)
        return [part.view_as(p) for part, p in zip(parts, self._parameters, strict=True)]


def weight_updates(
    network: nn.Module, optimizer: Optimizer, embeddings: DenseUpdates
) -> WeightUpdates:
    """Return flat weight updates if the word embeddings are updated lazily, else ordinary ones.

    That is the case on the CPU with the optimizers for which embedding updates are lazy.
    """
    if isinstance(embeddings, LazyUpdates):
        return FlatUpdates(network, optimizer, embeddings)
    return WeightUpdates(network, optimizer)


def _has_entries(value: object) -> bool:
    """Return whether an optimizer's state value, such as a moment, is a tensor like the weights."""
    return isinstance(value, Tensor) and value.ndim > 0
