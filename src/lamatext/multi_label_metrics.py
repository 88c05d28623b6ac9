"""Metrics of a multi-label model: micro- and macro-F1, average precision, Hamming loss.

They equal those of scikit-learn and are computed with numpy alone.  Shapes: n texts, L labels.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lamatext.metrics import (
    RESAMPLES,
    Floats,
    Numbers,
    Reliability,
    Scores,
    calibration_error,
    independent_texts,
    reliability_by_confidence,
    remaining_error,
    wilson_interval,
)

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Multi-label metrics of one label, at its threshold and over all thresholds."""

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

    It is widened for cross-validation as the interval of the accuracy is. If all texts are alike,
    resampling shows no variance, and it is the Wilson interval.

    Args:
        hits: number of labels of each text that are predicted correctly (n,).
        sizes: number of true labels of each text plus that of the predicted ones (n,).
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

    It is the validation score of a multi-label model: some labels may be too rare to be there.
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
