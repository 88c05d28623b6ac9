"""Mini-batches: encoded texts grouped by length, in a random order determined by a seed.

Shapes: n texts, B texts in a mini-batch, T tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamatext.data.token_ids import Ids, Indices, TokenIds

POOL_BATCHES = 50  # mini-batches whose texts are sorted by length together: little padding
SHUFFLE_BUFFER = 1 << 20  # texts among which mini-batches are drawn at random
SHUFFLE_BLOCK = 1 << 10  # texts that are read together


@dataclass(frozen=True, slots=True)
class EncodedDataset:
    """Encoded texts with labels and optional sample weights, from which mini-batches are made."""

    token_ids: TokenIds  # n texts
    labels: NDArray[Any]  # (n,) class indices, or (n, C): probabilities, or 0/1 for each label
    sample_weight: NDArray[np.float32] | None = None  # (n,); None weights every text equally

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Indices) -> "EncodedDataset":
        """Select rows as a smaller encoded dataset from which to make mini-batches."""
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        return EncodedDataset(self.token_ids.take(rows), self.labels[rows], weights)


class Batch(NamedTuple):
    """Padded mini-batch as tensors: token ids, lengths, labels and optional sample weights."""

    ids: Tensor  # (B, T) on the device of the network
    lengths: Tensor  # (B,) on the CPU, except in steps that run as a CUDA graph
    labels: Tensor  # (B,) or (B, C) on the device of the network
    sample_weight: Tensor | None = None  # (B,) on the device of the network


def make_batch(
    dataset: EncodedDataset,
    rows: Indices,
    device: torch.device,
    map_ids: Callable[[Ids], Ids] | None = None,
) -> Batch:
    """Create a padded mini-batch on a device from the given rows of a dataset.

    ``map_ids`` replaces the token ids (lazy embedding updates renumber them).
    """
    ids, lengths = dataset.token_ids.pad(rows)
    weights = dataset.sample_weight
    return Batch(
        _host_tensor(ids if map_ids is None else map_ids(ids), device).to(
            device, non_blocking=True
        ),
        _host_tensor(lengths, device),
        _host_tensor(dataset.labels[rows], device).to(device, non_blocking=True),
        None
        if weights is None
        else _host_tensor(weights[rows], device).to(device, non_blocking=True),
    )


def shuffled_batches(lengths: Indices, *, batch_size: int, seed: int, epoch: int) -> list[Indices]:
    """Return the mini-batches of one epoch as arrays of row indices, in random order.

    Every row is in exactly one mini-batch. The texts of a mini-batch have similar lengths; seed and
    epoch determine the order. More than ``SHUFFLE_BUFFER`` rows are shuffled in a buffer of that
    size.
    """
    random = np.random.default_rng((seed, epoch))
    order = _shuffled_rows(len(lengths), random)
    batches: list[Indices] = []
    for first in range(0, len(order), SHUFFLE_BUFFER):
        buffer, drawn = order[first : first + SHUFFLE_BUFFER], list[Indices]()
        for start in range(0, len(buffer), batch_size * POOL_BATCHES):
            pool = buffer[start : start + batch_size * POOL_BATCHES]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            drawn += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        random.shuffle(drawn)
        batches += drawn
    return batches


def _shuffled_rows(count: int, generator: np.random.Generator) -> Indices:
    """Return the shuffled rows from which an epoch's mini-batches are cut, using a bounded buffer.

    If all rows fit into the buffer, they are shuffled at once. Otherwise the buffer is filled with
    blocks of consecutive rows, which lie together on disk, and the order of the blocks is random.
    """
    if count <= SHUFFLE_BUFFER:
        return generator.permutation(count)
    blocks = generator.permutation(-(-count // SHUFFLE_BLOCK))
    order = (blocks[:, None] * SHUFFLE_BLOCK + np.arange(SHUFFLE_BLOCK)).ravel()
    order = order[order < count]
    for start in range(0, count, SHUFFLE_BUFFER):
        generator.shuffle(order[start : start + SHUFFLE_BUFFER])
    return order


def _host_tensor(values: NDArray[np.generic], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor.pin_memory() if device.type == "cuda" else tensor
