import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score, precision_score

from lamatext.label_thresholds import LabelThresholds, ThresholdGoal, choose_thresholds

RATES = np.array([0.3, 0.1, 0.02, 0.005])


def calibrated(texts: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Draw calibrated probabilities of labels with the given rates, and the labels."""
    draw = np.random.default_rng(seed)
    logits = np.log(RATES / (1 - RATES)) - 2 + 3 * draw.normal(size=(texts, len(RATES)))
    probabilities = 1 / (1 + np.exp(-logits))
    return probabilities, draw.random(probabilities.shape) < probabilities


def best_macro_f1(probabilities: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    grid = np.linspace(0.02, 0.9, 60)
    return float(
        np.mean(
            [
                max(f1_score(truth[:, i], probabilities[:, i] >= t, zero_division=0) for t in grid)
                for i in range(truth.shape[1])
            ]
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_few_validation_texts_choose_almost_the_best_thresholds(seed: int) -> None:
    probabilities, truth = calibrated(400, seed)
    new, new_truth = calibrated(20_000, seed + 100)

    values = choose_thresholds(probabilities, truth, ThresholdGoal("macro-f1"))

    own = f1_score(new_truth, new >= values, average="macro", zero_division=0)
    assert own > best_macro_f1(new, new_truth) - 0.03


def test_micro_f1_has_one_threshold_for_all_labels() -> None:
    probabilities, truth = calibrated(2000, 0)

    new, new_truth = calibrated(20_000, 1)

    values = choose_thresholds(probabilities, truth, ThresholdGoal("micro-f1"))

    best = max(f1_score(new_truth, new >= t, average="micro") for t in np.linspace(0.1, 0.8, 30))
    assert len(set(values.tolist())) == 1
    assert f1_score(new_truth, new >= values, average="micro") > best - 0.01


def test_a_minimum_precision_is_reached_on_new_texts() -> None:
    probabilities, truth = calibrated(3000, 0)
    new, new_truth = calibrated(20_000, 1)

    values = choose_thresholds(probabilities, truth, ThresholdGoal(min_precision=0.9))

    reached = precision_score(new_truth, new >= values, average="micro")
    assert 0.87 < reached < 0.97


def test_a_precision_that_no_threshold_reaches_predicts_nothing() -> None:
    probabilities = np.full((50, 2), 0.3)

    values = choose_thresholds(
        probabilities, np.zeros((50, 2), bool), ThresholdGoal("macro-f1", 0.9)
    )

    assert values.tolist() == [1.0, 1.0]


def test_a_label_without_validation_texts_gets_the_threshold_of_its_probabilities() -> None:
    probabilities, _ = calibrated(400, 0)

    values = choose_thresholds(probabilities, np.zeros((400, 4), bool), ThresholdGoal("macro-f1"))

    assert ((values > 0) & (values < 0.5)).all()


def test_a_label_weight_lowers_its_threshold_relative_to_its_probabilities() -> None:
    probabilities, truth = calibrated(2000, 0)

    plain = choose_thresholds(probabilities, truth, ThresholdGoal("macro-f1"))
    weighted = choose_thresholds(
        probabilities, truth, ThresholdGoal("macro-f1"), np.array([1.0, 5.0, 1.0, 1.0])
    )

    assert weighted[1] != plain[1]
    assert weighted[[0, 2, 3]].tolist() == plain[[0, 2, 3]].tolist()


def test_a_label_is_decided_on_at_its_threshold() -> None:
    thresholds = LabelThresholds(np.array([0.5, 0.2], np.float32))

    decided = thresholds.decide(np.array([[0.5, 0.1], [0.49, 0.2]], np.float32))

    assert decided.tolist() == [[True, False], [False, True]]


def test_a_label_that_was_hardly_learned_is_not_predicted_at_a_tiny_probability() -> None:
    generator = np.random.default_rng(0)
    probabilities = generator.uniform(1e-4, 5e-4, (100, 2))
    truth = np.zeros((100, 2), bool)

    thresholds = choose_thresholds(probabilities, truth, ThresholdGoal("macro-f1"))

    assert (thresholds == np.float32(0.01)).all()
