import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score, precision_score

from lamatext.label_thresholds import (
    LabelThresholds,
    ThresholdGoal,
    choose_thresholds,
    warn_of_labels_without_threshold,
)

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


@pytest.mark.parametrize("texts", [100, 400, 3000])
def test_a_minimum_precision_is_reached_on_new_texts(texts: int) -> None:
    new, new_truth = calibrated(20_000, 100)

    reached = []
    for seed in range(10):
        probabilities, truth = calibrated(texts, seed)
        goal = ThresholdGoal(min_precision=0.9)
        values = LabelThresholds(choose_thresholds(probabilities, truth, goal))
        reached.append(
            precision_score(new_truth, values.decide(new), average="micro", zero_division=1)
        )

    assert np.mean(np.array(reached) >= 0.9) >= 0.9
    assert np.mean(reached) < 0.995  # not more careful than that


def test_overconfident_probabilities_do_not_lower_the_precision_of_a_label() -> None:
    probabilities, truth = calibrated(1000, 0)
    new, new_truth = calibrated(20_000, 1)
    logits, new_logits = (np.log(p) - np.log1p(-p) for p in (probabilities, new))
    bold, new_bold = (1 / (1 + np.exp(-1 - 1.5 * x)) for x in (logits, new_logits))

    values = LabelThresholds(choose_thresholds(bold, truth, ThresholdGoal(min_precision=0.8)))

    assert precision_score(new_truth, values.decide(new_bold), average="micro") >= 0.8


def test_a_label_that_cannot_reach_the_precision_is_never_predicted_and_named() -> None:
    probabilities = np.full((50, 2), 0.3)
    truth = np.zeros((50, 2), bool)
    probabilities[:40, 1] = 0.99
    truth[:40, 1] = True

    values = choose_thresholds(probabilities, truth, ThresholdGoal("macro-f1", 0.9))

    assert LabelThresholds(values).decide(np.ones((1, 2))).tolist() == [[False, True]]
    with pytest.warns(
        UserWarning, match=r"1 label of 2 cannot reach a precision of 0\.9 .*: odd\."
    ):
        warn_of_labels_without_threshold(["odd", "even"], values, 0.9)


def test_a_label_without_validation_texts_gets_the_threshold_of_its_probabilities() -> None:
    probabilities, _ = calibrated(400, 0)

    values = choose_thresholds(probabilities, np.zeros((400, 4), bool), ThresholdGoal("macro-f1"))

    assert ((values > 0) & (values < 0.5)).all()


def test_a_label_weight_lowers_its_threshold_relative_to_its_probabilities() -> None:
    probabilities, truth = calibrated(2000, 0)

    plain = choose_thresholds(probabilities, truth, ThresholdGoal("macro-f1"))
    weighted = choose_thresholds(
        probabilities,
        truth,
        ThresholdGoal("macro-f1"),
        label_weights=np.array([1.0, 5.0, 1.0, 1.0]),
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


@pytest.mark.parametrize("seed", range(3))
def test_a_label_with_one_text_is_not_predicted_of_many_texts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels, texts_with_label = 30, 1.0 + np.arange(30) % 3

    def nearly_constant(texts: int) -> NDArray[np.float64]:
        return 1 / (1 + np.exp(4 - 0.3 * generator.normal(size=(texts, labels))))

    values = choose_thresholds(
        nearly_constant(30),
        np.zeros((30, labels), bool),
        ThresholdGoal("macro-f1"),
        labelled_texts=texts_with_label,
    )

    predicted = (nearly_constant(1500) >= values).sum(axis=0)
    assert predicted.max() < 15


def test_the_lower_limit_of_rare_labels_does_not_change_frequent_ones() -> None:
    probabilities, truth = calibrated(400, 0)
    goal = ThresholdGoal("macro-f1")

    rare, frequent = (
        choose_thresholds(probabilities, truth, goal, labelled_texts=np.full(4, texts))
        for texts in (1, 500)
    )

    assert frequent.tolist() == choose_thresholds(probabilities, truth, goal).tolist()
    assert (rare >= frequent).all()
    assert rare.max() <= 0.5


def test_a_text_without_evidence_does_not_get_a_rare_label() -> None:
    probabilities = np.tile([0.004, 0.004, 0.2], (100, 1))
    none = np.array([0.022, 0.001, 0.4])  # probabilities of a text without evidence

    plain, limited = (
        choose_thresholds(
            probabilities, np.zeros((100, 3), bool), ThresholdGoal("macro-f1"), without_evidence=x
        )
        for x in (None, np.log(none / (1 - none)))
    )

    assert plain[0] < none[0] < limited[0] < 0.03
    assert limited[1:].tolist() == plain[1:].tolist()  # its limit is above already; not rare
