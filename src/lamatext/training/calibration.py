"""Calibration: combine the logits of network and n-gram model into reliable probabilities.

A network alone is divided by one temperature. With an n-gram model the probabilities are

    softmax(a·ngrams + bias + b·network)

and all three are fitted to texts that the parts were not trained on. The n-grams come first: a and
the class biases need no network, and cross-fitting gives out-of-sample logits of all texts.
The network is heard only where the validation texts speak for it: its factor b has an L1 penalty of
one standard error of the derivative of the loss at b = 0, and more where few texts estimate that
error. So b is exactly 0 unless the validation texts are evidence of at least that strength for the
network, whatever the size of its logits, and the pull towards 0 vanishes as their number grows.

Shapes: n texts, C classes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Logits = NDArray[np.float32]  # (n, C)
Labels = NDArray[np.int64]  # (n,)
Floats = NDArray[np.float64]

TEMPERATURES = np.geomspace(0.25, 4.0, 161)
PRIOR_NGRAM_FACTOR = 5.0  # a without any text
NGRAM_FACTOR_SPREAD = 1.0  # standard deviation of ln a in its prior
BIAS_SPREAD = 0.8  # standard deviation of a class's bias in its prior
CORRECTION_SPREAD = 0.5  # of the logarithm by which a changes when the network is added
EVIDENCE = 1.0  # standard errors of evidence that the network needs, and
FEW_TEXTS = 5  # EVIDENCE times this / n more with n validation texts


class Combination(NamedTuple):
    """Calibration factors of n-gram model and network, and the bias of each class."""

    ngrams: float  # a
    network: float  # b
    bias: Floats  # (C,)

    def logits(self, ngram_logits: Logits, network_logits: Logits) -> Floats:
        """Combine the logits of both parts into calibrated logits (n, C)."""
        combined: Floats = self.ngrams * ngram_logits + self.bias + self.network * network_logits
        return combined

    def for_all_classes(self, seen: NDArray[np.int64], classes: int) -> "Combination":
        """Return the calibration of all classes if it was fitted to those ``seen``: bias 0."""
        bias = np.zeros(classes)
        bias[seen] = self.bias
        return self._replace(bias=bias)


def fit_temperature(logits: Logits, labels: Labels, weights: Floats | None = None) -> float:
    """Find the calibration temperature that maximizes the likelihood of the validation labels.

    The calibrated probabilities are softmax(logits / τ).
    """
    weights = _normalized(weights, len(labels))

    def loss(temperature: float) -> float:
        return _losses(logits.astype(np.float64) / temperature, labels, weights)[0]

    return float(min(TEMPERATURES, key=loss))


def calibrate_ngrams(
    ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> Combination:
    """Fit the calibration factor and the class biases of an n-gram model without a network.

    Args:
        ngram_logits: out-of-sample logits.
        labels: class index of each text.
        weights: weight of each text in the likelihood; None weights all equally.
    """
    first, classes = ngram_logits.astype(np.float64), ngram_logits.shape[1]
    weights = _normalized(weights, len(labels))
    start = np.zeros(1 + classes)  # ln a relative to its prior, and the biases
    precision = np.array([NGRAM_FACTOR_SPREAD**-2] + [BIAS_SPREAD**-2] * classes)

    def objective(values: Floats) -> tuple[float, Floats]:
        a = PRIOR_NGRAM_FACTOR * np.exp(values[0])
        loss, errors = _losses(a * first + values[1:], labels, weights)
        gradient = np.append((errors * first).sum() * a, errors.sum(axis=0))
        return loss + (precision * values**2).sum() / 2, gradient + precision * values

    values = _minimize(objective, start, [(None, None)] * len(start))
    return Combination(float(PRIOR_NGRAM_FACTOR * np.exp(values[0])), 0.0, values[1:])


def add_network(
    ngrams: Combination,
    ngram_logits: Logits,
    network_logits: Logits,
    labels: Labels,
    weights: Floats | None = None,
) -> Combination:
    """Fit the calibration factor of a network that is added to a calibrated n-gram model.

    Both logits are of validation texts, on which neither part was trained. The network's logits are
    divided by their typical size, so that the prior does not depend on how long it was trained.
    """
    base = ngrams.logits(ngram_logits, np.zeros_like(ngram_logits))
    second = network_logits.astype(np.float64)
    size = _typical_size(second)
    if not len(labels) or size == 0:
        return ngrams
    second = second / size
    weights = _normalized(weights, len(labels))
    _, errors = _losses(base, labels, weights)
    evidence = (errors * second).sum(axis=1)  # (n,) derivative of each text's loss at b = 0
    strength = EVIDENCE * (1 + FEW_TEXTS / len(labels))
    penalty = strength * float(np.sqrt((evidence**2).sum()))

    def objective(values: Floats) -> tuple[float, Floats]:
        change, b = np.exp(values[0]), values[1]
        loss, errors = _losses(change * base + b * second, labels, weights)
        prior = (values[0] / CORRECTION_SPREAD) ** 2 / 2
        gradient = [
            (errors * base).sum() * change + values[0] / CORRECTION_SPREAD**2,
            (errors * second).sum() + penalty,
        ]
        return loss + prior + penalty * b, np.array(gradient)

    log_change, b = _minimize(objective, np.zeros(2), [(None, None), (0, None)])
    if b == 0:
        return ngrams
    change = float(np.exp(log_change))
    return Combination(ngrams.ngrams * change, float(b / size), ngrams.bias * change)


def _losses(logits: Floats, labels: Labels, weights: Floats) -> tuple[float, Floats]:
    """Return the weighted cross-entropy and its derivatives with respect to the logits (n, C)."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(axis=1)
    errors = powers / totals[:, None]
    errors[rows, labels] -= 1
    loss = float((weights * (np.log(totals) - shifted[rows, labels])).sum())
    return loss, errors * weights[:, None]


def _normalized(weights: Floats | None, texts: int) -> Floats:
    """Return the weights of the texts divided by their mean, so that a prior keeps its strength."""
    if weights is None or not texts:
        return np.ones(texts)
    return np.asarray(weights / weights.mean(), np.float64)


def _typical_size(logits: Floats) -> float:
    centred = logits - logits.mean(axis=1, keepdims=True)
    return float(np.sqrt((centred**2).mean())) if centred.size else 0.0


def _minimize(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: list[tuple[float | None, float | None]],
) -> Floats:
    from scipy.optimize import minimize

    solution: Floats = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return solution


def scale_logits(network: nn.Module, factor: float) -> None:
    """Multiply all logits of a network by a calibration factor by scaling its last layer."""
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factor)
        last.bias.mul_(factor)
