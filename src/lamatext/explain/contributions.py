"""Contribution of each word of a text to the logit of each class, for attention networks.

The classifier head (the network's last layers) is piecewise linear, so at the text embedding S the
logit of class c equals Σⱼ sⱼ·gⱼ plus a constant, with gⱼ = ∂logit_c/∂sⱼ. Head j of the attention
computes sⱼ = Σₜ αⱼₜ hₜ, so word t contributes Σⱼ αⱼₜ hₜ·gⱼ. The contributions of all words and one
constant, the base, add up to the logit exactly.
Shapes: T words, D state width, M heads, K hidden units of the classifier, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import ModelError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ClassifierHead:
    """Weights of the classifier head, which maps a text embedding to class logits.

    For a flattened text embedding s, logits = W₂ relu(W₁ s + b₁) + b₂.

    Without a hidden layer W₁ and b₁ are None, and logits = W₂ s + b₂.
    """

    w1: Floats | None  # (K, M*D)
    b1: Floats | None  # (K,)
    w2: Floats  # (C, K), or (C, M*D)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[np.floating]]) -> Self:
        """Create the classifier head from the named weight tensors of a network."""
        names = ["classifier.0.weight", "classifier.0.bias", "classifier.3.weight"]
        if "classifier.1.weight" in tensors:  # no hidden layer
            names = ["classifier.1.weight"]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelError(f"the model's weights lack {', '.join(missing)}. Save it again.")
        arrays = [np.asarray(tensors[name], dtype=np.float32) for name in names]
        return cls(*arrays) if len(arrays) == 3 else cls(None, None, *arrays)

    def gradient(self, embedding: Floats) -> Floats:
        """Return the gradient of the classifier head's logits with respect to the embedding.

        The embedding has shape (M, D), the gradient (C, M, D).

        The head is piecewise linear, so the gradient is exact for the whole piece that the
        embedding lies on.
        """
        weights = self.w2
        if self.w1 is not None and self.b1 is not None:
            active = self.w1 @ embedding.ravel() + self.b1 > 0  # (K,)
            weights = (self.w2 * active) @ self.w1  # (C, M*D)
        return weights.reshape(-1, *embedding.shape)


class Contributions(NamedTuple):
    """Contributions of each word to each class logit, and the remainder of the logit (``base``)."""

    contributions: Floats  # (C, T)
    base: Floats  # (C,)


def attention_contributions(
    head: ClassifierHead, *, logits: Floats, embedding: Floats, weights: Floats, states: Floats
) -> Contributions:
    """Decompose the logits of one text into word contributions and a constant base per class.

    Used for networks with attention.

    Args:
        head: the classifier head of the network.
        logits: (C,).
        embedding: the text embedding, (M, D).
        weights: attention weight of each word in each head, (M, T).
        states: encoder state of each word, (T, D).
    """
    gradient = head.gradient(embedding)  # (C, M, D)
    contributions = np.zeros((len(logits), len(states)), dtype=np.float32)  # (C, T)
    for j, head_weights in enumerate(weights):
        contributions += (gradient[:, j] @ states.T) * head_weights
    return Contributions(contributions, logits - contributions.sum(axis=1))
