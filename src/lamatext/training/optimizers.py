"""Optimizers (SGD, Adam, AdamW) and learning rate schedules."""

import math
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from lamatext.settings import TrainingSettings

FUSED_ADAMW = "_fused_adamw_"  # private to torch; may disappear
WARM_UP = 0.25  # fraction of a one-cycle run during which the learning rate rises


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Create the optimizer chosen in the training settings (SGD, Adam or AdamW).

    AdamW applies no weight decay to embeddings.
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


def fast_step(optimizer: Optimizer, parameter: nn.Parameter) -> None:
    """Run a step of an optimizer for a single parameter on the CPU.

    For AdamW this calls torch's fused operator directly: in a step of a small network, what
    ``torch.optim`` does around it takes longer than the operator. The operator is private to torch;
    if it is missing, and in the first step, which creates the moments, the optimizer runs itself.
    """
    state, operator = optimizer.state[parameter], getattr(torch, FUSED_ADAMW, None)
    if type(optimizer) is not AdamW or operator is None or "step" not in state:
        optimizer.step()
        return
    group = optimizer.param_groups[0]
    beta1, beta2 = group["betas"]
    state["step"] += 1
    with torch.no_grad():
        operator(
            [parameter],
            [parameter.grad],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


def one_cycle_factor(progress: float) -> float:
    """Compute the learning rate factor of the one-cycle schedule.

    It rises linearly to 1, then decays along a cosine. ``progress`` is the completed fraction of
    the run, from 0 to 1.
    """
    if progress < WARM_UP:
        return progress / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))
