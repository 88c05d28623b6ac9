"""LAMA attention over one text after another, in a core's caches; attention_back.py goes back.

u = tanh(H Wᵀ + b)     f = u Gᵀ     s = tanh(f)     e = τ s / ‖s‖     A = softmax(e)     S = A H

with e, s and f (T, M), the norm over the heads of a word and the softmax over the words of a text.
Letters: B texts, T words, D state width, M heads; D and M are padded to whole vectors, with zeros.
"""

from typing import Any, NamedTuple

import numpy as np

from lamatext.kernels.gru_layout import Floats, Integers, matrix
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import at, load, store, take_next, tanh
from lamatext.kernels.tile import Matrix, multiply


class Sizes(NamedTuple):
    """Of the batch, and how the work is cut."""

    texts: int
    words: int  # T of the longest
    width: int  # D
    heads: int  # M
    padded: int  # D as whole vectors
    padded_heads: int  # M as whole vectors
    lanes: int  # numbers in a vector
    tasks: int  # the texts i, i + tasks, … are one task, whose sums lie in one place
    tanh: bool
    l2: bool


class Given(NamedTuple):
    """What is read; padded with zeros."""

    length: Integers  # (B,) words up to the last that the mask lets in
    mask: Any  # (B, T) bool
    states: Floats  # (B, T, D), as torch has them
    project: Floats  # (D, D): Wᵀ, rows padded
    project_back: Floats  # (D, D): W, rows padded
    bias: Floats  # (D,)
    vectors: Floats  # (B, D, M): Gᵀ of each text, rows padded
    vectors_back: Floats  # (B, M, D): G
    temperature: Floats  # (M,)


class Trace(NamedTuple):
    """What the forward pass leaves for the backward pass; all padded, a row for each word."""

    states: Floats  # (B, T, D): H
    scored: Floats  # (B, T, D): u
    squashed: Floats  # (B, T, M): s
    norm: Floats  # (B, T): 1 / ‖s‖, or 0 where s is 0
    weights: Floats  # (B, T, M): Aᵀ


class Wanted(NamedTuple):
    """Gradients that come in, and those that go out."""

    embedding: Floats  # (B, M, D), as torch has it
    weights: Floats  # (B, M, T), or empty where nothing is wanted of them
    states: Floats  # (B, T, D), out
    project: Floats  # (tasks, D, D), out: a part of each task
    bias: Floats  # (tasks, D), out
    vectors: Floats  # (B, M, D), rows padded, out
    temperature: Floats  # (tasks, M), out


@compiled
def attend(
    counter: Integers, sizes: Sizes, given: Given, trace: Trace, embedding: Floats, weights: Floats
) -> None:  # pragma: no cover
    """S (B, M, D) and A (B, M, T) of texts until none is left; one call per thread."""
    padded, heads = sizes.padded, sizes.padded_heads
    zeros = np.zeros(max(padded, heads), trace.states.dtype)
    pooled = np.empty(heads * padded, trace.states.dtype)  # S of one text, padded
    text = take_next(at(counter, 0))
    while text < sizes.texts:
        length, row = given.length[text], text * sizes.words
        _copy_states(sizes, given, trace, text)
        u = matrix(trace.scored, row * padded, padded)
        h = matrix(trace.states, row * padded, padded)
        right = matrix(given.project, 0, padded)
        multiply(u, matrix(given.bias, 0, 0), h, right, length, padded, sizes.width)
        _tanh(trace.scored, row * padded, length * padded, sizes.lanes)
        f = matrix(trace.squashed, row * heads, heads)
        right = matrix(given.vectors, text * padded * heads, heads)
        multiply(f, matrix(zeros, 0, 0), u, right, length, heads, sizes.width)
        if sizes.tanh:
            _tanh(trace.squashed, row * heads, length * heads, sizes.lanes)
        _softmax(sizes, given, trace, text)
        a = Matrix(at(trace.weights, row * heads), 1, heads)  # (M, T): Aᵀ read the other way
        out = matrix(pooled, 0, padded)
        multiply(out, matrix(zeros, 0, 0), a, h, sizes.heads, padded, length)
        _deliver(sizes, trace, text, length, pooled, embedding, weights)
        text = take_next(at(counter, 0))


@compiled
def _copy_states(sizes: Sizes, given: Given, trace: Trace, text: int) -> None:  # pragma: no cover
    """H of one text with its rows padded."""
    for word in range(text * sizes.words, text * sizes.words + given.length[text]):
        for j in range(sizes.width):
            trace.states[word * sizes.padded + j] = given.states[word * sizes.width + j]
        for j in range(sizes.width, sizes.padded):
            trace.states[word * sizes.padded + j] = 0


@compiled
def _tanh(values: Floats, start: int, count: int, lanes: int) -> None:  # pragma: no cover
    place = at(values, start)
    for j in range(0, count, lanes):
        store(place, j, tanh(load(place, j)))


@compiled
def _softmax(sizes: Sizes, given: Given, trace: Trace, text: int) -> None:  # pragma: no cover
    """Aᵀ = softmax(τ s / ‖s‖) over the words that the mask lets in, 0 for the others."""
    heads = sizes.padded_heads
    most = np.full(heads, -np.inf, trace.weights.dtype)
    total = np.zeros(heads, trace.weights.dtype)
    for t in range(text * sizes.words, text * sizes.words + given.length[text]):
        square = total[0]  # 0, in the precision of the kernel
        for m in range(heads):
            square += trace.squashed[t * heads + m] ** 2
        trace.norm[t] = 1 if not sizes.l2 else (1 / np.sqrt(square) if square > 0 else 0)
        for m in range(heads):
            score = trace.squashed[t * heads + m] * trace.norm[t] * given.temperature[m]
            trace.weights[t * heads + m] = score if given.mask[t] else -np.inf
            most[m] = max(most[m], trace.weights[t * heads + m])
    for t in range(text * sizes.words, text * sizes.words + given.length[text]):
        for m in range(heads):
            power = np.exp(trace.weights[t * heads + m] - most[m])
            trace.weights[t * heads + m] = power
            total[m] += power
    for t in range(text * sizes.words, text * sizes.words + given.length[text]):
        for m in range(heads):
            trace.weights[t * heads + m] /= total[m]


@compiled
def _deliver(  # noqa: PLR0913 - two results and where they lie
    sizes: Sizes,
    trace: Trace,
    text: int,
    length: int,
    pooled: Floats,
    embedding: Floats,
    weights: Floats,
) -> None:  # pragma: no cover
    """Copy one text's S and A to where torch has them."""
    for m in range(sizes.heads):
        for j in range(sizes.width):
            embedding[(text * sizes.heads + m) * sizes.width + j] = pooled[m * sizes.padded + j]
        row = (text * sizes.heads + m) * sizes.words
        for t in range(length):
            place = (text * sizes.words + t) * sizes.padded_heads + m
            weights[row + t] = trace.weights[place]
        for t in range(length, sizes.words):
            weights[row + t] = 0
