"""Thresholds of a multi-label model: the probability from which each label is predicted.

They are chosen on validation data for a goal. If the probabilities are calibrated, F1 is largest at
a threshold of F*/2, where F* is that largest F1 (Lipton et al. 2014). The validation labels say how
many predictions are right, blended with what the probabilities themselves expect, because the best
of many thresholds on a few validation texts is best by luck. No threshold is below 1 %: a label
that was hardly learned would otherwise be predicted of many texts. Shapes: n texts, L labels.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]  # (n, L) or (n,)
Flags = NDArray[np.bool_]

Metric = Literal["micro-f1", "macro-f1"]

EXPECTED_TEXTS = 200.0  # texts with a label at which its labels and its probabilities weigh equal
MIN_THRESHOLD = 0.01


@dataclass(frozen=True, slots=True)
class LabelThresholds:
    """Probability threshold of each label, from which a multi-label model assigns the label."""

    values: NDArray[np.float32]  # (L,) each from 0 to 1
    is_indicator: bool = False  # answer with a matrix of 0 and 1 instead of lists of labels

    def decide(self, probabilities: Floats) -> Flags:
        """Return which labels each text has: those with a probability of at least the threshold."""
        decided: Flags = probabilities >= self.values
        return decided


class ThresholdGoal(NamedTuple):
    """Goal for which label thresholds are chosen: best micro-F1, macro-F1 or a precision."""

    metric: Metric = "macro-f1"
    min_precision: float | None = None  # instead of the metric


def choose_thresholds(
    probabilities: Floats,
    truth: Flags,
    goal: ThresholdGoal,
    label_weights: Floats | None = None,
) -> NDArray[np.float32]:
    """Choose the threshold of each label for a goal on validation data.

    Args:
        probabilities: calibrated, (n, L).
        truth: labels of the validation texts, (n, L).
        goal: a metric to maximize, or a precision to reach.
        label_weights: how much a text with the label counts, compared with one without it, (L,).

    Returns:
        The thresholds, (L,).
    """
    weights = np.ones(truth.shape[1]) if label_weights is None else label_weights
    if goal.min_precision is None and goal.metric == "micro-f1":
        gains = np.where(truth, weights, 0.0)
        best = _best_f1(_sorted(probabilities.ravel(), gains.ravel()))
        return np.full(truth.shape[1], best / 2, np.float32)
    thresholds = []
    for label, weight in enumerate(weights):
        ranking = _sorted(probabilities[:, label], np.where(truth[:, label], weight, 0.0))
        thresholds.append(
            _best_f1(ranking) / 2
            if goal.min_precision is None
            else _precise_threshold(ranking, goal.min_precision)
        )
    return np.maximum(np.array(thresholds, np.float32), np.float32(MIN_THRESHOLD))


class _Ranking(NamedTuple):
    """Texts ranked by their probability of one label, to choose the label's threshold."""

    probabilities: NDArray[np.float64]  # (n,)
    gains: NDArray[np.float64]  # (n,) weight of the texts that have the label, 0 for the others


def _sorted(probabilities: Floats, gains: NDArray[np.float64]) -> _Ranking:
    order = np.argsort(-probabilities, kind="stable")
    return _Ranking(probabilities[order].astype(np.float64), gains[order])


def _hits(ranking: _Ranking) -> NDArray[np.float64]:
    """Estimate for each k how many of the k most probable texts have the label.

    The counted number is blended with the number that the probabilities expect.
    """
    counted, expected = np.cumsum(ranking.gains), np.cumsum(ranking.probabilities)
    share = expected[-1] / (expected[-1] + EXPECTED_TEXTS)
    blended: NDArray[np.float64] = share * counted + (1 - share) * expected
    return blended


def _best_f1(ranking: _Ranking) -> float:
    hits = _hits(ranking)
    return float((2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])).max())


def _precise_threshold(ranking: _Ranking, precision: float) -> float:
    """Return the lowest threshold at which the estimated precision is high enough, or 1."""
    hits = _hits(ranking)
    precise = np.flatnonzero(hits / np.arange(1, len(hits) + 1) >= precision)
    return float(ranking.probabilities[precise[-1]]) if len(precise) else 1.0
