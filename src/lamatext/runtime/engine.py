"""Inference engine protocol: how a predictor runs a network in ONNX Runtime or PyTorch.

Shapes: B texts, T words, D state width, M heads, C classes.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import TokenIds, batches_by_length

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]

BATCH_WORDS = 2048  # tokens per engine call, padding included; larger batches leave the CPU cache


class EngineOutput(NamedTuple):
    """Outputs of an inference engine for one batch of texts, as NumPy arrays."""

    logits: Floats  # (B, C)
    embedding: Floats  # (B, M, D)
    weights: Floats | None  # (B, M, T); None for a network without attention
    states: Floats  # (B, T, D)


class Engine(Protocol):
    """Interface of an inference engine, which runs a network on padded batches of token ids.

    In each row of ``ids`` (B, T), the first ``lengths`` (B,) entries are tokens and the others are
    padding. Every row has at least one token.
    """

    def run(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Run the inference engine on a batch and return all outputs of the network."""
        ...

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Run the inference engine on a batch and return only the logits.

        The shape is (B, C). An engine may skip the computation of the other outputs.
        """
        ...

    def text_logits(self, rows: TokenIds) -> Floats:
        """Return the engine's logits (B, C) for any number of texts, computed in batches."""
        ...


def batched_logits(engine: Engine, rows: TokenIds) -> Floats:
    """Run an inference engine on texts in batches of similar length and return the logits."""
    if len(rows) == 1:  # one text needs neither sorting nor padding
        return engine.logits(rows.ids[None, :], np.array([len(rows.ids)], np.int32))
    batches = batches_by_length(rows.lengths, max_words=BATCH_WORDS)
    parts = [engine.logits(*rows.pad(batch)) for batch in batches]
    return np.concatenate(parts)[np.argsort(np.concatenate(batches))]
