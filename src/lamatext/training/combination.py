"""How much the network and the n-gram model each count: two factors, fitted on validation texts."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

USUAL = (1.0, 0.5)  # where the factors lie when there are no texts to fit them on
CARE = 1.0  # how strongly they are held there: as much as one text's loss


def fuse(ngrams: Floats, deep: Floats, labels: NDArray[np.int64]) -> tuple[float, float]:
    """a, b ≥ 0 for which softmax(a·ngrams + b·deep) gives the labels the largest likelihood.

    Args:
        ngrams: logits (n, C) of the linear model.
        deep: logits (n, C) of the network.
        labels: class numbers (n,).
    """
    from scipy.optimize import minimize

    first, second = ngrams.astype(np.float64), deep.astype(np.float64)
    rows = np.arange(len(labels))

    def loss(factors: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = factors[0] * first + factors[1] * second
        logits -= logits.max(axis=1, keepdims=True)
        powers = np.exp(logits)
        total = powers.sum(axis=1)
        wrong = powers / total[:, None]
        wrong[rows, labels] -= 1  # the loss's gradient by the logits
        away = factors - USUAL
        value = (np.log(total) - logits[rows, labels]).sum() + CARE * (away**2).sum() / 2
        slope = np.array([(wrong * first).sum(), (wrong * second).sum()]) + CARE * away
        return float(value), slope

    found = minimize(loss, USUAL, jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2).x
    return float(found[0]), float(found[1])
