"""Which texts go together: batches of similar length in a random order that a seed fixes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import Indices, TokenIds

POOL = 50  # batches whose texts are sorted by length together: little padding, still random


@dataclass(frozen=True, slots=True)
class Examples:
    """Encoded texts and the number of each one's class."""

    rows: TokenIds
    labels: NDArray[np.int64]  # (n,)

    def __len__(self) -> int:
        return len(self.labels)


def bucketed(lengths: Indices, *, batch: int, seed: int, epoch: int) -> list[Indices]:
    """The batches of one epoch, each an array of rows; every row is in exactly one."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(lengths))
    batches: list[Indices] = []
    for start in range(0, len(order), batch * POOL):
        pool = order[start : start + batch * POOL]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[i : i + batch] for i in range(0, len(pool), batch)]
    random.shuffle(batches)
    return batches
