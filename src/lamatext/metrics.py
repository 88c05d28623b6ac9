"""Metrics of a classifier: accuracy, F1, log loss, confusion, calibration, accuracy over coverage.

The metrics of a multi-label model are micro- and macro-F1, average precision and Hamming loss. They
equal the metrics of scikit-learn. Everything is computed with numpy alone.

Shapes: n texts, C classes, L labels of a multi-label model.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of the reliability diagram and the calibration error
MIN_ANSWERED = 5  # percent of the texts that a threshold must leave answered
SIMULTANEOUS_Z = 3.02  # 95 % for 20 intervals together (Bonferroni); nearby thresholds correlate

FOLD_VARIANCE = 1.25  # variance of a cross-validated accuracy, over that on independent texts
ERROR_POWER = 0.35  # the error is proportional to n to the power of minus this, for n texts
RESAMPLES = 500  # of the confusion matrix, for the interval of macro-F1
MIN_CLASS_TEXTS = 10  # of every class, for an interval of macro-F1

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]  # class indices or counts
Flags = NDArray[np.bool_]


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
    """Metrics for a reliability diagram: mean confidence and accuracy in each confidence bin."""

    confidence: list[float]
    accuracy: list[float]
    texts: list[int]


@dataclass(frozen=True, slots=True)
class CoveragePoint:
    """Accuracy on the texts whose confidence (largest probability) reaches a threshold."""

    threshold: float
    answered: float  # share of the texts that reach it
    accuracy: float  # on the answered texts
    low: float  # 95 % confidence interval of the accuracy
    high: float

    def as_dict(self) -> dict[str, float]:
        """Return the metrics at this threshold as a JSON-compatible dictionary."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Scores:
    """All metrics of a classifier on a test set, as shown by ``lamatext evaluate``."""

    texts: int
    accuracy: float
    macro_f1: float  # mean over the classes that occur in the test set
    log_loss: float
    calibration_error: float
    classes: list[ClassScores]
    confusion: list[list[int]]  # [true][predicted]
    reliability: Reliability
    coverage: list[CoveragePoint]  # from the highest threshold to 0
    accuracy_interval: tuple[float, float]  # 95 % confidence interval
    macro_f1_interval: tuple[float, float] | None  # None if a class has too few texts for one
    folds: int = 0  # of the cross-validation; 0 for a test set

    def as_dict(self) -> dict[str, object]:
        """Return all metrics as a JSON-compatible dictionary."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Multi-label metrics of one label: precision, recall, F1 and average precision."""

    label: str
    precision: float
    recall: float
    f1: float
    average_precision: float
    texts: int


@dataclass(frozen=True, slots=True)
class MultiLabelScores:
    """All metrics of a multi-label model on a test set, defined as in scikit-learn.

    A ratio with denominator 0 counts as 0; means over labels include every label of the model.
    """

    texts: int
    micro_f1: float
    macro_f1: float
    mean_average_precision: float
    subset_accuracy: float  # share of texts whose labels are all right
    hamming_loss: float  # share of wrong entries in the label matrix
    calibration_error: float  # of the probabilities of all labels
    classes: list[LabelScores]
    reliability: Reliability
    micro_f1_interval: tuple[float, float]  # 95 % confidence interval
    folds: int = 0  # of the cross-validation; 0 for a test set

    @property
    def accuracy(self) -> float:
        """Subset accuracy, the usual accuracy metric of multi-label predictions."""
        return self.subset_accuracy

    def as_dict(self) -> dict[str, object]:
        """Return all multi-label metrics as a JSON-compatible dictionary."""
        return asdict(self)


AnyScores: TypeAlias = Scores | MultiLabelScores


def score_targets(
    labels: Sequence[object],
    truth: NDArray[Any],
    probabilities: Floats,
    predicted: Flags | None,
    *,
    folds: int = 0,
) -> AnyScores:
    """Compute all metrics of a single-label or multi-label model from its predictions.

    ``truth`` holds class indices (n,) if ``predicted`` is None; otherwise both are label matrices
    (n, L).
    """
    if predicted is None:
        return score(labels, truth.astype(np.int64), probabilities, folds=folds)
    return multi_label_score(labels, truth > 0, probabilities, predicted, folds=folds)


