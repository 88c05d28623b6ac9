import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lamatext.training.batching import shuffled_batches


@pytest.mark.parametrize("count", [1, 7, 32, 1_000, 3_333])
def test_every_row_is_in_exactly_one_batch(count: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 50, count)

    batches = shuffled_batches(lengths, batch_size=32, seed=0, epoch=1)

    assert_array_equal(np.sort(np.concatenate(batches)), np.arange(count))
    assert max(len(batch) for batch in batches) <= 32


def test_seed_and_epoch_fix_the_batches() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 500)

    first, again = (shuffled_batches(lengths, batch_size=8, seed=3, epoch=2) for _ in range(2))

    for one, other in zip(first, again, strict=True):
        assert_array_equal(one, other)


def test_every_seed_and_epoch_has_its_own_order() -> None:
    lengths = np.full(200, 5)
    orders = {
        tuple(
            np.concatenate(shuffled_batches(lengths, batch_size=8, seed=seed, epoch=epoch)).tolist()
        )
        for seed in range(3)
        for epoch in range(3)
    }

    assert len(orders) == 9


def test_texts_of_a_batch_have_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 500, 4_000)

    padded = sum(
        len(rows) * lengths[rows].max()
        for rows in shuffled_batches(lengths, batch_size=32, seed=0, epoch=1)
    )

    assert padded < 1.05 * lengths.sum()
