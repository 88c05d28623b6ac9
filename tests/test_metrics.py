import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as theirs

from lamatext.metrics import (
    BINS,
    Reliability,
    accuracy_interval,
    accuracy_over_coverage,
    find_threshold,
    macro_f1_interval,
    merge_small_bins,
    per_class_scores,
    score,
    wilson_interval,
)


def made_up(texts: int, classes: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, texts)
    logits = draw.normal(size=(texts, classes)) + 2 * np.eye(classes)[truth]
    powers = np.exp(logits)
    return truth, powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("texts", "classes"), [(500, 2), (300, 7), (40, 5), (6, 5)])
def test_metrics_equal_those_of_scikit_learn(texts: int, classes: int) -> None:
    truth, probabilities = made_up(texts, classes, seed=texts)
    labels = [f"c{number}" for number in range(classes)]

    ours = score(labels, truth, probabilities)

    predicted, numbers = probabilities.argmax(axis=1), list(range(classes))
    assert ours.texts == texts
    assert ours.accuracy == pytest.approx(theirs.accuracy_score(truth, predicted))
    assert ours.log_loss == pytest.approx(theirs.log_loss(truth, probabilities, labels=numbers))
    assert ours.confusion == theirs.confusion_matrix(truth, predicted, labels=numbers).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        present = sorted(set(truth.tolist()))
        macro = theirs.f1_score(truth, predicted, labels=present, average="macro")
        columns = theirs.precision_recall_fscore_support(truth, predicted, labels=numbers)
    assert ours.macro_f1 == pytest.approx(macro)
    for found, precision, recall, f1, support in zip(ours.classes, *columns, strict=True):
        assert (found.precision, found.recall, found.f1, found.texts) == pytest.approx(
            (precision, recall, f1, support)
        )


def test_calibration_error_equals_the_definition_written_as_a_loop() -> None:
    truth, probabilities = made_up(400, 3, seed=1)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    expected = 0.0
    for step in range(BINS):
        inside = (confidence >= step / BINS) & (confidence < (step + 1) / BINS)
        if inside.any():
            gap = abs(confidence[inside].mean() - right[inside].mean())
            expected += gap * inside.mean()

    assert score(["a", "b", "c"], truth, probabilities).calibration_error == pytest.approx(expected)


def test_correct_predictions_with_probability_one_have_no_calibration_error() -> None:
    found = score(["a", "b"], np.array([0, 1, 1]), np.array([[1.0, 0], [0, 1], [0, 1]]))

    assert found.calibration_error == 0
    assert found.log_loss == 0
    assert found.reliability.texts == [3]


def test_a_probability_of_zero_does_not_make_the_log_loss_infinite() -> None:
    found = score(["a", "b"], np.array([0]), np.array([[0.0, 1.0]]))

    assert np.isfinite(found.log_loss)


def test_scores_are_plain_values_for_json() -> None:
    import json

    found = score(["a", "b"], np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]))

    assert json.loads(json.dumps(found.as_dict()))["accuracy"] == 1


def test_a_wilson_interval_contains_the_fraction_and_narrows_with_more_texts() -> None:
    low, high = wilson_interval(0.8, 100)
    closer = wilson_interval(0.8, 10_000)

    assert low == pytest.approx(0.711, abs=0.001)  # calculated by hand
    assert high == pytest.approx(0.867, abs=0.001)
    assert low < closer[0] < 0.8 < closer[1] < high
    assert wilson_interval(1.0, 5)[1] == 1.0


def test_accuracy_over_coverage_is_the_accuracy_of_the_texts_at_or_above_each_threshold() -> None:
    truth, probabilities = made_up(400, 3, seed=1)
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth

    coverage = score(["a", "b", "c"], truth, probabilities).coverage

    assert coverage[-1].answered == 1.0
    assert coverage[-1].accuracy == pytest.approx(correct.mean())
    assert [point.answered for point in coverage] == [n / 100 for n in range(5, 101)]
    for point in coverage:
        answered = confidence >= point.threshold
        assert point.answered == answered.mean()
        assert point.accuracy == pytest.approx(correct[answered].mean())
        assert point.low < point.accuracy <= point.high


def test_texts_with_the_same_confidence_are_answered_together() -> None:
    confidence = np.array([0.9] * 6 + [0.5] * 4)
    correct = np.array([True] * 5 + [False] + [True] * 2 + [False] * 2)

    coverage = accuracy_over_coverage(confidence, correct)

    assert [(point.threshold, point.answered) for point in coverage[:2]] == [(0.9, 0.6), (0.5, 1.0)]
    assert coverage[0].accuracy == pytest.approx(5 / 6)


