"""Scoring of a saved model: compare its probabilities with the labels of a test set."""

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder, Targets
from lamatext.errors import DataError
from lamatext.metrics import AnyScores, score_targets
from lamatext.runtime.predictor import Predictor


def encode_test_labels(predictor: Predictor, test: Dataset) -> tuple[Dataset, Targets]:
    """Encode test labels for scoring a saved model, without labels unknown to the model."""
    if test.is_multi_label != (predictor.thresholds is not None):
        found, expected = ("lists of labels", "one label")
        if predictor.thresholds is not None:
            found, expected = ("one label", "a list of labels")
        raise DataError(
            f"{test.source}: the texts have {found}, but the model was trained with {expected} per "
            "text. Write the labels in the same way, or read them with the same --label-separator "
            "and --label-column."
        )
    labels = LabelEncoder(tuple(predictor.classes_.tolist()))
    test = labels.drop_unknown(test)
    return test, labels.encode_targets(test.require_labels(), source=test.source)


def score_predictions(
    predictor: Predictor, truth: Targets, probabilities: NDArray[np.float64]
) -> AnyScores:
    """Score a saved model's probabilities for labelled texts by accuracy, F1 and other metrics."""
    thresholds = predictor.thresholds
    decided = None if thresholds is None else thresholds.decide(probabilities.astype(np.float32))
    return score_targets(predictor.classes_.tolist(), truth, probabilities, decided)
