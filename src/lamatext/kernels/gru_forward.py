"""The forward pass of the bi-GRU: all input products of a few texts, then their walk in time.

r = σ(W_ir x + b_ir + W_hr h + b_hr)      v = W_hn h + b_hn
z = σ(W_iz x + b_iz + W_hz h + b_hz)      n = tanh(W_in x + b_in + r v)
h ← n + z (h − n)
"""

from typing import Any

import numpy as np

from lamatext.kernels.gru_layout import (
    Floats,
    Integers,
    Part,
    Plan,
    Trace,
    Weights,
    alive,
    clear,
    copy,
    matrix,
    row_of,
)
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import at, load, shift, store, take_next, tanh
from lamatext.kernels.tile import multiply


@compiled
def forward(
    counter: Integers, plan: Plan, weights: Weights, inputs: Floats, trace: Trace, out: Floats
) -> None:  # pragma: no cover
    """Work on groups of texts, one direction each, until none is left; one call per thread.

    ``counter`` (1,) is shared by the threads; ``inputs`` is (B, T, E), ``out`` (B, T, 2h).
    """
    tasks = 2 * -(-plan.texts // plan.group)
    task = take_next(at(counter, 0))
    while task < tasks:
        first = task // 2 * plan.group
        part = Part(task % 2, first, min(first + plan.group, plan.texts))
        project(plan, part, weights, inputs, trace)
        walk(plan, part, weights, trace)
        deliver(plan, part, trace, out)
        task = take_next(at(counter, 0))


@compiled
def project(
    plan: Plan, part: Part, weights: Weights, inputs: Floats, trace: Trace
) -> None:  # pragma: no cover
    """Write the inputs' share of the gates, W_i x + b, for every word of the texts."""
    width, padded = plan.inputs, plan.padded
    for place in range(part.first, part.last):
        row = part.direction * plan.rows + plan.row[place]
        multiply(
            matrix(trace.gates, row * 4 * padded, 4 * padded),
            matrix(weights.inputs_bias, part.direction * 3 * padded, 0),
            matrix(inputs, plan.text[place] * plan.words * width, width),
            matrix(weights.inputs, part.direction * width * 3 * padded, 3 * padded),
            plan.length[place],
            3 * padded,
            width,
        )


@compiled
def walk(plan: Plan, part: Part, weights: Weights, trace: Trace) -> None:  # pragma: no cover
    """Lead the texts of a group through time side by side, each from its own first word."""
    h, padded = plan.hidden, plan.padded
    hidden = np.zeros((part.last - part.first) * padded, trace.states.dtype)  # (group, H)
    share = np.empty((part.last - part.first) * 3 * padded, trace.states.dtype)  # (group, 3H)
    for step in range(plan.length[part.first]):
        count = alive(plan, part, step)
        multiply(
            matrix(share, 0, 3 * padded),
            matrix(weights.hidden_bias, part.direction * 3 * padded, 0),
            matrix(hidden, 0, padded),
            matrix(weights.hidden, part.direction * h * 3 * padded, 3 * padded),
            count,
            3 * padded,
            h,
        )
        for i in range(count):
            row = row_of(plan, part.direction, part.first + i, step)
            advance(
                plan,
                at(trace.gates, row * 4 * padded),
                at(share, i * 3 * padded),
                at(hidden, i * padded),
                at(trace.states, row * padded),
            )


@compiled
def advance(
    plan: Plan, gates: Any, share: Any, hidden: Any, state: Any
) -> None:  # pragma: no cover
    """Take one text over one word: ``share`` is W_h h of r, z and v."""
    padded = plan.padded
    for j in range(0, padded, plan.lanes):
        r = sigmoid(load(gates, padded + j) + load(share, j))
        z = sigmoid(load(gates, 2 * padded + j) + load(share, padded + j))
        v = load(share, 2 * padded + j)
        n = tanh(load(gates, j) + r * v)
        new = n + z * (load(hidden, j) - n)
        store(gates, j, n)
        store(gates, padded + j, r)
        store(gates, 2 * padded + j, z)
        store(gates, 3 * padded + j, v)
        store(hidden, j, new)
        store(state, j, new)


@compiled
def sigmoid(vector: Any) -> Any:  # pragma: no cover
    """σ(x) = (1 + tanh(x/2)) / 2."""
    return tanh(vector * 0.5) * 0.5 + 0.5


@compiled
def deliver(plan: Plan, part: Part, trace: Trace, out: Floats) -> None:  # pragma: no cover
    """Copy the states into the batch; zeros in its padding and in the row before the first step."""
    h, padded = plan.hidden, plan.padded
    for place in range(part.first, part.last):
        length, row = plan.length[place], part.direction * plan.rows + plan.row[place]
        text = at(out, plan.text[place] * plan.words * 2 * h + part.direction * h)
        for word in range(length):
            copy(shift(text, word * 2 * h), at(trace.states, (row + word) * padded), h)
        for word in range(length, plan.words):
            clear(shift(text, word * 2 * h), h)
        clear(at(trace.states, row_of(plan, part.direction, place, -1) * padded), padded)
