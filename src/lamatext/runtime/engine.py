"""The engine protocol: what the predictor needs of a network, in ONNX Runtime or in PyTorch.

Shapes: B texts, T words, D state width, M heads, C classes.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]


class EngineOutput(NamedTuple):
    """Outputs of an engine for a batch of texts, as numpy arrays."""

    logits: Floats  # (B, C)
    embedding: Floats  # (B, M, D)
    weights: Floats | None  # (B, M, T); None for a system without attention
    states: Floats  # (B, T, D)


class Engine(Protocol):
    """Inference engine for padded batches of token ids.

    ``ids`` is (B, T); the first ``lengths`` (B,) ids of each row are tokens, at least one per row.
    """

    def run(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Return all outputs of the engine's network for a batch."""
        ...

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Return only the logits (B, C) of the engine's network, which prediction needs."""
        ...
