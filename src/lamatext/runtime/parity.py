"""How far two predictors are apart in what they say of the same texts, and in their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lamatext.runtime.predictor import Predictor

TEXTS = 200
LONGEST = 200  # words
SMALL = 1e-3  # a difference that no one who looks at a page can see


@dataclass(frozen=True, slots=True)
class Agreement:
    """The largest differences on some texts."""

    texts: int
    probabilities: float
    weights: float | None  # of a word in a head; None where there is no attention
    changed: int  # texts whose most probable label is another

    @property
    def holds(self) -> bool:
        """Whether the two say the same, as far as anyone can see."""
        return max(self.probabilities, self.weights or 0.0) <= SMALL and not self.changed

    def __str__(self) -> str:
        weights = "" if self.weights is None else f", a word's weight by {self.weights:.1g}"
        return (
            f"on {self.texts} texts a probability differs by at most {self.probabilities:.1g}"
            f"{weights}; another label on {self.changed}"
        )


def agreement(ours: Predictor, theirs: Predictor, texts: Sequence[str]) -> Agreement:
    """How far ``ours`` is from ``theirs``; both read the same words."""
    found, expected = ours.predict_proba(texts), theirs.predict_proba(texts)
    return Agreement(
        texts=len(texts),
        probabilities=float(np.abs(found - expected).max()),
        weights=_weights_gap(ours, theirs, texts),
        changed=int((found.argmax(axis=1) != expected.argmax(axis=1)).sum()),
    )


def made_up_texts(words: Sequence[str], *, texts: int = TEXTS) -> list[str]:
    """Texts of one word to ``LONGEST``, the first of ``words`` more often than the last."""
    known = words or ["word"]  # a model may know none
    places = np.minimum(np.random.default_rng(0).zipf(1.3, (texts, LONGEST)), len(known)) - 1
    lengths = np.geomspace(1, LONGEST, texts).round().astype(int)
    return [
        " ".join(known[place] for place in row[:length])
        for row, length in zip(places, lengths, strict=True)
    ]


def _weights_gap(ours: Predictor, theirs: Predictor, texts: Sequence[str]) -> float | None:
    gaps = []
    for text in texts:
        ids, _ = theirs.encoder.encode_with_spans(text)
        batch = ids[None, :], np.array([len(ids)], np.int32)
        found, expected = ours.engine.run(*batch).weights, theirs.engine.run(*batch).weights
        if found is None or expected is None:
            return None
        gaps.append(np.abs(found - expected).max())
    return float(np.max(gaps))
