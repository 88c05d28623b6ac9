"""The gradients of LAMA attention, one text after another; attention_walk.py has the equation.

Letters: B texts, T words, D state width, M heads; D and M are padded to whole vectors, with zeros.
"""

from typing import NamedTuple

import numpy as np

from lamatext.kernels.attention_walk import Given, Sizes, Trace, Wanted
from lamatext.kernels.gru_layout import Floats, Integers, matrix
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import at, take_next
from lamatext.kernels.tile import Matrix, multiply


class Room(NamedTuple):
    """Memory of one thread for one text."""

    scores: Floats  # (T, M): the gradient of Aᵀ, then of f
    inner: Floats  # (T, D): of H Wᵀ + b
    states: Floats  # (T, D)
    pooled: Floats  # (M, D): of S
    turned: Floats  # (D, M): its transpose
    zeros: Floats


@compiled
def attend_back(
    counter: Integers, sizes: Sizes, given: Given, trace: Trace, wanted: Wanted
) -> None:  # pragma: no cover
    """The gradients of the texts of a task, task by task until none is left."""
    padded, heads, kind = sizes.padded, sizes.padded_heads, trace.states.dtype
    room = Room(
        np.empty(sizes.words * heads, kind),
        np.empty(sizes.words * padded, kind),
        np.empty(sizes.words * padded, kind),
        np.zeros(heads * padded, kind),
        np.zeros(padded * heads, kind),
        np.zeros(max(padded, heads), kind),
    )
    task = take_next(at(counter, 0))
    while task < sizes.tasks:
        for text in range(task, sizes.texts, sizes.tasks):
            _take_wanted(sizes, wanted, text, room)
            _to_scores(sizes, given, trace, text, room)
            if len(wanted.weights):
                _add_wanted(sizes, given, wanted, text, room.scores)
            _through_softmax(sizes, given, trace, text, room.scores)
            _through_norm(sizes, given, trace, wanted, text, task, room.scores)
            _to_inner(sizes, given, trace, wanted, text, room)
            _through_tanh(sizes, given, trace, wanted, text, task, room.inner)
            _to_states(sizes, given, trace, wanted, text, task, room)
            _deliver_states(sizes, given, text, room.states, wanted.states)
        task = take_next(at(counter, 0))


@compiled
def _take_wanted(sizes: Sizes, wanted: Wanted, text: int, room: Room) -> None:  # pragma: no cover
    for m in range(sizes.heads):
        for j in range(sizes.width):
            value = wanted.embedding[(text * sizes.heads + m) * sizes.width + j]
            room.pooled[m * sizes.padded + j] = value
            room.turned[j * sizes.padded_heads + m] = value


@compiled
def _to_scores(
    sizes: Sizes, given: Given, trace: Trace, text: int, room: Room
) -> None:  # pragma: no cover
    """Of Aᵀ, by way of S = A H: H (dS)ᵀ."""
    heads, padded = sizes.padded_heads, sizes.padded
    h = matrix(trace.states, text * sizes.words * padded, padded)
    out, zeros = matrix(room.scores, 0, heads), matrix(room.zeros, 0, 0)
    multiply(out, zeros, h, matrix(room.turned, 0, heads), given.length[text], heads, sizes.width)


@compiled
def _add_wanted(
    sizes: Sizes, given: Given, wanted: Wanted, text: int, scores: Floats
) -> None:  # pragma: no cover
    """Of Aᵀ, what is wanted of the weights themselves."""
    for m in range(sizes.heads):
        row = (text * sizes.heads + m) * sizes.words
        for t in range(given.length[text]):
            scores[t * sizes.padded_heads + m] += wanted.weights[row + t]


@compiled
def _through_softmax(
    sizes: Sizes, given: Given, trace: Trace, text: int, scores: Floats
) -> None:  # pragma: no cover
    """From the gradient of Aᵀ, in ``scores`` (T, M), to that of e."""
    heads, start = sizes.padded_heads, text * sizes.words * sizes.padded_heads
    mean = np.zeros(heads, scores.dtype)
    for t in range(given.length[text]):
        for m in range(heads):
            mean[m] += scores[t * heads + m] * trace.weights[start + t * heads + m]
    for t in range(given.length[text]):
        for m in range(heads):
            weight = trace.weights[start + t * heads + m]
            scores[t * heads + m] = weight * (scores[t * heads + m] - mean[m])


