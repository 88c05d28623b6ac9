"""What the forward and the backward kernel share: where texts, weights and gates lie in memory.

Letters: B texts, T words of the longest, E input width, h hidden units of a direction, H = h made
a whole number of vectors, N rows. All words of all texts lie end to end in rows, the longest text
first, one row of rest before each text and after the last; no row is spent on padding.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import at
from lamatext.kernels.tile import Matrix

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Plan(NamedTuple):
    """Sizes, and where the texts lie; place 0 holds the longest."""

    text: Integers  # (B,) which text of the batch has this place
    length: Integers  # (B,) its words
    row: Integers  # (B,) the row of its first word
    texts: int  # B
    words: int  # T
    inputs: int  # E
    hidden: int  # h
    rows: int  # N
    padded_inputs: int  # E as whole vectors
    padded: int  # H: h as whole vectors
    lanes: int  # numbers in a vector
    group: int  # texts that walk through time side by side


class Part(NamedTuple):
    """The work one thread takes at a time: some neighbouring places, one direction."""

    direction: int  # 0 reads from the first word on, 1 from the last word back
    first: int
    last: int


class Weights(NamedTuple):
    """The parameters of both directions as right-hand sides of products, padded with zeros."""

    inputs: Floats  # (2, E, 3H) gates n, r, z
    inputs_bias: Floats  # (2, 3H) n; r and z with the recurrent bias added
    hidden: Floats  # (2, h, 3H) gates r, z, n
    hidden_bias: Floats  # (2, 3H) 0, 0, n
    inputs_back: Floats  # (2, 3H, E) gates n, r, z; E padded
    hidden_back: Floats  # (2, 3H, H) gates r, z, n


class Trace(NamedTuple):
    """What the forward pass leaves for the backward pass."""

    gates: Floats  # (2, N, 4H) n, r, z, and v = W_hn h + b_hn: a row serves both products
    states: Floats  # (2, N, H) the state after each word; zero in rows of rest


@compiled
def pack(weights: Weights, plan: Plan, direction: int, parameters: Any) -> None:  # pragma: no cover
    """Write torch's parameters of one direction (gates r, z, n one below the other) in place."""
    inputs, hidden, inputs_bias, hidden_bias = parameters
    width, h, padded = plan.inputs, plan.hidden, plan.padded
    for gate in range(3):  # torch's place of r, z, n
        turned = ((gate + 1) % 3) * padded  # the place of the same gate in n, r, z
        straight = gate * padded
        for unit in range(h):
            source = gate * h + unit
            for k in range(width):
                value = inputs[source, k]
                to = (direction * width + k) * 3 * padded + turned + unit
                weights.inputs[to] = value
                to = (direction * 3 * padded + turned + unit) * plan.padded_inputs + k
                weights.inputs_back[to] = value
            for k in range(h):
                value = hidden[source, k]
                to = (direction * h + k) * 3 * padded + straight + unit
                weights.hidden[to] = value
                to = (direction * 3 * padded + straight + unit) * padded + k
                weights.hidden_back[to] = value
            to = direction * 3 * padded + turned + unit
            recurrent = hidden_bias[source]
            weights.inputs_bias[to] = inputs_bias[source] + (recurrent if gate < 2 else 0)
            to = direction * 3 * padded + straight + unit
            weights.hidden_bias[to] = recurrent if gate == 2 else 0


@compiled
def matrix(array: Floats, start: int, row: int) -> Matrix:  # pragma: no cover
    """The matrix that begins at ``array[start]``, ``row`` numbers from row to row."""
    return Matrix(at(array, start), row, 1)


@compiled
def alive(plan: Plan, part: Part, step: int) -> int:  # pragma: no cover
    """How many of the texts have more than ``step`` words; they are the first ones."""
    count = part.last - part.first
    while count > 0 and plan.length[part.first + count - 1] <= step:
        count -= 1
    return count


@compiled
def row_of(plan: Plan, direction: int, place: int, step: int) -> Any:  # pragma: no cover
    """The row of the word that the text at ``place`` meets at ``step``."""
    word = step if direction == 0 else plan.length[place] - 1 - step
    return direction * plan.rows + plan.row[place] + word


@compiled
def copy(target: Any, source: Any, count: int) -> None:  # pragma: no cover
    """Copy ``count`` numbers, no matter what lies behind them."""
    for j in range(count):
        target[j] = source[j]


@compiled
def clear(target: Any, count: int) -> None:  # pragma: no cover
    """Set ``count`` numbers to zero."""
    for j in range(count):
        target[j] = 0
