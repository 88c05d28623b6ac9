import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as theirs

from lamatext.metrics import BINS, score


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
