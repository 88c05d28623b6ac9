"""Scoring of a saved model: metrics on a labelled test set, and the latency of single texts."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.labels import LabelEncoder, Targets
from lamatext.errors import DataError
from lamatext.metrics import AnyScores, score_targets
from lamatext.runtime.predictor import Predictor

TIMED_TEXTS = 100  # predicted one at a time
WARM_UP = 3  # texts; the first call loads the inference engine


def encode_test_labels(predictor: Predictor, test: Dataset) -> tuple[Dataset, Targets]:
    """Encode the test labels for scoring a saved model, dropping labels that it does not know."""
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
    return test, labels.encode_targets(test.require_labels(), place=test.place)


def score_predictions(
    predictor: Predictor, truth: Targets, probabilities: NDArray[np.float64]
) -> AnyScores:
    """Compute accuracy, F1 and other scores of a saved model from its predicted probabilities."""
    thresholds = predictor.thresholds
    decided = None if thresholds is None else thresholds.decide(probabilities.astype(np.float32))
    return score_targets(predictor.classes_.tolist(), truth, probabilities, decided)


def single_text_latencies(
    predict: Callable[[list[str]], object],
    texts: Sequence[str],
    *,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Measure the latency in milliseconds of predicting randomly chosen texts one at a time."""
    rows = np.random.default_rng(seed).permutation(len(texts))[:TIMED_TEXTS].tolist()
    for row in rows[:WARM_UP]:
        predict([texts[row]])
    latencies = []
    for row in rows:
        started = time.perf_counter()
        predict([texts[row]])
        latencies.append(1e3 * (time.perf_counter() - started))
    return np.array(latencies)


def median_latency(predict: Callable[[list[str]], object], texts: Sequence[str]) -> float:
    """Return the median latency of predicting one text, in milliseconds."""
    return float(np.median(single_text_latencies(predict, texts)))
