"""Hits and their paired intervals."""

from pathlib import Path

import numpy as np

from paper.predictions import (
    hits_name,
    keep_hits,
    packed,
    paired_interval,
    read_hits,
    unpacked,
)


def test_hits_come_back_bit_for_bit(tmp_path: Path) -> None:
    right = np.random.default_rng(0).random(13) < 0.5

    keep_hits(tmp_path, "r8", hits_name("accuracy", "avg", 0, {}), packed(right))
    keep_hits(tmp_path, "r8", hits_name("accuracy", "avg", 1, {}), packed(~right))

    kept = read_hits(tmp_path, "r8")
    np.testing.assert_array_equal(unpacked(kept["accuracy avg 0"], 13), right)
    np.testing.assert_array_equal(unpacked(kept["accuracy avg 1"], 13), ~right)


def test_equal_systems_have_an_interval_of_nothing() -> None:
    hits = np.array([[True, False, True, True]])

    assert paired_interval(hits, hits) == (0.0, 0.0)


def test_the_interval_is_that_of_drawing_texts_one_by_one() -> None:
    random = np.random.default_rng(1)
    ours, theirs = random.random((2, 400)) < 0.8, random.random((3, 400)) < 0.7
    gain = ours.mean(0) - theirs.mean(0)
    means = [gain[random.integers(0, 400, 400)].mean() for _ in range(4000)]

    low, high = paired_interval(ours, theirs, draws=4000)

    np.testing.assert_allclose([low, high], np.quantile(means, [0.025, 0.975]), atol=0.006)
