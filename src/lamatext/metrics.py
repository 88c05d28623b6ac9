"""Scores of a classifier, in numpy alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of the reliability figure and the calibration error

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClassScores:
    """How well one class is told from the others."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """Texts grouped by how sure the model was: what it promised and what came true."""

    confidence: list[float]
    accuracy: list[float]
    texts: list[int]


@dataclass(frozen=True, slots=True)
class Scores:
    """What ``lamatext evaluate`` shows."""

    texts: int
    accuracy: float
    macro_f1: float
    log_loss: float
    calibration_error: float
    classes: list[ClassScores]
    confusion: list[list[int]]  # [true][predicted]
    reliability: Reliability

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self)


def score(labels: Sequence[object], truth: Numbers, probabilities: Floats) -> Scores:
    """Score class numbers (n,) against probabilities (n, C)."""
    predicted = probabilities.argmax(axis=1)
    confusion = confusion_matrix(truth, predicted, len(labels))
    classes = per_class(labels, confusion)
    present = [scores.f1 for scores in classes if scores.texts]
    right = probabilities[np.arange(len(truth)), truth]
    reliability = reliability_of(truth, probabilities)
    return Scores(
        texts=len(truth),
        accuracy=float((predicted == truth).mean()),
        macro_f1=float(np.mean(present)),
        log_loss=float(-np.log(np.clip(right, 1e-12, None)).mean()),
        calibration_error=calibration_error(reliability),
        classes=classes,
        confusion=confusion.tolist(),
        reliability=reliability,
    )


def confusion_matrix(truth: Numbers, predicted: Numbers, classes: int) -> Numbers:
    """Texts by true class (rows) and predicted class (columns)."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def per_class(labels: Sequence[object], confusion: Numbers) -> list[ClassScores]:
    """Precision, recall and F1 of each class; 0 where a ratio has nothing below the line."""
    hits = np.diag(confusion).astype(np.float64)
    called, texts = confusion.sum(axis=0), confusion.sum(axis=1)
    precision = hits / np.maximum(called, 1)
    recall = hits / np.maximum(texts, 1)
    f1 = 2 * hits / np.maximum(called + texts, 1)
    return [
        ClassScores(str(label), float(precision[i]), float(recall[i]), float(f1[i]), int(texts[i]))
        for i, label in enumerate(labels)
    ]


def reliability_of(truth: Numbers, probabilities: Floats) -> Reliability:
    """Confidence and accuracy in ``BINS`` equal steps of confidence; empty steps left out."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == truth
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows = [np.flatnonzero(place == step) for step in range(BINS)]
    rows = [row for row in rows if len(row)]
    return Reliability(
        [float(confidence[row].mean()) for row in rows],
        [float(right[row].mean()) for row in rows],
        [len(row) for row in rows],
    )


def calibration_error(reliability: Reliability) -> float:
    """ECE: the mean gap between promise and outcome, weighted by texts."""
    texts = np.array(reliability.texts)
    gaps = np.abs(np.array(reliability.confidence) - np.array(reliability.accuracy))
    return float((gaps * texts).sum() / texts.sum())
