"""How much each word of a text adds to the logit of each class.

The classifier is piecewise linear, so at a text's embedding S the logit of class c is
Σⱼ sⱼ·∂logit_c/∂sⱼ plus a constant, and each row of S is a sum over the words:

    a head         sⱼ = Σₜ αⱼₜ hₜ          word t adds αⱼₜ hₜ·gⱼ       with gⱼ = ∂logit_c/∂sⱼ
    the mean       s  = Σₜ hₜ / T           the same with αₜ = 1/T
    the maximum    s_d = max over t of hₜ_d   dimension d counts for the word that has the maximum

So the contributions of the words and one constant, the base, add up to the logit.
Shapes: B texts, T words, D state width, M heads, C classes.
"""

from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lamatext.explain.classifier_head import ClassifierHead, Floats

Pooling = Literal["attention", "mean", "max"]


class Reading(Protocol):
    """What an engine says of a batch of texts."""

    @property
    def logits(self) -> Floats:
        """(B, C)."""
        ...

    @property
    def embedding(self) -> Floats:
        """(B, M, D); one row more where the maximum stands beside the heads."""
        ...

    @property
    def weights(self) -> Floats | None:
        """(B, M, T)."""
        ...

    @property
    def states(self) -> Floats:
        """(B, T, D)."""
        ...


class Contributions(NamedTuple):
    """logits = contributions.sum(axis=1) + base."""

    contributions: Floats  # (C, T)
    base: Floats  # (C,)


def contributions(
    reading: Reading,
    lengths: NDArray[np.integer],
    head: ClassifierHead,
    *,
    pooling: Pooling = "attention",
) -> list[Contributions]:
    """The contributions in each text of a batch, padding left off.

    Args:
        reading: what the engine returned.
        lengths: how many words each text has.
        head: the classifier of the same model.
        pooling: how a model without weights pools its words.
    """
    found = []
    for row, words in enumerate(lengths.tolist()):
        states = reading.states[row, :words]  # (T, D)
        weights = (
            _plain_weights(pooling, words)
            if reading.weights is None
            else reading.weights[row, :, :words]
        )  # (M, T)
        shares = word_contributions(weights, states, head.gradient(reading.embedding[row]))
        found.append(Contributions(shares, reading.logits[row] - shares.sum(axis=1)))
    return found


def word_contributions(weights: Floats, states: Floats, gradient: Floats) -> Floats:
    """Σⱼ αⱼₜ hₜ·gⱼ for one text, from (M, T), (T, D) and (C, M or M + 1, D): (C, T).

    A row of ``gradient`` beyond the heads is the maximum's.
    """
    total = np.zeros((len(gradient), len(states)), dtype=np.float32)  # (C, T)
    for j, head_weights in enumerate(weights):
        total += (gradient[:, j] @ states.T) * head_weights
    if gradient.shape[1] > len(weights):
        winners = states.argmax(axis=0)  # (D,): the word that has each dimension's maximum
        best = states[winners, np.arange(states.shape[1])]  # (D,)
        for c, slope in enumerate(gradient[:, -1]):
            total[c] += np.bincount(winners, slope * best, len(states)).astype(np.float32)
    return total


def _plain_weights(pooling: Pooling, words: int) -> Floats:
    """The mean is one head that looks everywhere alike; the maximum has no head."""
    if pooling == "attention":
        raise ValueError("this model has no attention weights: say pooling='mean' or 'max'")
    heads = 1 if pooling == "mean" else 0
    return np.full((heads, words), 1 / words, dtype=np.float32)
