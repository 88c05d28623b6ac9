"""Softmax and sigmoid in numpy: logits to probabilities. Shapes: n texts, C classes."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=np.floating)


def softmax(logits: NDArray[F]) -> NDArray[F]:
    """Return the softmax of each row of the logits, (n, C)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[F] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def sigmoid(logits: NDArray[F]) -> NDArray[F]:
    """Return the sigmoid of each logit, computed with tanh so that it does not overflow."""
    probabilities: NDArray[F] = 0.5 * (1 + np.tanh(0.5 * logits))
    return probabilities
