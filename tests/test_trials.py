"""The choice among the trials of a search: limits, Pareto front, spread of seeds."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lamatext.errors import ConfigError
from lamatext.trials import (
    FINISHED,
    STOPPED,
    Choice,
    Limits,
    Trial,
    choose_trial,
    finished_trials,
    pareto_front,
    seed_spread,
)

NO_LIMITS = Limits(600)


def choose(
    trials: Sequence[Trial], limits: Limits = NO_LIMITS, validation_texts: int = 1_000
) -> Choice:
    return choose_trial(trials, limits, "accuracy", validation_texts=validation_texts)


def trial(number: int, score: float, size: int = 1_000, latency: float = 1.0) -> Trial:
    settings = {"model.heads": number}
    return Trial(number, FINISHED, settings, False, 0, 1.0, score, size, latency, 10.0)


def default(*scores: float, size: int = 1_000, latency: float = 1.0) -> list[Trial]:
    return [
        Trial(seed, FINISHED, {}, True, seed, 1.0, score, size, latency, 10.0)
        for seed, score in enumerate(scores)
    ]


def test_a_lead_larger_than_the_spread_of_seeds_is_chosen_and_named() -> None:
    trials = [*default(0.80, 0.81, 0.79), trial(3, 0.86), trial(4, 0.80)]

    choice = choose(trials)

    assert choice.trial.number == 3
    assert choice.verdict == (
        "The search brought more than the spread of seeds explains: accuracy 86.00 % of the best "
        "of 2 trials, 80.00 % ± 1.00 % of the default recipe with 3 seeds."
    )


def test_a_lead_that_seeds_explain_keeps_the_default() -> None:
    trials = [*default(0.80, 0.81, 0.79), *(trial(3 + i, 0.80) for i in range(40))]
    lucky = trial(50, 0.815)

    choice = choose([*trials, lucky])

    assert choice.trial.is_default
    assert "brought no more than the spread of seeds explains" in choice.verdict
    assert choose([*trials[:4], lucky]).trial == lucky  # of 2 trials


def test_fewer_seeds_and_trials_that_were_stopped_early_demand_a_larger_lead() -> None:
    three, two = default(0.80, 0.81, 0.79), default(0.79, 0.81)
    sampled = [trial(3 + i, 0.80) for i in range(4)]
    best = trial(50, 0.83)
    stopped = [replace(trial(60 + i, 0.80), state=STOPPED) for i in range(20)]

    def is_chosen(*trials: Trial) -> bool:
        return choose([*trials, *sampled, best]).trial == best

    assert is_chosen(*three)
    assert not is_chosen(*two)
    assert not is_chosen(*three, *stopped)


def test_a_lead_of_one_text_over_seeds_that_tie_keeps_the_default() -> None:
    trials = [*default(0.925, 0.925), *(trial(3 + i, 0.92) for i in range(6)), trial(9, 0.93)]

    choice = choose(trials, validation_texts=200)

    assert choice.trial.is_default
    assert "brought no more than the spread of seeds explains" in choice.verdict
    assert choose(trials, validation_texts=100_000).trial.number == 9


def test_a_search_that_had_time_for_the_default_only_says_so() -> None:
    verdict = choose(default(0.8, 0.81)).verdict

    assert verdict == "There was only time for the default recipe, which is kept."
    assert choose([*default(0.8, 0.81), trial(3, 0.7)]).verdict.startswith("No trial was better")


def test_without_a_second_seed_the_verdict_says_that_the_spread_is_unknown() -> None:
    choice = choose([*default(0.8), trial(1, 0.9)])

    assert choice.trial.number == 1
    assert "was not measured" in choice.verdict


def test_the_same_seed_twice_is_no_spread() -> None:
    first, second = default(0.8, 0.9)

    assert seed_spread([first, first]) is None
    spread = seed_spread([first, second])
    assert spread is not None
    assert spread.mean == pytest.approx(0.85)
    assert spread.seeds == 2


def test_a_model_over_a_limit_is_never_chosen() -> None:
    large, slow = trial(3, 0.99, size=6_000_000), trial(4, 0.98, latency=2.0)
    trials = [*default(0.8, 0.81, size=9_000_000), large, slow, trial(5, 0.7)]

    choice = choose(trials, Limits(600, 5e6, 1.5))

    assert choice.trial.number == 5
    assert choice.verdict.startswith("The default recipe is over a limit")


def test_a_limit_that_no_model_meets_names_the_smallest_and_the_fastest() -> None:
    trials = [*default(0.8, size=4_000_000, latency=0.5), trial(7, 0.7, size=30_000, latency=0.9)]

    with pytest.raises(ConfigError, match=r"a size of 0\.02 MB and 0\.1 ms per text") as error:
        choose(trials, Limits(600, 20_000, 0.1))

    assert "takes 0.030 MB (trial 7), the fastest 0.500 ms per text (trial 0)" in str(error.value)


def test_the_pareto_front_leaves_out_what_another_trial_beats() -> None:
    best, small, fast = trial(1, 0.9, 900, 0.9), trial(2, 0.7, 100, 0.9), trial(3, 0.6, 900, 0.1)
    beaten, equal = trial(4, 0.85, 950, 0.9), trial(5, 0.9, 900, 0.9)

    assert pareto_front([best, small, fast, beaten, equal]) == [best, equal, small, fast]


def test_only_trials_on_the_largest_share_of_the_texts_are_compared() -> None:
    half = Trial(1, FINISHED, {}, False, 0, 0.5, 0.99, 1, 1.0, 1.0)
    stopped = Trial(2, STOPPED, {}, False, 0, 1.0, 0.99, 1, 1.0, 1.0)

    assert finished_trials([*default(0.8), half, stopped]) == default(0.8)
