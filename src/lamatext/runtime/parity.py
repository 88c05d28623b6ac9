"""Parity of two model versions: the largest differences between their outputs on the same texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lamatext.label_thresholds import decide_classes
from lamatext.runtime.engine import Floats
from lamatext.runtime.predictor import Predictor

TEXTS = 200
LONGEST = 200  # words
INVISIBLE = 1e-3  # a difference that is invisible on a page


@dataclass(frozen=True, slots=True)
class Parity:
    """Result of a parity check: the largest differences between the outputs of two predictors."""

    texts: int
    logits: float  # divided by the largest logit of the reference
    probabilities: float
    weights: float | None  # attention weights; None for a network without attention
    changed: int  # texts for which a predicted label differs

    @property
    def holds(self) -> bool:
        """Whether parity holds: all predicted labels are equal and no output differs noticeably."""
        largest = np.max([self.probabilities, self.weights or 0.0])
        return bool(largest <= INVISIBLE) and not self.changed

    @property
    def difference(self) -> float:
        """Largest difference in logits or attention weights found by the parity check."""
        return float(np.max([self.logits, self.weights or 0.0]))

    def __str__(self) -> str:
        weights = "" if self.weights is None else f", an attention weight by {self.weights:.1g}"
        return (
            f"on {self.texts} texts a probability differs by at most {self.probabilities:.1g}"
            f"{weights}; another label on {self.changed}"
        )


def measure_parity(predictor: Predictor, reference: Predictor, texts: Sequence[str]) -> Parity:
    """Measure the parity of a predictor with a reference predictor on the given texts."""
    ours, theirs = predictor.logits(texts), reference.logits(texts)
    probabilities = predictor.probabilities(ours), reference.probabilities(theirs)
    labels = (
        decide_classes(probabilities[0], predictor.thresholds),
        decide_classes(probabilities[1], reference.thresholds),
    )
    return Parity(
        texts=len(texts),
        logits=_difference(ours, theirs) / max(1.0, float(np.abs(theirs).max())),
        probabilities=_difference(*probabilities),
        weights=_weights_difference(predictor, reference, texts),
        changed=int((labels[0] != labels[1]).any(axis=1).sum()),
    )


def random_texts(words: Sequence[str], *, texts: int = TEXTS) -> list[str]:
    """Generate random texts with Zipf-distributed words for a parity check."""
    vocabulary = words or ["word"]  # a model's vocabulary may be empty
    draws = np.random.default_rng(0).zipf(1.3, (texts, LONGEST))
    indices = np.minimum(draws, len(vocabulary)) - 1
    lengths = np.geomspace(1, LONGEST, texts).round().astype(int)
    return [
        " ".join(vocabulary[index] for index in row[:length])
        for row, length in zip(indices, lengths, strict=True)
    ]


def _difference(ours: Floats, theirs: Floats) -> float:
    return float(np.abs(ours - theirs).max())


def _weights_difference(
    predictor: Predictor, reference: Predictor, texts: Sequence[str]
) -> float | None:
    differences = []
    for text in texts:
        ids, _ = reference.encoder.encode_with_spans(text)
        batch = ids[None, :], np.array([len(ids)], np.int32)
        ours, theirs = predictor.engine.run(*batch).weights, reference.engine.run(*batch).weights
        if ours is None or theirs is None:
            return None
        differences.append(_difference(ours, theirs))
    return float(np.max(differences))
