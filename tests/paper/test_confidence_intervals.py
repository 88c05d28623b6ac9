"""Stored correctness of predictions and paired bootstrap intervals."""

from pathlib import Path

import numpy as np

from paper.confidence_intervals import (
    format_interval,
    interval_sign,
    pack_bits,
    paired_interval,
    prediction_name,
    read_correctness,
    store_correctness,
    unpack_bits,
)


def test_stored_correctness_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    correct = np.random.default_rng(0).random(13) < 0.5

    store_correctness(tmp_path, "r8", prediction_name("accuracy", "avg", 0, {}), pack_bits(correct))
    store_correctness(
        tmp_path, "r8", prediction_name("accuracy", "avg", 1, {}), pack_bits(~correct)
    )

    stored = read_correctness(tmp_path, "r8")
    np.testing.assert_array_equal(unpack_bits(stored["accuracy avg 0"], 13), correct)
    np.testing.assert_array_equal(unpack_bits(stored["accuracy avg 1"], 13), ~correct)


def test_equal_systems_have_an_interval_of_width_zero() -> None:
    correct = np.array([[True, False, True, True]])

    assert paired_interval(correct, correct) == (0.0, 0.0)


def test_the_interval_agrees_with_resampling_texts_and_seeds_one_by_one() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = generator.random((2, 400)) < 0.8, generator.random((3, 400)) < 0.7
    means = []
    for _ in range(4000):
        rows = generator.integers(0, 400, 400)
        mine, other = (
            part[generator.integers(0, len(part), len(part))][:, rows].mean()
            for part in (ours, theirs)
        )
        means.append(mine - other)

    low, high = paired_interval(ours, theirs, draws=4000)

    np.testing.assert_allclose([low, high], np.quantile(means, [0.025, 0.975]), atol=0.006)


def test_an_interval_includes_the_variation_between_seeds() -> None:
    good, bad = np.ones(100, bool), np.zeros(100, bool)

    low, high = paired_interval(np.stack([good, bad]), bad[None])

    assert (low, high) == (0.0, 1.0)


def test_an_interval_is_bold_only_if_it_does_not_contain_zero() -> None:
    intervals = [(0.001, 0.02), (-0.02, -0.001), (-0.001, 0.02), None]

    assert [interval_sign(interval) for interval in intervals] == [1, -1, 0, 0]
    assert [format_interval(interval) for interval in intervals] == [
        "**+0.1 to +2.0**",
        "**-2.0 to -0.1**",
        "-0.1 to +2.0",
        "–",
    ]
