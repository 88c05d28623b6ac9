"""Optimizers (SGD, Adam, AdamW) and learning rate schedules."""

import math
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from lamatext.settings import TrainingSettings

WARM_UP = 0.25  # fraction of a one-cycle run during which the learning rate rises


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Create the optimizer chosen in the training settings (SGD, Adam or AdamW).

    AdamW applies no weight decay to the word vectors (``embedding.weight``).
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    rate, decay = settings.learning_rate, settings.weight_decay
    match settings.optimizer:
        case "sgd":
            momentum = settings.momentum
            return SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay, fused=True)
        case "adam":
            return Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        case "adamw":
            embeddings = {id(p) for n, p in network.named_parameters() if n == "embedding.weight"}
            groups: list[dict[str, Any]] = [
                {"params": [p for p in parameters if id(p) not in embeddings]},
                {"params": [p for p in parameters if id(p) in embeddings], "weight_decay": 0.0},
            ]
            return AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=decay, fused=True)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter group of an optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def one_cycle_factor(progress: float) -> float:
    """Compute the learning rate factor of the one-cycle schedule.

    The factor rises linearly to 1, then decays along a cosine. ``progress`` is the completed
    fraction of the run, from 0 to 1.
    """
    if progress < WARM_UP:
        return progress / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))
