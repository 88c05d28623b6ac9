"""Trials of a hyperparameter search: limits, Pareto front, spread of seeds, choice of the best."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lamatext.errors import ConfigError, percent, plural

FINISHED, RUNNING, STOPPED, FAILED = "finished", "running", "stopped early", "failed"
UNFINISHED = "not finished"  # out of time, or its process has ended


@dataclass(frozen=True, slots=True)
class Trial:
    """Trial of a hyperparameter search, with its settings, validation score, size and latency."""

    number: int
    state: str  # finished, running, stopped early, failed or not finished
    settings: dict[str, Any] = field(default_factory=dict)  # that differ from the recipe
    is_default: bool = False  # the recipe as it is
    seed: int = 0
    share: float = 0.0  # of the training texts that it was trained on
    score: float | None = None  # on the validation texts
    bytes: int | None = None  # as saved
    latency_ms: float | None = None  # median of one text
    seconds: float | None = None  # of training on that share

    def as_dict(self) -> dict[str, Any]:
        """Return the trial of a search as a JSON-compatible dictionary."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """Time, model-size and latency limits of a hyperparameter search."""

    seconds: float
    max_bytes: float | None = None
    max_latency_ms: float | None = None

    def allow(self, size: float, latency_ms: float) -> bool:
        """Return whether the model of a trial is within the limits on size and latency."""
        is_small = self.max_bytes is None or size <= self.max_bytes
        return is_small and (self.max_latency_ms is None or latency_ms <= self.max_latency_ms)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation, over several seeds, of the scores of the default trials."""

    mean: float
    deviation: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Trial chosen by a hyperparameter search, and a sentence comparing it with the default."""

    trial: Trial
    verdict: str


def score_text(metric: str, score: float) -> str:
    """Format the score of a trial: accuracy in percent, F1 as a fraction."""
    return percent(score, 2) if metric == "accuracy" else f"{score:.4f}"


def finished_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the finished trials that were trained on the largest share of the training texts."""
    finished = [trial for trial in trials if trial.state == FINISHED and trial.score is not None]
    largest = max((trial.share for trial in finished), default=0.0)
    return [trial for trial in finished if trial.share == largest]


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials on the Pareto front of score, model size and latency.

    Of the trials of the default recipe, only the one with the first seed counts.
    """
    finished = [t for t in finished_trials(trials) if not t.is_default or t.seed == _seed(trials)]

    def beats(one: Trial, other: Trial) -> bool:
        pairs = zip(_costs(one), _costs(other), strict=True)
        return all(a <= b for a, b in pairs) and _costs(one) != _costs(other)

    front = [t for t in finished if not any(beats(other, t) for other in finished)]
    return sorted(front, key=lambda trial: (-(trial.score or 0.0), trial.bytes or 0))


def _seed(trials: Sequence[Trial]) -> int:
    return next((trial.seed for trial in trials if trial.is_default), 0)


def _costs(trial: Trial) -> tuple[float, float, float]:
    assert trial.score is not None
    assert trial.bytes is not None
    assert trial.latency_ms is not None
    return (-trial.score, float(trial.bytes), trial.latency_ms)


def seed_spread(trials: Sequence[Trial]) -> Spread | None:
    """Compute the spread of the default trials' scores over seeds, or None with fewer than two."""
    scores = {t.seed: t.score or 0.0 for t in finished_trials(trials) if t.is_default}
    if len(scores) < 2:
        return None
    values = list(scores.values())
    return Spread(statistics.fmean(values), statistics.stdev(values), len(values))


def choose_trial(
    trials: Sequence[Trial], limits: Limits, metric: str, *, validation_texts: int
) -> Choice:
    """Choose the trial with the best score within the limits on size and latency.

    The best of many trials looks better than it is. If its lead over the default recipe is no
    larger than the expected lead of the best of as many runs with other seeds, the default is
    chosen, provided that it is within the limits. The scores of a few seeds may be equal by chance,
    so their standard deviation is taken to be at least 1 / ``validation_texts``.

    Raises:
        ConfigError: no trial is within the limits; the error names the smallest and the fastest.
    """
    finished = finished_trials(trials)
    allowed = [t for t in finished if limits.allow(t.bytes or 0, t.latency_ms or 0.0)]
    if not allowed:
        raise _no_trial_within(limits, finished)
    best = max(allowed, key=lambda t: (t.score or 0.0, t.is_default, -(t.bytes or 0)))
    default = next((trial for trial in allowed if trial.is_default), None)
    spread = seed_spread(trials)
    if default is None:
        verdict = f"The default recipe is over a limit; the best trial within them has {metric}"
        score = score_text(metric, best.score or 0.0)
        return Choice(best, f"{verdict} {score} on the validation texts.")
    sampled = sum(not t.is_default and t.state in (FINISHED, STOPPED) for t in trials)
    if best.is_default and not sampled:
        return Choice(default, "There was only time for the default recipe, which is kept.")
    if best.is_default:
        return Choice(default, "No trial was better than the default recipe, which is kept.")
    assert best.score is not None
    assert default.score is not None
    if spread is None:
        gain = best.score - default.score
        verdict = (
            f"The best trial is {100 * gain:.1f} points above the default recipe in {metric}; "
            "whether that is more than the spread of seeds was not measured, for lack of time."
        )
        return Choice(best, verdict)
    least = max(spread.deviation, 1 / validation_texts)
    chance = least * max(1.0, _expected_maximum(sampled, spread.seeds))
    gain = best.score - spread.mean
    own, mean, deviation = (
        score_text(metric, value) for value in (best.score, spread.mean, spread.deviation)
    )
    compared = (
        f"{metric} {own} of the best of {plural(sampled, 'trial')}, {mean} ± {deviation} of the "
        f"default recipe with {plural(spread.seeds, 'seed')}"
    )
    if gain > chance:
        verdict = f"The search brought more than the spread of seeds explains: {compared}."
        return Choice(best, verdict)
    verdict = f"The search brought no more than the spread of seeds explains: {compared}. "
    return Choice(default, f"{verdict}The default recipe is kept.")


def _expected_maximum(count: int, seeds: int) -> float:
    """Estimate how many standard deviations the best of ``count`` trials lies above the mean.

    It is Blom's approximation (1958) of an expected maximum, as a quantile of Student's t instead
    of the normal distribution: mean and deviation are estimated from ``seeds`` scores only.
    """
    if count < 2:
        return 0.0
    from scipy.special import stdtrit

    quantile = float(stdtrit(seeds - 1, (count - 0.375) / (count + 0.25)))
    return quantile * math.sqrt(1 + 1 / seeds)


def _no_trial_within(limits: Limits, finished: Sequence[Trial]) -> ConfigError:
    asked = [
        *([] if limits.max_bytes is None else [f"a size of {limits.max_bytes / 1e6:g} MB"]),
        *([] if limits.max_latency_ms is None else [f"{limits.max_latency_ms:g} ms per text"]),
    ]
    smallest = min(finished, key=lambda trial: trial.bytes or 0)
    fastest = min(finished, key=lambda trial: trial.latency_ms or 0.0)
    return ConfigError(
        f"no model is within the limits ({' and '.join(asked)}). The smallest of "
        f"{plural(len(finished), 'trial')} takes {(smallest.bytes or 0) / 1e6:.3f} MB (trial "
        f"{smallest.number}), the fastest {fastest.latency_ms:.3f} ms per text (trial "
        f"{fastest.number}). Raise a limit, or search longer with a larger --time."
    )
