"""Probabilities one can take at their word: a temperature fitted on validation texts."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lamatext.training.batching import Examples
from lamatext.training.loop import logits_of

GRID = np.geomspace(0.25, 4.0, 161)


def best_temperature(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """The τ for which softmax(logits / τ) gives the labels the largest likelihood."""

    def loss(temperature: float) -> float:
        scaled = logits.astype(np.float64) / temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        right = scaled[np.arange(len(labels)), labels]
        return float((np.log(np.exp(scaled).sum(axis=1)) - right).mean())

    return float(min(GRID, key=loss))


def fold_temperature(network: nn.Module, valid: Examples, device: torch.device) -> float:
    """Divide the last layer by the best temperature: the logits come out calibrated."""
    temperature = best_temperature(logits_of(network, valid, device), valid.labels)
    scale_logits(network, 1 / temperature)
    return temperature


def scale_logits(network: nn.Module, factor: float) -> None:
    """Multiply the last layer by ``factor``, and so every logit."""
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factor)
        last.bias.mul_(factor)