@compiled
def _through_norm(  # noqa: PLR0913 - what one text needs
    sizes: Sizes,
    given: Given,
    trace: Trace,
    wanted: Wanted,
    text: int,
    task: int,
    scores: Floats,
) -> None:  # pragma: no cover
    """From the gradient of e, in ``scores`` (T, M), to those of τ and f."""
    heads, row = sizes.padded_heads, text * sizes.words
    for t in range(given.length[text]):
        norm = trace.norm[row + t]
        along = norm * 0
        for m in range(heads):
            unit = trace.squashed[(row + t) * heads + m] * norm
            wanted.temperature[task * heads + m] += scores[t * heads + m] * unit
            scores[t * heads + m] *= given.temperature[m]
            if sizes.l2:
                along += scores[t * heads + m] * unit
        for m in range(heads):
            s = trace.squashed[(row + t) * heads + m]
            score = (scores[t * heads + m] - s * norm * along) * norm
            scores[t * heads + m] = score * (1 - s * s) if sizes.tanh else score


@compiled
def _to_inner(
    sizes: Sizes, given: Given, trace: Trace, wanted: Wanted, text: int, room: Room
) -> None:  # pragma: no cover
    """From the gradient of f to those of G and u."""
    heads, padded, length = sizes.padded_heads, sizes.padded, given.length[text]
    zeros = matrix(room.zeros, 0, 0)
    u = matrix(trace.scored, text * sizes.words * padded, padded)
    turned = Matrix(at(room.scores, 0), 1, heads)  # (M, T)
    out = matrix(wanted.vectors, text * sizes.heads * padded, padded)
    multiply(out, zeros, turned, u, sizes.heads, padded, length)
    right = matrix(given.vectors_back, text * heads * padded, padded)
    left, out = matrix(room.scores, 0, heads), matrix(room.inner, 0, padded)
    multiply(out, zeros, left, right, length, padded, sizes.heads)


@compiled
def _through_tanh(  # noqa: PLR0913 - what one text needs
    sizes: Sizes,
    given: Given,
    trace: Trace,
    wanted: Wanted,
    text: int,
    task: int,
    inner: Floats,
) -> None:  # pragma: no cover
    """From the gradient of u, in ``inner`` (T, D), to those of H Wᵀ + b and of b."""
    padded, start = sizes.padded, text * sizes.words * sizes.padded
    for t in range(given.length[text]):
        for j in range(padded):
            u = trace.scored[start + t * padded + j]
            value = inner[t * padded + j] * (1 - u * u)
            inner[t * padded + j] = value
            wanted.bias[task * padded + j] += value


@compiled
def _to_states(  # noqa: PLR0913 - what one text needs
    sizes: Sizes, given: Given, trace: Trace, wanted: Wanted, text: int, task: int, room: Room
) -> None:  # pragma: no cover
    """From the gradient of H Wᵀ + b to those of W and H, and H's part by way of S = A H."""
    heads, padded, length = sizes.padded_heads, sizes.padded, given.length[text]
    h = matrix(trace.states, text * sizes.words * padded, padded)
    turned = Matrix(at(room.inner, 0), 1, padded)  # (D, T)
    out = matrix(wanted.project, task * sizes.width * padded, padded)
    multiply(out, out, turned, h, sizes.width, padded, length)
    out, left = matrix(room.states, 0, padded), matrix(room.inner, 0, padded)
    right = matrix(given.project_back, 0, padded)
    multiply(out, matrix(room.zeros, 0, 0), left, right, length, padded, sizes.width)
    weights = matrix(trace.weights, text * sizes.words * heads, heads)
    multiply(out, out, weights, matrix(room.pooled, 0, padded), length, padded, sizes.heads)


@compiled
def _deliver_states(
    sizes: Sizes, given: Given, text: int, states: Floats, out: Floats
) -> None:  # pragma: no cover
    """Copy one text's gradient to where torch has it, zeros for its padding."""
    row, length = text * sizes.words, given.length[text]
    for t in range(length):
        for j in range(sizes.width):
            out[(row + t) * sizes.width + j] = states[t * sizes.padded + j]
    for place in range((row + length) * sizes.width, (row + sizes.words) * sizes.width):
        out[place] = 0
