"""Parity of two versions of a model: largest differences of their outputs on the same texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lamatext.runtime.engine import Engine, Floats, Ids
from lamatext.runtime.predictor import Predictor

Batch = tuple[Ids, Ids]  # ids (B, T) and lengths (B,)

TEXTS = 200
LONGEST = 200  # words
INVISIBLE = 1e-3  # a difference that nobody can see on a page


@dataclass(frozen=True, slots=True)
class EngineParity:
    """Parity of two engines: their largest difference on some batches."""

    texts: int
    difference: float
    """Of a word's attention weight, or of a logit divided by the largest logit."""
    changed: int
    """Texts for which the most probable label differs."""


@dataclass(frozen=True, slots=True)
class PredictorParity:
    """Parity of two predictors: their largest differences on some texts."""

    texts: int
    probabilities: float
    weights: float | None  # of a word in a head; None for a system without attention
    changed: int  # texts for which the most probable label differs

    @property
    def holds(self) -> bool:
        """Whether parity holds: no visible difference, and no other label for any text."""
        return max(self.probabilities, self.weights or 0.0) <= INVISIBLE and not self.changed

    def __str__(self) -> str:
        weights = "" if self.weights is None else f", an attention weight by {self.weights:.1g}"
        return (
            f"on {self.texts} texts a probability differs by at most {self.probabilities:.1g}"
            f"{weights}; another label on {self.changed}"
        )


def compare_engines(engine: Engine, reference: Engine, batches: Iterable[Batch]) -> EngineParity:
    """Measure the parity of two engines in their logits and attention weights."""
    texts, difference, changed = 0, 0.0, 0
    for ids, lengths in batches:
        ours, theirs = engine.run(ids, lengths), reference.run(ids, lengths)
        largest = max(1.0, float(np.abs(theirs.logits).max()))
        differences = [difference, _difference(ours.logits, theirs.logits) / largest]
        if ours.weights is not None and theirs.weights is not None:
            differences.append(_difference(ours.weights, theirs.weights))
        difference = float(np.max(differences))  # NaN if one is NaN
        changed += int((ours.logits.argmax(axis=1) != theirs.logits.argmax(axis=1)).sum())
        texts += len(ids)
    return EngineParity(texts, difference, changed)


def compare_predictors(
    predictor: Predictor, reference: Predictor, texts: Sequence[str]
) -> PredictorParity:
    """Measure the parity of two predictors with the same vocabulary."""
    ours, theirs = predictor.predict_proba(texts), reference.predict_proba(texts)
    return PredictorParity(
        texts=len(texts),
        probabilities=_difference(ours, theirs),
        weights=_weights_difference(predictor, reference, texts),
        changed=int((ours.argmax(axis=1) != theirs.argmax(axis=1)).sum()),
    )


def random_texts(words: Sequence[str], *, texts: int = TEXTS) -> list[str]:
    """Generate texts for a parity check: 1 to ``LONGEST`` words, earlier ``words`` more often."""
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
    return max(differences)