def score(
    labels: Sequence[object], truth: Numbers, probabilities: Floats, *, folds: int = 0
) -> Scores:
    """Compute all classification metrics from true classes and predicted probabilities.

    ``truth`` holds class indices (n,), ``probabilities`` is (n, C). ``folds`` is the number of
    folds if the probabilities are from cross-validation.
    """
    predicted = probabilities.argmax(axis=1)
    confusion = confusion_matrix(truth, predicted, len(labels))
    classes = per_class_scores(labels, confusion)
    present = [scores.f1 for scores in classes if scores.texts]
    true_probability = probabilities[np.arange(len(truth)), truth]
    if folds and true_probability.any():  # without texts of a class that a fold's model lacks
        true_probability = true_probability[true_probability > 0]
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
        coverage=accuracy_over_coverage(probabilities.max(axis=1), predicted == truth),
        accuracy_interval=accuracy_interval(float((predicted == truth).mean()), len(truth), folds),
        macro_f1_interval=macro_f1_interval(confusion, folds),
        folds=folds,
    )


def accuracy_interval(accuracy: float, texts: int, folds: int = 0) -> tuple[float, float]:
    """Compute the 95 % confidence interval of a test-set or cross-validated accuracy.

    For a test set it is the Wilson interval. The models of a cross-validation are trained on fewer
    texts than the final model and on mostly the same texts: the interval is widened by the variance
    between folds, and upwards by the expected gain from more texts. The error is assumed to be
    proportional to n^−0.35 for n training texts, as is typical of text classifiers.
    """
    if not folds:
        return wilson_interval(accuracy, texts)
    gained = 1 - (1 - accuracy) * remaining_error(folds)
    low, _ = wilson_interval(accuracy, independent_texts(texts, folds))
    _, high = wilson_interval(gained, independent_texts(texts, folds))
    return low, high


def macro_f1_interval(confusion: Numbers, folds: int = 0) -> tuple[float, float] | None:
    """Compute the 95 % confidence interval of macro-F1 by resampling the confusion matrix.

    For cross-validation it is widened like the interval of the accuracy. If no text is
    misclassified, resampling shows no variance, and the Wilson interval is used. If a class has
    fewer than ``MIN_CLASS_TEXTS`` texts, None is returned: the F1 of such a class is biased and
    hardly varies between resamples, so the interval would too rarely contain the true F1.
    """
    texts_of_class = confusion.sum(axis=1)
    if texts_of_class[texts_of_class > 0].min(initial=MIN_CLASS_TEXTS) < MIN_CLASS_TEXTS:
        return None
    true, predicted = np.nonzero(confusion)
    counts, total = confusion[true, predicted], int(confusion.sum())
    texts = independent_texts(total, folds)
    value, is_perfect = _macro_f1(true, predicted, counts), bool((true == predicted).all())
    draws = np.random.default_rng(0).multinomial(texts, counts / total, RESAMPLES)
    samples = [_macro_f1(true, predicted, draw) for draw in draws]
    low, high = np.quantile(samples, (0.025, 0.975))
    if folds:
        high = 1 - (1 - high) * remaining_error(folds)
    if is_perfect:
        low, high = wilson_interval(value, texts)
    return float(min(low, value)), float(max(high, value))


def _macro_f1(true: Numbers, predicted: Numbers, counts: Numbers) -> float:
    """Compute macro-F1 over the classes that occur, from the cells of a confusion matrix."""
    classes = int(max(true.max(), predicted.max())) + 1
    hits = np.bincount(true, counts * (true == predicted), classes)
    texts = np.bincount(true, counts, classes)
    f1 = 2 * hits / np.maximum(texts + np.bincount(predicted, counts, classes), 1)
    return float(f1[texts > 0].mean())


def independent_texts(texts: int, folds: int) -> int:
    """Return the effective number of independent texts in a cross-validated metric."""
    return max(1, round(texts / FOLD_VARIANCE)) if folds else texts


def remaining_error(folds: int) -> float:
    """Estimate the ratio of the error after training on all texts to the cross-validated error."""
    return float((1 - 1 / folds) ** ERROR_POWER)


