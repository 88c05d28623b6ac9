"""Multi-label metrics against scikit-learn's functions."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as sk

from lamatext.metrics import average_precisions, multi_label_score

DRAW = np.random.default_rng(0)
TRUTH = DRAW.random((300, 7)) < np.array([0.5, 0.3, 0.2, 0.1, 0.05, 0.01, 0.9])
MIXED: NDArray[np.float64] = np.where(TRUTH, 0.35, 0.0) + 0.7 * DRAW.random((300, 7))
PROBABILITIES = np.array(np.clip(MIXED, 0, 1).round(2), np.float64)  # with ties
PREDICTED = np.array([0.5, 0.5, 0.6, 0.7, 0.4, 1.1, 0.2]) <= PROBABILITIES  # one never predicted
LABELS = list("abcdefg")


def test_every_score_equals_that_of_scikit_learn() -> None:
    scores = multi_label_score(LABELS, TRUTH, PROBABILITIES, PREDICTED)

    truth, predicted = TRUTH.astype(int), PREDICTED.astype(int)
    expected = {
        "micro_f1": sk.f1_score(truth, predicted, average="micro"),
        "macro_f1": sk.f1_score(truth, predicted, average="macro", zero_division=0),
        "mean_average_precision": sk.average_precision_score(truth, PROBABILITIES),
        "subset_accuracy": sk.accuracy_score(truth, predicted),
        "hamming_loss": sk.hamming_loss(truth, predicted),
    }
    for name, value in expected.items():
        assert getattr(scores, name) == pytest.approx(value, abs=1e-9), name


def test_the_scores_of_each_label_equal_those_of_scikit_learn() -> None:
    scores = multi_label_score(LABELS, TRUTH, PROBABILITIES, PREDICTED)

    precision, recall, f1, support = sk.precision_recall_fscore_support(
        TRUTH.astype(int), PREDICTED.astype(int), zero_division=0
    )
    for i, row in enumerate(scores.classes):
        assert row.label == LABELS[i]
        assert (row.precision, row.recall, row.f1) == pytest.approx(
            (precision[i], recall[i], f1[i]), abs=1e-9
        )
        assert row.texts == support[i]
        own = sk.average_precision_score(TRUTH[:, i], PROBABILITIES[:, i])
        assert row.average_precision == pytest.approx(own, abs=1e-9)


def test_a_label_that_no_text_has_scores_0() -> None:
    truth = np.zeros((4, 1), bool)

    assert average_precisions(truth, np.arange(4.0)[:, None]).tolist() == [0.0]


def test_perfect_predictions_score_1() -> None:
    scores = multi_label_score(LABELS, TRUTH, TRUTH.astype(float), TRUTH)

    assert scores.micro_f1 == scores.macro_f1 == scores.mean_average_precision == 1
    assert scores.subset_accuracy == 1
    assert scores.hamming_loss == scores.calibration_error == 0


def test_the_interval_of_micro_f1_holds_for_new_texts() -> None:
    everything = multi_label_score(LABELS, TRUTH, PROBABILITIES, PREDICTED).micro_f1
    holds = []
    for seed in range(200):
        rows = np.random.default_rng(seed).integers(len(TRUTH), size=60)
        scores = multi_label_score(LABELS, TRUTH[rows], PROBABILITIES[rows], PREDICTED[rows])
        low, high = scores.micro_f1_interval
        assert low <= scores.micro_f1 <= high
        holds.append(low <= everything <= high)

    assert 0.91 <= np.mean(holds) <= 0.99


def test_perfect_predictions_of_few_texts_have_an_interval() -> None:
    scores = multi_label_score(LABELS, TRUTH[:4], TRUTH[:4].astype(float), TRUTH[:4])

    low, high = scores.micro_f1_interval
    assert low == pytest.approx(0.51, abs=0.01)
    assert high == 1


def test_the_interval_of_a_cross_validation_is_wider_and_allows_for_more_training_texts() -> None:
    held_out = multi_label_score(LABELS, TRUTH, PROBABILITIES, PREDICTED)
    folded = multi_label_score(LABELS, TRUTH, PROBABILITIES, PREDICTED, folds=5)

    low, high = held_out.micro_f1_interval
    assert folded.micro_f1 == held_out.micro_f1
    assert folded.micro_f1_interval[0] < low
    assert folded.micro_f1_interval[1] > high + 0.02 * (1 - high)
    assert folded.folds == 5


def test_texts_without_labels_and_predictions_have_a_score_of_0_and_an_interval() -> None:
    nothing = np.zeros((5, 7), bool)

    scores = multi_label_score(LABELS, nothing, nothing.astype(float), nothing)

    assert scores.micro_f1_interval[0] == scores.micro_f1 == 0
    assert scores.micro_f1_interval[1] > 0.3
