"""The classifier over the text embedding in numpy: logits, and the linear piece they lie on.

Shapes: D state width, M rows of the embedding, K hidden units, C classes.
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
    """logits = W₂ relu(W₁ s + b₁) + b₂, where s is the flattened embedding of a text."""

    w1: Floats  # (K, M*D)
    b1: Floats  # (K,)
    w2: Floats  # (C, K)
    b2: Floats  # (C,)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[np.floating]]) -> Self:
        """Read it from a network's tensors by their names, ``classifier.0.weight`` and so on."""
        names = [f"classifier.{layer}.{part}" for layer in (0, 3) for part in ("weight", "bias")]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelError(f"the model's weights lack {', '.join(missing)}. Save it again.")
        return cls(*(np.asarray(tensors[name], dtype=np.float32) for name in names))

    def logits(self, embedding: Floats) -> Floats:
        """Classify an embedding (M, D), or many (B, M, D): (C,) or (B, C)."""
        flat = embedding.reshape(*embedding.shape[:-2], -1)  # (…, M*D)
        hidden: Floats = np.maximum(flat @ self.w1.T + self.b1, 0)  # (…, K)
        return hidden @ self.w2.T + self.b2

    def gradient(self, embedding: Floats) -> Floats:
        """∂logit_c/∂sⱼ at one embedding (M, D): (C, M, D), constant over a whole linear piece."""
        return (self._open(embedding) @ self.w1).reshape(-1, *embedding.shape)

    def constant(self, embedding: Floats) -> Floats:
        """What the logits of that linear piece have beyond gradient · s: (C,)."""
        return self._open(embedding) @ self.b1 + self.b2

    def _open(self, embedding: Floats) -> Floats:
        """W₂ without the hidden units that are shut at this embedding: (C, K)."""
        return self.w2 * (self.w1 @ embedding.ravel() + self.b1 > 0)
