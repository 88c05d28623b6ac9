"""The estimates of time and cost that are computed from measured rates."""

import pytest

from benchmarks.estimates import Rates, Setup, _cell, setups

RATES = Rates(
    predict=1_000,
    prepare=10_000,
    ngrams=10_000,
    epoch=1_000,
    gpu_steps=500,
    group_steps=10,
    ray=0.5,
    transfer=None,
)


def test_a_training_is_two_passes_and_two_epochs() -> None:
    laptop = setups(RATES)[0]

    assert laptop.train == pytest.approx(1 / (2 / 10_000 + 2 / 1_000))
    assert laptop.predict == 2_000


def test_a_cluster_is_as_fast_as_its_workers_or_as_the_process_that_feeds_them() -> None:
    workers, limited = (setups(RATES._replace(transfer=rate))[3] for rate in (None, 30_000))

    assert workers.predict == 100 * 1_000 * 0.5
    assert limited.predict == 30_000


def test_what_does_not_fit_in_memory_is_left_out() -> None:
    eight = setups(RATES)[2]

    assert eight.train_rate(1e8) == eight.train
    assert eight.train_rate(1e9) is None


@pytest.mark.parametrize(
    ("texts", "cell"), [(6e4, "1 min, $0.033"), (7.2e6, "2 h, $4"), (3.6e8, "4.2 days, $200")]
)
def test_times_and_costs_are_rounded(texts: float, cell: str) -> None:
    assert _cell(Setup("one", 2.0, None, None), 1_000, texts) == cell
    assert _cell(Setup("one", 2.0, None, None), None, texts) == "–"
