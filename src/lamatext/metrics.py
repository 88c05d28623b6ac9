"""Metrics of a classifier: accuracy, F1, log loss, confusion matrix and calibration error.

Everything is computed with numpy alone.  Shapes: n texts, C classes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of the reliability diagram and the calibration error

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]  # class indices or counts


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Metrics of one class: precision, recall, F1 and number of texts."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """Reliability diagram metrics: mean confidence and accuracy in each confidence bin."""

    confidence: list[float]
    accuracy: list[float]
    texts: list[int]


@dataclass(frozen=True, slots=True)
class Scores:
    """All metrics of a classifier on a test set, as ``lamatext evaluate`` shows them."""

    texts: int
    accuracy: float
    macro_f1: float  # mean over the classes that occur in the test set
    log_loss: float
    calibration_error: float
    classes: list[ClassScores]
    confusion: list[list[int]]  # [true][predicted]
    reliability: Reliability

    def as_dict(self) -> dict[str, object]:
        """Return all metrics as a JSON-compatible dictionary."""
        return asdict(self)


def score(labels: Sequence[object], truth: Numbers, probabilities: Floats) -> Scores:
    """Compute all classification metrics from true classes and predicted probabilities.

    ``truth`` holds class indices (n,), ``probabilities`` is (n, C).
    """
    predicted = probabilities.argmax(axis=1)
    confusion = confusion_matrix(truth, predicted, len(labels))
    classes = per_class_scores(labels, confusion)
    present = [scores.f1 for scores in classes if scores.texts]
    true_probability = probabilities[np.arange(len(truth)), truth]
    reliability = measure_reliability(truth, probabilities)
    return Scores(
        texts=len(truth),
        accuracy=float((predicted == truth).mean()),
        macro_f1=float(np.mean(present)),
        log_loss=float(-np.log(np.clip(true_probability, 1e-12, None)).mean()),
        calibration_error=calibration_error(reliability),
        classes=classes,
        confusion=confusion.tolist(),
        reliability=reliability,
    )


def confusion_matrix(truth: Numbers, predicted: Numbers, classes: int) -> Numbers:
    """Compute the confusion matrix, with true classes as rows and predicted classes as columns."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def per_class_scores(labels: Sequence[object], confusion: Numbers) -> list[ClassScores]:
    """Compute the precision, recall and F1 of each class from the confusion matrix.

    A ratio with denominator 0 counts as 0.
    """
    hits = np.diag(confusion).astype(np.float64)
    predicted, texts = confusion.sum(axis=0), confusion.sum(axis=1)
    precision = hits / np.maximum(predicted, 1)
    recall = hits / np.maximum(texts, 1)
    f1 = 2 * hits / np.maximum(predicted + texts, 1)
    return [
        ClassScores(str(label), float(precision[i]), float(recall[i]), float(f1[i]), int(texts[i]))
        for i, label in enumerate(labels)
    ]


def measure_reliability(truth: Numbers, probabilities: Floats) -> Reliability:
    """Compute reliability metrics: mean confidence and accuracy in each confidence bin.

    There are ``BINS`` bins of equal width; empty bins are left out.
    """
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == truth
    bin_of_text = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [np.flatnonzero(bin_of_text == number) for number in range(BINS)]
    bins = [rows for rows in bins if len(rows)]
    return Reliability(
        [float(confidence[rows].mean()) for rows in bins],
        [float(correct[rows].mean()) for rows in bins],
        [len(rows) for rows in bins],
    )


def calibration_error(reliability: Reliability) -> float:
    """Compute the expected calibration error (ECE) from the reliability metrics.

    It is the mean of |confidence − accuracy| over the texts.
    """
    texts = np.array(reliability.texts)
    gaps = np.abs(np.array(reliability.confidence) - np.array(reliability.accuracy))
    return float((gaps * texts).sum() / texts.sum())
