"""Calibration of a multi-label model: network and n-gram logits of each label as one probability.

The probability of label l is sigmoid(a·ngrams + b·network + cₗ). The factors a and b are the same
for all labels. The shifts cₗ stay close to their mean unless a label has enough validation texts: a
label with a handful of texts is calibrated like the others. Shapes: n texts, L labels.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Logits = NDArray[np.float32]  # (n, L)
Targets = NDArray[np.float32]  # (n, L) 0 or 1
Doubles = NDArray[np.float64]

PRIOR_FACTORS = (1.0, 0.5)  # a and b without any validation text
FACTOR_STRENGTH = 1.0  # pull of a and b towards the prior
SHIFT_STRENGTH = 1.0  # pull of each shift towards their mean


class LabelFactors(NamedTuple):
    """Calibration of a multi-label model: factors of the two parts, and a shift per label."""

    ngrams: float
    network: float
    shifts: NDArray[np.float32]  # (L,)

    def combine(self, ngram_logits: Logits, network_logits: Logits) -> Doubles:
        """Return the calibrated logits, (n, L)."""
        combined: Doubles = (
            self.ngrams * ngram_logits.astype(np.float64)
            + self.network * network_logits.astype(np.float64)
            + self.shifts
        )
        return combined


def fit_label_factors(
    ngram_logits: Logits,
    network_logits: Logits,
    targets: Targets,
    label_weights: Doubles | None = None,
) -> LabelFactors:
    """Fit the calibration of a multi-label model on the validation set.

    Args:
        ngram_logits: (n, L), zeros if there is no n-gram model.
        network_logits: (n, L).
        targets: labels of the validation texts.
        label_weights: weight of the texts that have a label, (L,); None weights all equally.
    """
    from scipy.optimize import minimize

    weights = np.where(targets > 0.5, 1.0 if label_weights is None else label_weights, 1.0)
    parts = ngram_logits.astype(np.float64), network_logits.astype(np.float64)
    labels = targets.shape[1]

    def loss_and_gradient(x: Doubles) -> tuple[float, Doubles]:
        factors, center, shifts = x[:2], x[2], x[3:]
        logits = factors[0] * parts[0] + factors[1] * parts[1] + center + shifts
        errors = weights * (_sigmoid(logits) - targets)
        distance = factors - PRIOR_FACTORS
        loss = (weights * (np.logaddexp(0, logits) - targets * logits)).sum()
        loss += FACTOR_STRENGTH * (distance**2).sum() / 2 + SHIFT_STRENGTH * (shifts**2).sum() / 2
        by_factor = [(errors * part).sum() for part in parts] + FACTOR_STRENGTH * distance
        by_label = errors.sum(axis=0)
        return float(loss), np.concatenate(
            [by_factor, [by_label.sum()], by_label + SHIFT_STRENGTH * shifts]
        )

    start = np.array([*PRIOR_FACTORS, *np.zeros(1 + labels)])
    bounds = [(0, None)] * 2 + [(None, None)] * (1 + labels)
    x = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return LabelFactors(float(x[0]), float(x[1]), (x[2] + x[3:]).astype(np.float32))


def apply_label_factors(network: "nn.Module", factors: LabelFactors) -> None:
    """Scale the logits of a multi-label network and add the shifts, in its last layer."""
    import torch
    from torch import nn

    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factors.network)
        last.bias.mul_(factors.network).add_(torch.from_numpy(factors.shifts).to(last.bias.device))


def _sigmoid(logits: Doubles) -> Doubles:
    probabilities: Doubles = 0.5 * (1 + np.tanh(logits / 2))
    return probabilities
