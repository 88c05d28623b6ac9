"""The step: optimisers and the one-cycle rate."""

import math
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from lamatext.settings import TrainingSettings

WARM_UP = 0.25  # the share of a one-cycle run in which the rate rises


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> Optimizer:
    """The optimiser that ``training.optimizer`` names."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    rate, decay = settings.learning_rate, settings.weight_decay
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
