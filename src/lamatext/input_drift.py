"""Input drift: how new texts differ from the validation texts of a saved model.

The shares of unknown words, of outliers and of each predicted label are compared. No text is kept:
the counts are collected batch by batch.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from lamatext.errors import DataError, ModelError
from lamatext.metrics import wilson_interval
from lamatext.outliers import OUTLIER, ValidationStatistics
from lamatext.runtime.predictor import Predictor

ERROR_RATE = 0.05  # probability that any share is marked as changed although nothing has changed


@dataclass(frozen=True, slots=True)
class DriftShare:
    """Drift of one share, such as that of unknown words, between validation and new texts."""

    name: str
    validation: float
    new: float
    low: float  # 95 % confidence interval of the new share
    high: float
    has_changed: bool  # more than chance explains, for all shares together


@dataclass(frozen=True, slots=True)
class Drift:
    """Input drift: how new texts differ from a model's validation texts."""

    texts: int
    words: int
    validation_texts: int
    unknown_words: DriftShare
    outliers: DriftShare
    labels: list[DriftShare]

    @property
    def shares(self) -> list[DriftShare]:
        """All measures of drift: the shares of unknown words, outliers and each label."""
        return [self.unknown_words, self.outliers, *self.labels]

    def as_dict(self) -> dict[str, object]:
        """Return the drift measures as a JSON-compatible dictionary."""
        return asdict(self)


def measure_drift(predictor: Predictor, batches: Iterable[Sequence[str]], source: str) -> Drift:
    """Measure how new texts (given in batches) have drifted from a model's validation texts.

    Raises:
        ModelError: the model was saved without statistics of its validation texts.
        DataError: there are no texts.
    """
    labels = np.zeros(len(predictor.classes_), np.int64)
    counts = _WordCounts()
    texts = outliers = 0
    for batch in batches:
        found = predictor.assess(batch)
        labels += predictor.count_labels(found.probabilities)
        outliers += int((found.outlier_scores >= OUTLIER).sum())
        texts += len(found.words)
        counts.add(found.words.astype(np.float64), found.unknown_words.astype(np.float64))
    validation = predictor.validation
    if validation is None:
        raise ModelError("this model has no statistics of its validation texts to compare with.")
    if not texts:
        raise DataError(f"{source}: no texts. Give texts to compare with the validation texts.")
    z = NormalDist().inv_cdf(1 - ERROR_RATE / 2 / (len(labels) + 2))
    sizes = texts, max(validation.texts, 1)
    names = [str(label) for label in predictor.classes_.tolist()]
    return Drift(
        texts=texts,
        words=int(counts.words),
        validation_texts=validation.texts,
        unknown_words=counts.compare(validation, texts, z),
        outliers=_compare("outliers", (outliers, (1 - OUTLIER) * sizes[1]), sizes, z),
        labels=[
            _compare(name, (int(new), old), sizes, z)
            for name, new, old in zip(names, labels, validation.labels, strict=True)
        ],
    )


class _WordCounts:
    """Counts of all words and of unknown words in new texts, for measuring drift.

    The words of a text are not independent of each other, so the standard error is computed from
    the counts of each text.
    """

    def __init__(self) -> None:
        self.words = self.unknown = 0.0
        self.squares = np.zeros(3)  # sums of unknown², unknown·words and words² over the texts

    def add(self, words: "np.ndarray", unknown: "np.ndarray") -> None:
        self.words += float(words.sum())
        self.unknown += float(unknown.sum())
        self.squares += [unknown @ unknown, unknown @ words, words @ words]

    def compare(self, validation: ValidationStatistics, texts: int, z: float) -> DriftShare:
        """Measure the drift in the share of unknown words, with a confidence interval."""
        share = self.unknown / max(self.words, 1.0)
        old = validation.unknown_words / max(validation.words, 1)
        squared = self.squares @ [1, -2 * share, share * share]
        error = math.sqrt(max(float(squared), 0.0)) / max(self.words, 1.0)
        low, high = max(share - 1.96 * error, 0.0), min(share + 1.96 * error, 1.0)
        both = error * math.sqrt(1 + texts / max(validation.texts, 1))
        return DriftShare("unknown words", old, share, low, high, abs(share - old) > z * both)


def _compare(
    name: str, counts: tuple[float, float], sizes: tuple[int, int], z: float
) -> DriftShare:
    """Measure the drift of one share between the validation texts and the new texts.

    ``counts`` and ``sizes`` are those of the new texts, then those of the validation texts.
    """
    new, old = counts[0] / sizes[0], counts[1] / sizes[1]
    pooled = (sum(counts) + 1) / (sum(sizes) + 2)
    error = math.sqrt(pooled * (1 - pooled) * (1 / sizes[0] + 1 / sizes[1]))
    low, high = wilson_interval(new, sizes[0])
    return DriftShare(name, old, new, low, high, abs(new - old) > z * error)
