"""What predicting needs of a network, whichever library computes it.

Shapes: B texts, T words, D state width, M heads, C classes.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]

GIVEN = "given_states"  # the graph's optional input: states (B, T, D) that another has computed


class Result(NamedTuple):
    """What a network says of a batch of texts."""

    logits: Floats  # (B, C)
    embedding: Floats  # (B, M, D)
    weights: Floats | None  # (B, M, T); None where a system has no attention
    states: Floats  # (B, T, D)


class Engine(Protocol):
    """Reads ``ids`` (B, T), of which the first ``lengths`` (B,; at least 1 each) are words."""

    def run(self, ids: Ids, lengths: Ids) -> Result:
        """All that the network says of these texts."""
        ...

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Only the logits (B, C): all that predicting needs."""
        ...
