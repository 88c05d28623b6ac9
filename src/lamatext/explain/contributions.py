"""Contribution of each word of a text to the logit of each class, for attention networks.

The classifier head is piecewise linear, so at the text embedding S the logit of class c equals
Σⱼ sⱼ·gⱼ plus a constant, with gⱼ = ∂logit_c/∂sⱼ. Head j computes sⱼ = Σₜ αⱼₜ hₜ, so word t
contributes Σⱼ αⱼₜ hₜ·gⱼ. The contributions of all words and one constant, the base, add up to the
logit exactly. Shapes: T words, D state width, M heads, C classes.
"""

from typing import NamedTuple

import numpy as np

from lamatext.explain.classifier_head import ClassifierHead, Floats


class Contributions(NamedTuple):
    """Contributions of the words of one text to each class logit, and a constant term per class.

    ``contributions.sum(axis=1) + base`` equals the logits.
    """

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
