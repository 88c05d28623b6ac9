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
    """logits = W₂ relu(W₁ s + b₁) + b₂, where s is the flattened embedding of a text.

    Without a hidden layer W₁ and b₁ are None, and logits = W₂ s + b₂.
    """

    w1: Floats | None  # (K, M*D)
    b1: Floats | None  # (K,)
    w2: Floats  # (C, K), or (C, M*D)
    b2: Floats  # (C,)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[np.floating]]) -> Self:
        """Read it from a network's tensors by their names, ``classifier.0.weight`` and so on."""
        layers = (1,) if "classifier.1.weight" in tensors else (0, 3)
        names = [f"classifier.{layer}.{part}" for layer in layers for part in ("weight", "bias")]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelError(f"the model's weights lack {', '.join(missing)}. Save it again.")
        found = [np.asarray(tensors[name], dtype=np.float32) for name in names]
        return cls(*found) if len(found) == 4 else cls(None, None, *found)

    def logits(self, embedding: Floats) -> Floats:
        """Classify an embedding (M, D), or many (B, M, D): (C,) or (B, C)."""
        hidden = embedding.reshape(*embedding.shape[:-2], -1)  # (…, M*D)
        if self.w1 is not None and self.b1 is not None:
            hidden = np.maximum(hidden @ self.w1.T + self.b1, 0)  # (…, K)
        return hidden @ self.w2.T + self.b2

    def gradient(self, embedding: Floats) -> Floats:
        """∂logit_c/∂sⱼ at one embedding (M, D): (C, M, D), constant over a whole linear piece."""
        return self._piece(embedding)[0].reshape(-1, *embedding.shape)

    def constant(self, embedding: Floats) -> Floats:
        """What the logits of that linear piece have beyond gradient · s: (C,)."""
        return self._piece(embedding)[1]

    def _piece(self, embedding: Floats) -> tuple[Floats, Floats]:
        """Slopes (C, M*D) and constant (C,), with the hidden units that are open here."""
        if self.w1 is None or self.b1 is None:
            return self.w2, self.b2
        w2 = self.w2 * (self.w1 @ embedding.ravel() + self.b1 > 0)  # (C, K)
        return w2 @ self.w1, w2 @ self.b1 + self.b2
