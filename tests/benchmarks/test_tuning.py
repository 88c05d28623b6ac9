"""The benchmark of the hyperparameter search against the default recipe."""

import pytest

from benchmarks.tuning import EXPERIMENT, summarize
from lamatext.errors import DataError
from paper.records import Record


def records(experiment: str, model: str, values: list[float]) -> list[Record]:
    return [
        Record(experiment, "mr", model, "accuracy", value, seed)
        for seed, value in enumerate(values)
    ]


@pytest.mark.parametrize(("tuned", "verdict"), [(0.80, "holds"), (0.75, "does not hold")])
def test_the_search_must_not_lose_more_than_the_spread_of_seeds(tuned: float, verdict: str) -> None:
    searched = records(EXPERIMENT, "tuned", [tuned] * 3)
    leaderboard = [
        *records("leaderboard", "default", [0.79, 0.80, 0.81]),
        *records("leaderboard", "tfidf", [0.5]),
    ]

    line = summarize(searched, leaderboard, "mr")

    assert line.startswith(f"mr: tuned {tuned:.4f} over 3 seeds, default 0.8000 ± 0.0100 over 3")
    assert line.endswith(f": {verdict}")


def test_a_data_set_without_the_default_recipe_is_named() -> None:
    searched = records(EXPERIMENT, "tuned", [0.8])

    with pytest.raises(DataError, match="benchmarks leaderboard --datasets mr"):
        summarize(searched, [], "mr")
