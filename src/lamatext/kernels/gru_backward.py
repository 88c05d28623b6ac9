"""The backward pass of the bi-GRU: the walk back in time, then all other products.

With δ the gradient of the state after a word, and 1 − σ² for the slope of tanh,

    δn = δ (1 − z) (1 − n²)            δv = r δn
    δr = v δn r (1 − r)                δz = δ (h − n) z (1 − z)
    δ before the word = δ z + W_hrᵀ δr + W_hzᵀ δz + W_hnᵀ δv
"""

from typing import Any, NamedTuple

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
from lamatext.kernels.simd import at, load, shift, store, take_next
from lamatext.kernels.tile import Matrix, multiply

CHUNK = 64  # rows summed at a time: what a product reads stays in the first cache


class Given(NamedTuple):
    """What the backward pass starts from, in the order of the batch."""

    inputs: Floats  # (B, T, E)
    out_grad: Floats  # (B, T, 2h)


class Sums(NamedTuple):
    """Gradients of the weights in S parts that are added in the end: no sum depends on threads."""

    inputs: Floats  # (2, S, E, 3H) gates n, r, z
    hidden: Floats  # (2, S, h, 3H) gates r, z, n
    bias: Floats  # (2, S, 4H) gates n, r, z, v


@compiled
def backward(
    counter: Integers, plan: Plan, weights: Weights, trace: Trace, given: Given, sums: Sums
) -> None:  # pragma: no cover
    """Work on parts of the texts, one direction each, until none is left; one call per thread.

    ``counter`` (1,) is shared by the threads; the gradients of the gates replace the gates.
    """
    slots = len(sums.bias) // (8 * plan.padded)
    groups = -(-plan.texts // plan.group)
    task = take_next(at(counter, 0))
    while task < 2 * slots:
        direction, slot = task % 2, task // 2
        own = own_sums(plan, direction * slots + slot, sums)
        for group in range(slot, groups, slots):
            first = group * plan.group
            part = Part(direction, first, min(first + plan.group, plan.texts))
            walk_back(plan, part, weights, trace, given.out_grad)
            add_up(plan, part, trace, given.inputs, own)
        task = take_next(at(counter, 0))


@compiled
def own_sums(plan: Plan, index: int, sums: Sums) -> Any:  # pragma: no cover
    """One part of the sums, set to zero."""
    padded = plan.padded
    inputs = at(sums.inputs, index * plan.inputs * 3 * padded)
    hidden = at(sums.hidden, index * plan.hidden * 3 * padded)
    bias = at(sums.bias, index * 4 * padded)
    clear(inputs, plan.inputs * 3 * padded)
    clear(hidden, plan.hidden * 3 * padded)
    clear(bias, 4 * padded)
    return Matrix(inputs, 3 * padded, 1), Matrix(hidden, 3 * padded, 1), bias


@compiled
def walk_back(
    plan: Plan, part: Part, weights: Weights, trace: Trace, out_grad: Floats
) -> None:  # pragma: no cover
    """Lead a group back through time side by side; its gates become their gradients."""
    h, padded = plan.hidden, plan.padded
    delta = np.zeros((part.last - part.first) * padded, out_grad.dtype)  # (group, H)
    share = np.empty((part.last - part.first) * 3 * padded, out_grad.dtype)  # (group, 3H)
    for step in range(plan.length[part.first] - 1, -1, -1):
        count = alive(plan, part, step)
        for i in range(count):
            place = part.first + i
            row = row_of(plan, part.direction, place, step)
            before = row_of(plan, part.direction, place, step - 1)
            word = row - part.direction * plan.rows - plan.row[place]
            given = (plan.text[place] * plan.words + word) * 2 * h + part.direction * h
            add(at(delta, i * padded), at(out_grad, given), h)
            recede(
                plan,
                at(trace.gates, row * 4 * padded),
                at(trace.states, before * padded),
                at(delta, i * padded),
                at(share, i * 3 * padded),
            )
        multiply(
            matrix(delta, 0, padded),
            matrix(delta, 0, padded),
            matrix(share, 0, 3 * padded),
            matrix(weights.hidden_back, part.direction * 3 * padded * padded, padded),
            count,
            padded,
            3 * padded,
        )


@compiled
def recede(plan: Plan, gates: Any, state: Any, delta: Any, share: Any) -> None:  # pragma: no cover
    """Take one text back over one word: ``state`` is the one before it."""
    padded = plan.padded
    for j in range(0, padded, plan.lanes):
        n, r = load(gates, j), load(gates, padded + j)
        z, v = load(gates, 2 * padded + j), load(gates, 3 * padded + j)
        d = load(delta, j)
        dn = d * (1.0 - z) * (1.0 - n * n)
        dr = dn * v * r * (1.0 - r)
        dz = d * (load(state, j) - n) * z * (1.0 - z)
        dv = dn * r
        store(delta, j, d * z)
        store(gates, j, dn)
        store(gates, padded + j, dr)
        store(gates, 2 * padded + j, dz)
        store(gates, 3 * padded + j, dv)
        store(share, j, dr)
        store(share, padded + j, dz)
        store(share, 2 * padded + j, dv)


@compiled
def add_up(
    plan: Plan, part: Part, trace: Trace, inputs: Floats, sums: Any
) -> None:  # pragma: no cover
    """Add a group to the gradients of the weights, δ(W_i) = Σ δg xᵀ and δ(W_h) = Σ δg hᵀ.

    Texts follow each other without a break, so that short ones fill a chunk together; rows of
    rest between them add nothing.
    """
    inputs_sum, hidden_sum, bias_sum = sums
    width, padded = plan.inputs, plan.padded
    towards = -1 if part.direction == 0 else 1  # the row of the state before
    chunk = np.empty(CHUNK * width, inputs.dtype)  # (CHUNK, E)
    place, word = part.first, 0
    row = part.direction * plan.rows + plan.row[part.first]
    last = part.last - 1
    end = part.direction * plan.rows + plan.row[last] + plan.length[last]
    while row < end:
        depth = min(CHUNK, end - row)
        for i in range(depth):
            gates = at(trace.gates, (row + i) * 4 * padded)
            if word < plan.length[place]:
                source = at(inputs, (plan.text[place] * plan.words + word) * width)
                copy(at(chunk, i * width), source, width)
                add(bias_sum, gates, 4 * padded)
                word += 1
            else:
                clear(at(chunk, i * width), width)
                clear(gates, 4 * padded)
                place, word = place + 1, 0
        multiply(
            inputs_sum,
            inputs_sum,
            Matrix(at(chunk, 0), 1, width),
            matrix(trace.gates, row * 4 * padded, 4 * padded),
            width,
            3 * padded,
            depth,
        )
        multiply(
            hidden_sum,
            hidden_sum,
            Matrix(at(trace.states, (row + towards) * padded), 1, padded),
            matrix(trace.gates, row * 4 * padded + padded, 4 * padded),
            plan.hidden,
            3 * padded,
            depth,
        )
        row += depth


@compiled
def add(target: Any, source: Any, count: int) -> None:  # pragma: no cover
    """Add ``count`` numbers to ``target``."""
    for j in range(count):
        target[j] += source[j]


@compiled
def backward_inputs(
    counter: Integers, plan: Plan, weights: Weights, trace: Trace, out: Floats
) -> None:  # pragma: no cover
    """Write the gradient of the inputs (B, T, E), δx = Σ W_iᵀ δg over both directions."""
    width = plan.padded_inputs
    block = np.empty(CHUNK * width, out.dtype)  # (CHUNK, E)
    place = take_next(at(counter, 0))
    while place < plan.texts:
        length = plan.length[place]
        text = at(out, plan.text[place] * plan.words * plan.inputs)
        for word in range(0, length, CHUNK):
            count = min(CHUNK, length - word)
            clear(at(block, 0), count * width)
            for direction in range(2):
                row = direction * plan.rows + plan.row[place] + word
                multiply(
                    matrix(block, 0, width),
                    matrix(block, 0, width),
                    matrix(trace.gates, row * 4 * plan.padded, 4 * plan.padded),
                    matrix(weights.inputs_back, direction * 3 * plan.padded * width, width),
                    count,
                    width,
                    3 * plan.padded,
                )
            for i in range(count):
                copy(shift(text, (word + i) * plan.inputs), at(block, i * width), plan.inputs)
        clear(shift(text, length * plan.inputs), (plan.words - length) * plan.inputs)
        place = take_next(at(counter, 0))


@compiled
def collect(plan: Plan, direction: int, sums: Sums, parameters: Any) -> None:  # pragma: no cover
    """Sum the parts in their order and write them as torch's parameters of one direction lie."""
    inputs, hidden, inputs_bias, hidden_bias = parameters
    width, h, padded = plan.inputs, plan.hidden, plan.padded
    slots = len(sums.bias) // (8 * padded)
    in_total, in_size = direction * slots * width * 3 * padded, width * 3 * padded
    hid_total, hid_size = direction * slots * h * 3 * padded, h * 3 * padded
    bias_total = direction * slots * 4 * padded
    for slot in range(1, slots):
        add(at(sums.inputs, in_total), at(sums.inputs, in_total + slot * in_size), in_size)
        add(at(sums.hidden, hid_total), at(sums.hidden, hid_total + slot * hid_size), hid_size)
        add(at(sums.bias, bias_total), at(sums.bias, bias_total + slot * 4 * padded), 4 * padded)
    for gate in range(3):
        turned = ((gate + 1) % 3) * padded
        straight = gate * padded
        for unit in range(h):
            to = gate * h + unit
            for k in range(width):
                inputs[to, k] = sums.inputs[in_total + k * 3 * padded + turned + unit]
            for k in range(h):
                hidden[to, k] = sums.hidden[hid_total + k * 3 * padded + straight + unit]
            inputs_bias[to] = sums.bias[bias_total + turned + unit]
            hidden_bias[to] = sums.bias[bias_total + padded + straight + unit]
