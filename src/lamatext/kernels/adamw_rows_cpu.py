"""Lazy in-place AdamW updates of embedding rows on the CPU, compiled by numba.

``lamatext.training.lazy_embedding`` explains the equations; its tests compare the result with that
of torch's AdamW.

Shapes: V words, U distinct words of a mini-batch, E embedding width, S steps of an epoch.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lamatext.kernels.matmul_tile import Floats, Integers
from lamatext.kernels.numba_compat import compiled

Ids = NDArray[np.int32]
Doubles = NDArray[np.float64]


class RowState(NamedTuple):
    """Embedding rows of lazy AdamW, their two moments and the last step applied to each row."""

    vectors: Floats  # (V, E)
    first: Floats  # (V, E): m
    second: Floats  # (V, E): v
    updated_at: Integers  # (V,)


class SkippedSteps(NamedTuple):
    """Precomputed factors for applying all skipped AdamW steps of an embedding row at once."""

    sums: Doubles  # (S + 1,): L of each step
    ratio: Doubles  # (S + 1,): powers of ρ
    first: Doubles  # (S + 1,): powers of β₁
    second: Doubles  # (S + 1,): powers of β₂


class Step(NamedTuple):
    """Coefficients of one AdamW step, in the data type of the embedding rows."""

    first_share: Any  # 1 − β₁
    second_keep: Any  # β₂
    second_share: Any  # 1 − β₂
    rate: Any  # η̂, with the bias corrections
    epsilon: Any  # with the bias correction of v


@compiled
def renumber(
    padding: int, ids: Ids, position: Ids, rows: Ids, numbers: Ids
) -> int:  # pragma: no cover
    """Assign consecutive numbers to the embedding rows that a mini-batch uses, padding first.

    Write the distinct ids to ``rows`` and the number of each id to ``numbers``; return how many are
    distinct, or −1 if an id is not an embedding row. ``position`` (V,) is working memory, with any
    content.
    """
    rows[0] = padding
    position[padding] = 0
    count = 1
    for i in range(len(ids)):
        row = ids[i]
        if row < 0 or row >= len(position):
            return -1
        number = position[row]
        if number < 0 or number >= count or rows[number] != row:
            number = count
            rows[count] = row
            position[row] = count
            count += 1
        numbers[i] = number
    return count


@compiled
def catch_up(
    state: RowState, rows: Any, now: int, skipped: SkippedSteps, epsilon: Any, batch: Floats
) -> None:  # pragma: no cover
    """Bring embedding rows up to date by applying their skipped AdamW steps up to ``now``.

    Copy the vectors to ``batch`` (U, E), unless it is empty.
    """
    width = state.vectors.shape[1]
    factors = np.empty(3, state.vectors.dtype)  # in the precision of the rows
    for i in range(len(rows)):
        row = rows[i]
        vector = state.vectors[row]
        since = state.updated_at[row]
        age = now - since
        if age > 0:
            factors[0] = skipped.sums[since] - skipped.ratio[age] * skipped.sums[now]
            factors[1] = skipped.first[age]
            factors[2] = skipped.second[age]
            move, keep_first, keep_second = factors[0], factors[1], factors[2]
            first, second = state.first[row], state.second[row]
            for j in range(width):
                vector[j] -= first[j] / (np.sqrt(second[j]) + epsilon) * move
                first[j] *= keep_first
                second[j] *= keep_second
            state.updated_at[row] = now
        if len(batch):
            target = batch[i]
            for j in range(width):
                target[j] = vector[j]


@compiled
def update(
    state: RowState, rows: Any, now: int, gradient: Floats, step: Step
) -> None:  # pragma: no cover
    """Apply one AdamW step to the embedding rows of a mini-batch, given their gradient (U, E)."""
    width = state.vectors.shape[1]
    for i in range(len(rows)):
        row = rows[i]
        vector, first, second = state.vectors[row], state.first[row], state.second[row]
        slope = gradient[i]
        for j in range(width):
            g = slope[j]
            m = first[j] + step.first_share * (g - first[j])
            v = second[j] * step.second_keep + step.second_share * g * g
            first[j] = m
            second[j] = v
            vector[j] -= step.rate * m / (np.sqrt(v) + step.epsilon)
        state.updated_at[row] = now + 1


def compile_adamw_rows(dtype: torch.dtype) -> None:
    """Compile the lazy AdamW kernels ahead of their first use by running a tiny example."""
    kind = torch.empty(0, dtype=dtype).numpy().dtype.type
    vectors, first, second, batch = (np.zeros((1, 1), kind) for _ in range(4))
    zeros = np.zeros(2)
    ids = np.zeros(2, np.int32)
    count = renumber(0, ids[:1], ids[:1].copy(), ids, ids[:1].copy())
    state = RowState(vectors, first, second, np.zeros(1, np.int64))
    catch_up(state, ids[:count], 0, SkippedSteps(zeros, zeros, zeros, zeros), kind(1), batch)
    update(state, ids[:count], 0, batch, Step(*(kind(1) for _ in range(5))))


KERNELS = (renumber, catch_up, update)  # the kernels that Python calls
