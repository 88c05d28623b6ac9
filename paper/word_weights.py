"""The attention weights of the paper's words by stars: a table, and what to draw."""

import numpy as np
from numpy.typing import NDArray

from paper.intervals import Interval, sure
from paper.records import Results
from paper.tables import NONE, markdown

POSITIVE = {
    "amazing": ("amazing",),
    "happy": ("happy",),
    "recommend(ed)": ("recommend", "recommended"),
}
NEGATIVE = {"poor": ("poor",), "terrible": ("terrible",), "worst": ("worst",)}
WORDS = {**POSITIVE, **NEGATIVE}
STARS = "12345"
FEW = 5  # a mean of fewer is not compared with another
SHARP: dict[str, object] = {"model.initial_temperature": 8.0}

Weights = NDArray[np.float64]


def weights_of(
    results: Results, word: str, stars: str, config: dict[str, object] | None = None
) -> Weights:
    """Of each time the word stands in a test review with one of these stars."""
    wanted = {f"{form} in {star}" for form in WORDS[word] for star in stars}
    found: list[float] = []
    for record in results.of("word-weights"):
        mine = (record.dataset, record.changed) == ("clothing", config or {})
        if mine and record.metric in wanted:
            found += [float(weight) for weight in record.value]  # type: ignore[union-attr]
    return np.array(found)


def shift(results: Results, word: str) -> Interval | None:
    """Mean weight at 4 and 5 stars less that at 1 and 2: the middle 95 % over occurrences."""
    low, high = weights_of(results, word, "12"), weights_of(results, word, "45")
    if min(len(low), len(high)) < FEW:
        return None
    random = np.random.default_rng(0)
    means = [random.choice(part, (2_000, len(part))).mean(axis=1) for part in (high, low)]
    first, last = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(first), float(last)


def weights_table(results: Results) -> str:
    """Mean weights by stars, how often the word stands there, and what more stars add."""
    rows = [
        [
            word,
            *(_cell(weights_of(results, word, stars)) for stars in ("12", "3", "45")),
            _interval(shift(results, word)),
        ]
        for word in WORDS
    ]
    header = ("word", "1–2 stars", "3 stars", "4–5 stars", "4–5 less 1–2")
    return markdown(header, rows)


def shifted(results: Results) -> dict[str, list[str]]:
    """The words whose weight moves with the stars as the paper says, the other way, not surely."""
    groups: dict[str, list[str]] = {"as": [], "against": [], "open": []}
    for words, sign in ((POSITIVE, 1), (NEGATIVE, -1)):
        for word in words:
            way = sign * sure(shift(results, word))
            groups["as" if way > 0 else "against" if way < 0 else "open"].append(word)
    return groups


def span(results: Results, config: dict[str, object] | None = None) -> str:
    """The smallest and the largest weight of these words."""
    weights = np.concatenate([weights_of(results, word, STARS, config) for word in WORDS])
    return f"{weights.min():.2f} to {weights.max():.2f}" if len(weights) else NONE


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return NONE
    mark = "**" if sure(interval) else ""
    return f"{mark}{interval[0]:+.2f} to {interval[1]:+.2f}{mark}"


def _cell(weights: Weights) -> str:
    if not len(weights):
        return NONE
    spread = f" ± {weights.std(ddof=1):.2f}" if len(weights) > 1 else ""
    return f"{weights.mean():.2f}{spread} ({len(weights)})"