def test_the_lowest_threshold_that_reaches_the_target_is_found() -> None:
    confidence = np.linspace(1.0, 0.5, 200)
    correct = np.array([True] * 150 + [False] * 50)
    coverage = accuracy_over_coverage(confidence, correct)

    point = find_threshold(coverage, 0.9)

    assert point is not None
    assert point.answered == 0.83  # 150 of 166 texts are correct
    assert find_threshold(coverage, 0.5) == coverage[-1]
    assert find_threshold(accuracy_over_coverage(confidence, ~correct), 0.9) is None


@pytest.mark.parametrize(
    ("texts", "skew", "target"), [(200, 3, 0.95), (550, 30, 0.98), (2000, 1, 0.75)]
)
def test_the_interval_covers_the_accuracy_on_new_texts_though_the_threshold_was_chosen(
    texts: int, skew: int, target: float
) -> None:
    draw = np.random.default_rng(0)
    new = 0.5 + 0.5 * draw.beta(skew, 1, 100_000)
    covered = []
    for _ in range(300):
        confidence = 0.5 + 0.5 * draw.beta(skew, 1, texts)
        correct = draw.random(texts) < confidence - 0.02  # slightly overconfident
        point = find_threshold(accuracy_over_coverage(confidence, correct), target)
        if point is not None:
            truth = (new[new >= point.threshold] - 0.02).mean()
            covered.append(point.low <= truth <= point.high)

    assert np.mean(covered) >= 0.95


def test_small_bins_are_merged_with_their_neighbours() -> None:
    bins = Reliability([0.4, 0.5, 0.7, 0.9, 0.98], [0, 0.5, 0.75, 0.9, 1.0], [4, 16, 100, 300, 6])

    merged = merge_small_bins(bins)

    assert merged.texts == [120, 306]
    assert merged.accuracy[0] == pytest.approx((8 + 75) / 120)
    assert merged.confidence[1] == pytest.approx((0.9 * 300 + 0.98 * 6) / 306)
    assert merge_small_bins(Reliability([0.9], [1.0], [3])) == Reliability([0.9], [1.0], [3])


def test_the_interval_of_an_accuracy_is_wide_on_few_texts_and_never_a_point() -> None:
    assert accuracy_interval(1.0, 4) == pytest.approx((0.510, 1.0), abs=1e-3)
    low, high = accuracy_interval(0.9, 1000)
    assert (low, high) == pytest.approx((0.880, 0.917), abs=1e-3)


def test_the_interval_of_a_cross_validation_is_wider_most_of_all_upwards() -> None:
    low, high = accuracy_interval(0.8, 500)

    low_of_folds, high_of_folds = accuracy_interval(0.8, 500, folds=5)

    assert low_of_folds < low
    assert high_of_folds - high > low - low_of_folds


@pytest.mark.parametrize("folds", [0, 5])
def test_the_interval_of_macro_f1_covers_it_and_shrinks_with_more_texts(folds: int) -> None:
    confusion = np.array([[40, 5, 0], [3, 30, 1], [0, 4, 8]])

    small = macro_f1_interval(confusion, folds)
    large = macro_f1_interval(confusion * 100, folds)

    assert small is not None
    assert large is not None
    f1 = score_of(confusion)
    assert small[0] < f1 < small[1]
    assert large[0] < f1 < large[1]
    assert large[1] - large[0] < (small[1] - small[0]) / 3


def test_macro_f1_without_mistakes_has_an_interval() -> None:
    assert macro_f1_interval(np.array([[10, 0], [0, 10]])) == accuracy_interval(1.0, 20)


def test_macro_f1_has_no_interval_if_a_class_has_too_few_texts_for_one() -> None:
    assert macro_f1_interval(np.array([[40, 5, 0], [3, 30, 1], [0, 4, 5]])) is None
    absent = np.array([[40, 5, 0], [3, 30, 1], [0, 0, 0]])
    assert macro_f1_interval(absent) is not None


def test_the_log_loss_of_folds_leaves_out_classes_that_their_models_lack() -> None:
    truth = np.array([0, 1, 2])
    probabilities = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])

    of_folds = score(["a", "b", "once"], truth, probabilities, folds=5)

    assert of_folds.accuracy == pytest.approx(1 / 3)
    assert of_folds.log_loss == pytest.approx(np.log(2))
    assert score(["a", "b", "once"], truth, probabilities).log_loss > 9


def score_of(confusion: NDArray[np.int64]) -> float:
    classes = per_class_scores(range(len(confusion)), confusion)
    return float(np.mean([scores.f1 for scores in classes]))
