"""Latency of single texts: how long a model takes to predict one text."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

TIMED_TEXTS = 100  # predicted one at a time
WARM_UP = 3  # texts; the first call loads the inference engine


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
