"""Calibration of a multi-label model: turn network and n-gram logits into label probabilities.

The probability of label l is

    sigmoid( a·g + e·(1 − rₗ)·(g − ḡₗ) + b·(h̄ₗ + rₗ·(h − h̄ₗ)) + cₗ )

with the n-gram logit g, the network's logit h, and their means ḡₗ and h̄ₗ. The factors a, b, e are
the same for all labels. rₗ = n / (n + 10) grows with the n training texts that have the label: a
network needs more texts than n-grams to learn a label, so for a rare one n-grams decide. The
shifts cₗ stay close to their mean unless a label has enough validation texts: a label with a
handful of texts is calibrated like the others. Shapes: n texts, L labels.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.probabilities import sigmoid

if TYPE_CHECKING:
    from torch import nn

Logits = NDArray[np.float32]  # (n, L)
Targets = NDArray[np.float32]  # (n, L) 0 or 1
Doubles = NDArray[np.float64]

PRIOR_FACTORS = (1.0, 0.5, 0.0)  # a, b and e without any validation text
FACTOR_STRENGTH = 1.0  # pull of a, b and e towards the prior
SHIFT_STRENGTH = 4.0  # pull of each shift towards their mean
RELIABLE_TEXTS = 10.0  # training texts with a label at which half of the network's logit is used


class LabelFactors(NamedTuple):
    """Per-label calibration of a multi-label model: n-gram factors, network factors and shifts."""

    ngrams: NDArray[np.float32]  # (L,)
    network: NDArray[np.float32]  # (L,)
    shifts: NDArray[np.float32]  # (L,)

    def combine(self, ngram_logits: Logits, network_logits: Logits) -> Doubles:
        """Combine network and n-gram logits into calibrated multi-label logits (n, L)."""
        ngrams, network = ngram_logits.astype(np.float64), network_logits.astype(np.float64)
        return np.asarray(self.ngrams * ngrams + self.network * network + self.shifts, np.float64)

    def for_all_labels(
        self, seen: NDArray[np.bool_], ngrams: float, network: float
    ) -> "LabelFactors":
        """Extend the per-label calibration to labels that were not ``seen``, with fixed factors."""
        parts = []
        for fitted, other in zip(self, (ngrams, network, 0.0), strict=True):
            values = np.full(len(seen), other, np.float32)
            values[seen] = fitted
            parts.append(values)
        return LabelFactors(*parts)


def fit_label_factors(
    ngram_logits: Logits,
    network_logits: Logits,
    targets: Targets,
    *,
    training_texts: Doubles | None = None,
    label_weights: Doubles | None = None,
) -> LabelFactors:
    """Fit the per-label calibration of a multi-label model on the validation set.

    Args:
        ngram_logits: (n, L), zeros if there is no n-gram model.
        network_logits: (n, L).
        targets: labels of the validation texts.
        training_texts: number of training texts with each label, (L,); None means many.
        label_weights: weight of the texts that have a label, (L,); None weights all equally.
    """
    from scipy.optimize import minimize

    weights = np.where(targets > 0.5, 1.0 if label_weights is None else label_weights, 1.0)
    ngrams, network = ngram_logits.astype(np.float64), network_logits.astype(np.float64)
    reliable = np.ones(targets.shape[1])
    if training_texts is not None:
        reliable = training_texts / (training_texts + RELIABLE_TEXTS)
    ngram_mean, network_mean = ngrams.mean(axis=0), network.mean(axis=0)
    parts = (
        ngrams,
        network_mean + reliable * (network - network_mean),
        (1 - reliable) * (ngrams - ngram_mean),
    )

    def loss_and_gradient(x: Doubles) -> tuple[float, Doubles]:
        factors, center, shifts = x[:3], x[3], x[4:]
        logits = sum(f * part for f, part in zip(factors, parts, strict=True)) + center + shifts
        errors = weights * (sigmoid(logits) - targets)
        distance = factors - PRIOR_FACTORS
        loss = (weights * (np.logaddexp(0, logits) - targets * logits)).sum()
        loss += FACTOR_STRENGTH * (distance**2).sum() / 2 + SHIFT_STRENGTH * (shifts**2).sum() / 2
        by_factor = [(errors * part).sum() for part in parts] + FACTOR_STRENGTH * distance
        by_label = errors.sum(axis=0)
        return float(loss), np.concatenate(
            [by_factor, [by_label.sum()], by_label + SHIFT_STRENGTH * shifts]
        )

    labels = targets.shape[1]
    start = np.array([*PRIOR_FACTORS, *np.zeros(1 + labels)])
    bounds = [(0, None)] * 3 + [(None, None)] * (1 + labels)
    x = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    (a, b, e), rest = x[:3], 1 - reliable
    shifts = x[3] + x[4:] + rest * (b * network_mean - e * ngram_mean)
    return LabelFactors(
        (a + e * rest).astype(np.float32),
        (b * reliable).astype(np.float32),
        shifts.astype(np.float32),
    )


def apply_label_factors(network: "nn.Module", factors: LabelFactors) -> None:
    """Fold the per-label calibration into the weights of the network's last layer, in place."""
    import torch
    from torch import nn

    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    device = last.bias.device
    scale, shifts = (torch.from_numpy(x).to(device) for x in (factors.network, factors.shifts))
    with torch.no_grad():
        last.weight.mul_(scale[:, None])
        last.bias.mul_(scale).add_(shifts)
