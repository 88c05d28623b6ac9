"""The benchmark of the hyperparameter search against the default recipe."""

import pytest

from benchmarks.tuning import EXPERIMENT, summarize
from paper.records import Record


def records(tuned: list[float], default: list[float]) -> list[Record]:
    scores = {"tuned": tuned, "default": default}
    return [
        Record(EXPERIMENT, "mr", model, "accuracy", value, seed)
        for model, values in scores.items()
        for seed, value in enumerate(values)
    ]


@pytest.mark.parametrize(("tuned", "verdict"), [(0.80, "holds"), (0.75, "does not hold")])
def test_the_search_must_not_lose_more_than_the_spread_of_seeds(tuned: float, verdict: str) -> None:
    line = summarize(records([tuned] * 3, [0.79, 0.80, 0.81]), "mr")

    assert line.startswith(f"mr: tuned {tuned:.4f}, default 0.8000 ± 0.0100 over 3 seeds")
    assert line.endswith(f": {verdict}")
