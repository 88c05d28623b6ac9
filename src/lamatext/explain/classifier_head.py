"""The classifier head (the network's last layers) in numpy: its logits and its gradient.

Shapes: D state width, M rows of the text embedding, K hidden units, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import ModelError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ClassifierHead:
    """Classifier head: logits = W₂ relu(W₁ s + b₁) + b₂ for a flattened text embedding s.

    Without a hidden layer W₁ and b₁ are None, and logits = W₂ s + b₂.
    """

    w1: Floats | None  # (K, M*D)
    b1: Floats | None  # (K,)
    w2: Floats  # (C, K), or (C, M*D)
    b2: Floats  # (C,)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[np.floating]]) -> Self:
        """Build the classifier head from a network's tensors, ``classifier.0.weight`` and so on."""
        layers = (1,) if "classifier.1.weight" in tensors else (0, 3)
        names = [f"classifier.{layer}.{kind}" for layer in layers for kind in ("weight", "bias")]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelError(f"the model's weights lack {', '.join(missing)}. Save it again.")
        arrays = [np.asarray(tensors[name], dtype=np.float32) for name in names]
        return cls(*arrays) if len(arrays) == 4 else cls(None, None, *arrays)

    def logits(self, embedding: Floats) -> Floats:
        """Apply the classifier head to one text embedding (M, D) or a batch (B, M, D)."""
        hidden = embedding.reshape(*embedding.shape[:-2], -1)  # (…, M*D)
        if self.w1 is not None and self.b1 is not None:
            hidden = np.maximum(hidden @ self.w1.T + self.b1, 0)  # (…, K)
        return hidden @ self.w2.T + self.b2

    def gradient(self, embedding: Floats) -> Floats:
        """Return the gradient (C, M, D) of the classifier head's logits at an embedding (M, D).

        The head is piecewise linear, so the gradient is exact for the whole piece that the
        embedding lies on.
        """
        weights = self.w2
        if self.w1 is not None and self.b1 is not None:
            active = self.w1 @ embedding.ravel() + self.b1 > 0  # (K,)
            weights = (self.w2 * active) @ self.w1  # (C, M*D)
        return weights.reshape(-1, *embedding.shape)
