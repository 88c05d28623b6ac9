"""Calibration: scale the logits of network and n-gram model so that probabilities are reliable.

A network alone is divided by one temperature. A network with an n-gram model gets two factors, a
for the n-gram logits and b for the network's: softmax(a·ngrams + b·network). All are fitted on the
validation set.  Shapes: n texts, C classes.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Logits = NDArray[np.float32]  # (n, C)
Labels = NDArray[np.int64]  # (n,)

TEMPERATURES = np.geomspace(0.25, 4.0, 161)
PRIOR_FACTORS = (1.0, 0.5)  # a and b without any validation text
PRIOR_STRENGTH = 1.0  # pull towards the prior; 1 weighs about as much as one text's loss


def fit_temperature(logits: Logits, labels: Labels) -> float:
    """Find the calibration temperature that maximizes the likelihood of the validation labels.

    The calibrated probabilities are softmax(logits / τ).
    """

    def mean_loss(temperature: float) -> float:
        scaled = logits.astype(np.float64) / temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        correct = scaled[np.arange(len(labels)), labels]
        return float((np.log(np.exp(scaled).sum(axis=1)) - correct).mean())

    return float(min(TEMPERATURES, key=mean_loss))


def fit_factors(
    ngram_logits: Logits, network_logits: Logits, labels: Labels
) -> tuple[float, float]:
    """Find the calibration factors that best combine the n-gram model's and the network's logits.

    The factors a, b ≥ 0 maximize the likelihood of softmax(a·ngrams + b·network) under a prior.
    """
    from scipy.optimize import minimize

    first, second = ngram_logits.astype(np.float64), network_logits.astype(np.float64)
    rows = np.arange(len(labels))

    def loss_and_gradient(factors: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = factors[0] * first + factors[1] * second
        logits -= logits.max(axis=1, keepdims=True)
        powers = np.exp(logits)
        total = powers.sum(axis=1)
        errors = powers / total[:, None]
        errors[rows, labels] -= 1  # gradient of the loss with respect to the logits
        shift = factors - PRIOR_FACTORS
        prior = PRIOR_STRENGTH * (shift**2).sum() / 2
        loss = (np.log(total) - logits[rows, labels]).sum() + prior
        gradient = np.array([(errors * first).sum(), (errors * second).sum()])
        return float(loss), gradient + PRIOR_STRENGTH * shift

    bounds = [(0, None)] * 2
    a, b = minimize(loss_and_gradient, PRIOR_FACTORS, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(a), float(b)


def scale_logits(network: nn.Module, factor: float) -> None:
    """Multiply all logits of a network by a calibration factor by scaling its last layer."""
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factor)
        last.bias.mul_(factor)
