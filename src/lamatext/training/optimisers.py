"""The step: optimisers, the one-cycle rate, and an exponential average of the weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from lamatext.config import TrainingSettings

WARM_UP = 0.25  # the share of a one-cycle run in which the rate rises


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> Optimizer:
    """The optimiser that ``training.optimizer`` names."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    rate, decay = settings.rate, settings.weight_decay
    match settings.optimizer:
        case "sgd":
            momentum = settings.momentum
            return SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay, fused=True)
        case "adam":
            return Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        case "adamw":
            vectors = {id(p) for n, p in network.named_parameters() if n == "embedding.weight"}
            groups: list[dict[str, Any]] = [
                {"params": [p for p in parameters if id(p) not in vectors]},
                {"params": [p for p in parameters if id(p) in vectors], "weight_decay": 0.0},
            ]
            return AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=decay, fused=True)


def one_cycle(done: float) -> float:
    """The factor on the rate when the share ``done`` of a run is over: up, then down a cosine."""
    if done < WARM_UP:
        return done / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP)))


class Average:
    """An exponential average of a network's parameters; off where the decay is 0."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = torch.zeros((), dtype=torch.int64)
        self._live = dict(network.named_parameters()) if decay else {}
        self._mean = {name: tensor.detach().clone() for name, tensor in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take one step's weights in; the first steps count more, so that it starts unbiased."""
        if not self.decay:
            return
        self.steps += 1
        step = int(self.steps)
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self._mean.values()), list(self._live.values()), share)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the network has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {**self._mean, "steps": self.steps} if self.decay else {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take up what a checkpoint kept."""
        if not self.decay:
            return
        self.steps = tensors["steps"].clone()
        for name, mean in self._mean.items():
            mean.copy_(tensors[name])

    def _swap(self) -> None:
        for name, mean in self._mean.items():
            live = self._live[name]
            live.data, self._mean[name] = mean, live.data