def confusion_matrix(truth: Numbers, predicted: Numbers, classes: int) -> Numbers:
    """Compute the confusion matrix, with true classes as rows and predicted classes as columns."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes)


def per_class_scores(labels: Sequence[object], confusion: Numbers) -> list[ClassScores]:
    """Compute precision, recall and F1 of each class from a confusion matrix (0 if undefined)."""
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
    """Compute the reliability diagram: mean confidence and accuracy in each nonempty bin."""
    return reliability_by_confidence(
        probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    )


def reliability_by_confidence(confidence: Floats, correct: Flags) -> Reliability:
    """Compute the reliability diagram from the confidence and correctness of each prediction."""
    bin_of_text = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [np.flatnonzero(bin_of_text == number) for number in range(BINS)]
    bins = [rows for rows in bins if len(rows)]
    return Reliability(
        [float(confidence[rows].mean()) for rows in bins],
        [float(correct[rows].mean()) for rows in bins],
        [len(rows) for rows in bins],
    )


def merge_small_bins(reliability: Reliability) -> Reliability:
    """Merge adjacent confidence bins until each has at least 20 texts and 5 % of all texts."""
    least = max(20, sum(reliability.texts) // 20)
    merged: list[tuple[float, float, int]] = []  # sums of confidence and accuracy, texts
    bins = zip(reliability.confidence, reliability.accuracy, reliability.texts, strict=True)
    for confidence, accuracy, texts in bins:
        sums = (confidence * texts, accuracy * texts, texts)
        if merged and merged[-1][2] < least:
            sums = tuple(map(sum, zip(merged.pop(), sums, strict=True)))  # type: ignore[assignment]
        merged.append(sums)
    if len(merged) > 1 and merged[-1][2] < least:
        last = merged.pop()
        merged.append(tuple(map(sum, zip(merged.pop(), last, strict=True))))  # type: ignore[arg-type]
    return Reliability(
        [confidence / texts for confidence, _, texts in merged],
        [accuracy / texts for _, accuracy, texts in merged],
        [texts for _, _, texts in merged],
    )


def calibration_error(reliability: Reliability) -> float:
    """Compute the expected calibration error (ECE): the mean of |confidence − accuracy|."""
    texts = np.array(reliability.texts)
    gaps = np.abs(np.array(reliability.confidence) - np.array(reliability.accuracy))
    return float((gaps * texts).sum() / texts.sum())


def accuracy_over_coverage(confidence: Floats, correct: Flags) -> list[CoveragePoint]:
    """Compute the accuracy on the most confident 5 %, 6 %, …, 100 % of the texts.

    The 95 % intervals hold for all thresholds together, so a threshold may be chosen by looking at
    the accuracies: the interval of the chosen one still covers its accuracy on new texts.

    Args:
        confidence: largest probability of each text (n,).
        correct: whether the predicted class is the true one (n,).
    """
    order = np.argsort(-confidence, kind="stable")
    ascending, hits = confidence[order][::-1], np.cumsum(correct[order])
    points: list[CoveragePoint] = []
    for percent in range(MIN_ANSWERED, 101):
        kth = max(1, -(-len(order) * percent // 100))
        threshold = float(confidence[order[kth - 1]]) if percent < 100 else 0.0
        if points and threshold == points[-1].threshold:
            continue
        answered = len(order) - int(np.searchsorted(ascending, threshold))  # with those that tie
        accuracy = float(hits[answered - 1] / answered)
        interval = wilson_interval(accuracy, answered, z=SIMULTANEOUS_Z)
        points.append(CoveragePoint(threshold, answered / len(order), accuracy, *interval))
    return points


def find_threshold(coverage: Sequence[CoveragePoint], target: float) -> CoveragePoint | None:
    """Find the lowest confidence threshold that reaches the ``target`` accuracy, or return None."""
    return next((point for point in reversed(coverage) if point.accuracy >= target), None)


def wilson_interval(fraction: float, count: int, *, z: float = 1.96) -> tuple[float, float]:
    """Compute the Wilson confidence interval (95 % by default) of a fraction."""
    middle = (fraction + z * z / (2 * count)) / (1 + z * z / count)
    variance = fraction * (1 - fraction) / count + z * z / (4 * count**2)
    half = z * math.sqrt(variance) / (1 + z * z / count)
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return min(low, fraction), max(high, fraction)  # despite rounding


def multi_label_score(
    labels: Sequence[object],
    truth: Flags,
    probabilities: Floats,
    predicted: Flags,
    *,
    folds: int = 0,
) -> MultiLabelScores:
    """Compute all multi-label metrics from true labels, predicted labels and probabilities.

    ``folds`` is the number of folds if the probabilities are from cross-validation.
    """
    hits = (truth & predicted).sum(axis=0).astype(np.float64)
    positives, predictions = truth.sum(axis=0), predicted.sum(axis=0)
    f1 = 2 * hits / np.maximum(positives + predictions, 1)
    precisions = average_precisions(truth, probabilities)
    interval = micro_f1_interval(
        (truth & predicted).sum(axis=1), truth.sum(axis=1) + predicted.sum(axis=1), folds
    )
    reliability = reliability_by_confidence(probabilities.ravel(), truth.ravel())
    return MultiLabelScores(
        texts=len(truth),
        micro_f1=float(2 * hits.sum() / max(int(positives.sum() + predictions.sum()), 1)),
        macro_f1=float(f1.mean()),
        mean_average_precision=float(precisions.mean()),
        subset_accuracy=float((truth == predicted).all(axis=1).mean()),
        hamming_loss=float((truth != predicted).mean()),
        calibration_error=calibration_error(reliability),
        classes=[
            LabelScores(
                str(label),
                float(hits[i] / max(predictions[i], 1)),
                float(hits[i] / max(positives[i], 1)),
                float(f1[i]),
                float(precisions[i]),
                int(positives[i]),
            )
            for i, label in enumerate(labels)
        ],
        reliability=reliability,
        micro_f1_interval=interval,
        folds=folds,
    )


def micro_f1_interval(hits: Numbers, sizes: Numbers, folds: int = 0) -> tuple[float, float]:
    """Compute the 95 % confidence interval of micro-F1 by resampling the texts.

    For cross-validation it is widened like the interval of the accuracy. If all texts are alike,
    resampling shows no variance, and the Wilson interval is used.

    Args:
        hits: number of labels of each text that are predicted correctly (n,).
        sizes: number of true labels of each text plus number of its predicted labels (n,).
        folds: number of folds if the predictions are from cross-validation.
    """
    value = float(2 * hits.sum() / max(int(sizes.sum()), 1))
    texts = independent_texts(len(hits), folds)
    pairs, counts = np.unique(np.column_stack([hits, sizes]), axis=0, return_counts=True)
    generator = np.random.default_rng(0)
    sums = generator.multinomial(texts, counts / len(hits), RESAMPLES) @ pairs  # (R, 2)
    low, high = np.quantile(2 * sums[:, 0] / np.maximum(sums[:, 1], 1), (0.025, 0.975))
    if low == high:
        low, high = wilson_interval(value, texts)
    if folds:
        high = 1 - (1 - high) * remaining_error(folds)
    return float(min(low, value)), float(max(high, value))


def average_precisions(truth: Flags, scores: NDArray[np.floating[Any]]) -> Floats:
    """Compute the average precision of each label in multi-label predictions.

    It is Σₖ (Rₖ − Rₖ₋₁) Pₖ over the distinct scores, with precision Pₖ and recall Rₖ; 0 for a label
    that no text has. The shape is (L,).
    """
    return np.array([_average_precision(truth[:, i], scores[:, i]) for i in range(truth.shape[1])])


def mean_present_precision(truth: Flags, scores: NDArray[np.floating[Any]]) -> float:
    """Compute the mean average precision over all labels that occur in the texts (0 if none).

    It is the validation score of a multi-label model, since validation texts may lack rare labels.
    """
    precisions = average_precisions(truth, scores)[truth.any(axis=0)]
    return float(precisions.mean()) if len(precisions) else 0.0


def _average_precision(truth: Flags, scores: NDArray[np.floating[Any]]) -> float:
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # last of each score
    if not len(order) or not hits[-1]:
        return 0.0
    precision, recall = hits[ends] / (ends + 1), hits[ends] / hits[-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())
