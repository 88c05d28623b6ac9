"""Thresholds of a multi-label model: the minimum probability at which it predicts each label.

They are chosen on validation data for a goal. If the probabilities are calibrated, F1 is largest at
a threshold of F*/2, where F* is that largest F1 (Lipton et al. 2014). The number of correct
predictions is counted with the validation labels and blended with the number that the probabilities
predict: the best of many thresholds on a few validation texts would be best by luck.

For a label that was hardly learned, F1 is largest if nearly every text gets it. Lower limits
prevent that: 1 %; odds of 1 + 5/k times the label's mean probability, where k training and
validation texts have the label; and a little more than the probability of a text without known
words, so that a text without evidence never gets a label that fewer than a tenth of the texts have.
Shapes: n texts, L labels.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import plural
from lamatext.probabilities import sigmoid

Floats = NDArray[np.floating]  # (n, L) or (n,)
Flags = NDArray[np.bool_]

Metric = Literal["micro-f1", "macro-f1"]
LabelForm = Literal["lists", "sets", "indicator"]  # indicator: a matrix of 0 and 1

EXPECTED_TEXTS = 200.0  # texts with a label at which counted and predicted numbers weigh the same
MIN_THRESHOLD = 0.01
RARE_TEXTS = 5.0  # texts with a label at which its threshold is at least about twice its mean
MAX_LOWER_LIMIT = 0.5
RARE_SHARE = 0.1  # mean probability below which a text without evidence does not get a label
EVIDENCE = 0.2  # least logit of such a label, minus that of a text without evidence
NEVER = 1.0  # threshold of a label that is never predicted
MAX_THRESHOLD = float(np.nextafter(np.float32(NEVER), np.float32(0)))  # of the other labels
ASSUMED_TEXTS = 10.0  # texts that the probabilities count as, in the precision of a label
MAX_RISK = 0.05  # probability that a label's precision is below the one that was asked for


@dataclass(frozen=True, slots=True)
class LabelThresholds:
    """Probability thresholds at which a multi-label model assigns each label."""

    values: NDArray[np.float32]  # (L,) each from 0 to 1; with 1, the label is never predicted
    form: LabelForm = "lists"  # of the labels in training, and of the answers

    def decide(self, probabilities: Floats) -> Flags:
        """Return a mask of the labels whose probabilities reach their thresholds."""
        return reaches_threshold(probabilities, self.values)


def reaches_threshold(probabilities: Floats, thresholds: Floats) -> Flags:
    """Return a mask of the label probabilities that reach their label's threshold.

    A threshold of 1 is never reached, not even by a probability of 1.
    """
    reached: Flags = (probabilities >= thresholds) & (thresholds < NEVER)
    return reached


def decide_classes(probabilities: Floats, thresholds: LabelThresholds | None) -> Flags:
    """Return a mask of the predicted labels, according to the label thresholds if there are any.

    If ``thresholds`` is None, the most probable class of each text is predicted.
    """
    if thresholds is not None:
        return thresholds.decide(probabilities.astype(np.float32))
    decided = np.zeros(probabilities.shape, np.bool_)
    decided[np.arange(len(decided)), probabilities.argmax(axis=1)] = True
    return decided


class ThresholdGoal(NamedTuple):
    """Goal for choosing label thresholds, such as the best micro-F1 or a minimum precision."""

    metric: Metric = "macro-f1"
    min_precision: float | None = None  # instead of the metric


def choose_thresholds(
    probabilities: Floats,
    truth: Flags,
    goal: ThresholdGoal,
    *,
    labelled_texts: Floats | None = None,
    label_weights: Floats | None = None,
    without_evidence: Floats | None = None,
) -> NDArray[np.float32]:
    """Choose label thresholds on validation data that maximize F1 or reach a minimum precision.

    Args:
        probabilities: calibrated, (n, L).
        truth: labels of the validation texts, (n, L).
        goal: a metric to maximize, or a precision to reach.
        labelled_texts: number of training and validation texts with each label, (L,); None means
            many.
        label_weights: how much a text with the label counts, compared with one without it, (L,).
        without_evidence: logits of a text without known words, (L,).

    Returns:
        The thresholds, (L,); ``NEVER`` for a label that cannot reach the precision.
    """
    weights = np.ones(truth.shape[1]) if label_weights is None else label_weights
    if goal.min_precision is not None:
        thresholds = [
            _precise_threshold(probabilities[:, label], truth[:, label], goal.min_precision, weight)
            for label, weight in enumerate(weights)
        ]
        return np.array(thresholds, np.float32)
    gains = np.where(truth, weights, 0.0)
    if goal.metric == "micro-f1":
        best = _best_f1(_sorted(probabilities.ravel(), gains.ravel()))
        return np.full(truth.shape[1], best / 2, np.float32)
    best_f1 = [
        _best_f1(_sorted(*columns)) for columns in zip(probabilities.T, gains.T, strict=True)
    ]
    texts = np.inf if labelled_texts is None else np.maximum(labelled_texts, 1)
    shares = probabilities.mean(axis=0)
    odds = shares * (1 + RARE_TEXTS / texts)
    limits = odds / (1 + odds)
    if without_evidence is not None:
        least = sigmoid(without_evidence + EVIDENCE)
        limits = np.where(shares < RARE_SHARE, np.maximum(limits, least), limits)
    limits = np.clip(limits, MIN_THRESHOLD, MAX_LOWER_LIMIT)
    return np.asarray(np.maximum(np.array(best_f1) / 2, limits), np.float32)


class _Ranking(NamedTuple):
    """Texts ranked by their probability of one label, for choosing its threshold."""

    probabilities: NDArray[np.float64]  # (n,)
    gains: NDArray[np.float64]  # (n,) weight of the texts that have the label, 0 for the others


def _sorted(probabilities: Floats, gains: NDArray[np.float64]) -> _Ranking:
    order = np.argsort(-probabilities, kind="stable")
    return _Ranking(probabilities[order].astype(np.float64), gains[order])


def _hits(ranking: _Ranking) -> NDArray[np.float64]:
    """Estimate how many of the k top-ranked texts have the label, for every k.

    The counted number is blended with the number that the probabilities expect.
    """
    counted, expected = np.cumsum(ranking.gains), np.cumsum(ranking.probabilities)
    share = expected[-1] / (expected[-1] + EXPECTED_TEXTS)
    blended: NDArray[np.float64] = share * counted + (1 - share) * expected
    return blended


def _best_f1(ranking: _Ranking) -> float:
    hits = _hits(ranking)
    return float((2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])).max())


def _precise_threshold(
    probabilities: Floats, truth: Flags, precision: float, weight: float
) -> float:
    """Return the lowest threshold with sufficient precision for a label, or ``NEVER``.

    The precision of the k most probable texts has a Beta distribution: the counted texts are added
    to ``ASSUMED_TEXTS`` that are right as often as the probabilities say. The precision is
    sufficient if it is below ``precision`` with a probability of at most ``MAX_RISK``.
    """
    from scipy.special import betainc  # only when training

    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order].astype(np.float64)
    expected = ranked / (ranked + weight * (1 - ranked))  # probabilities of texts without weights
    predicted = np.arange(1, len(ranked) + 1)
    right = np.cumsum(truth[order])
    mean = np.clip(np.cumsum(expected) / predicted, 1e-6, 1 - 1e-6)
    risk = betainc(
        right + ASSUMED_TEXTS * mean, predicted - right + ASSUMED_TEXTS * (1 - mean), precision
    )
    is_last = np.append(np.diff(ranked) != 0, True)  # of the texts with the same probability
    precise = np.flatnonzero((risk <= MAX_RISK) & is_last)
    return min(float(ranked[precise[-1]]), MAX_THRESHOLD) if len(precise) else NEVER


def warn_of_labels_without_threshold(
    labels: Sequence[object], thresholds: Floats, precision: float
) -> None:
    """Warn about labels for which no threshold reaches the required precision."""
    never = [str(label) for label, value in zip(labels, thresholds, strict=True) if value >= NEVER]
    if never:
        warnings.warn(
            f"{plural(len(never), 'label')} of {len(labels)} cannot reach a precision of "
            f"{precision:g} on the validation texts and will never be predicted: "
            f"{', '.join(never[:10])}{', ...' if len(never) > 10 else ''}. Add texts with these "
            "labels, or lower min_precision (--min-precision).",
            stacklevel=2,
        )
