"""LAMA attention on the CPU, compiled by numba: forward pass, backward pass, autograd.

Reference implementation: the plain torch equation in ``lamatext.nn.attention.LowRankAttention``;
the tests compare outputs and all gradients with it. The kernel processes one text at a time, so
that its data stays in a core's cache, and threads share the texts. With G the head vectors,

    u = tanh(H Wᵀ + b)    f = u Gᵀ    s = tanh(f)    e = τ s / ‖s‖    A = softmax(e)    S = A H

where f, s and e are (T, M), the norm is over the heads of a word and the softmax over the words.

Letters: B texts, T words, D state width, M heads; D and M are padded to whole SIMD vectors with
zeros.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lamatext.kernels.attention_dispatch import AttentionParameters, head_vectors
from lamatext.kernels.kernel_threads import run_kernel
from lamatext.kernels.matmul_tile import Floats, Integers, Matrix, matrix, multiply
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import VECTOR_BYTES, at, load, store, take_next, tanh

TASKS = 8  # partial sums over the texts; a constant, so results do not depend on the threads


class Sizes(NamedTuple):
    """Dimensions and options of one batch in the CPU attention kernel."""

    texts: int
    words: int  # T of the longest text
    width: int  # D
    heads: int  # M
    padded: int  # D rounded up to whole vectors
    padded_heads: int  # M rounded up to whole vectors
    lanes: int  # numbers per SIMD vector
    tasks: int  # texts i, i + tasks, … form one task, which has its own partial sums
    tanh: bool
    l2: bool


class Operands(NamedTuple):
    """Zero-padded input arrays of the CPU attention kernel."""

    length: Integers  # (B,) words up to the last unmasked one
    mask: Any  # (B, T) bool
    states: Floats  # (B, T, D), not padded
    project: Floats  # (D, D): Wᵀ, rows padded
    project_back: Floats  # (D, D): W, rows padded
    bias: Floats  # (D,)
    vectors: Floats  # (B, D, M): Gᵀ of each text, rows padded
    vectors_back: Floats  # (B, M, D): G
    temperature: Floats  # (M,)


class Trace(NamedTuple):
    """Intermediate values that CPU attention stores for its backward pass."""

    states: Floats  # (B, T, D): H
    scored: Floats  # (B, T, D): u
    squashed: Floats  # (B, T, M): s
    norm: Floats  # (B, T): 1 / ‖s‖, or 0 if s is 0
    weights: Floats  # (B, T, M): Aᵀ


class Gradients(NamedTuple):
    """Gradient arrays of the CPU attention backward pass, both its inputs and its outputs."""

    embedding: Floats  # (B, M, D), not padded
    weights: Floats  # (B, M, T), or empty if the loss does not use A
    states: Floats  # (B, T, D), output, not padded
    project: Floats  # (tasks, D, D), output: partial sums
    bias: Floats  # (tasks, D), output
    vectors: Floats  # (B, M, D), output, rows padded
    temperature: Floats  # (tasks, M), output


class Scratch(NamedTuple):
    """Scratch buffers of one CPU attention thread in the backward pass, reused for every text."""

    scores: Floats  # (T, M): gradient of Aᵀ, then of f
    inner: Floats  # (T, D): gradient of H Wᵀ + b
    states: Floats  # (T, D)
    embedding: Floats  # (M, D): gradient of S
    transposed: Floats  # (D, M): the same, transposed
    zeros: Floats


# The autograd function.


def cpu_attention(
    states: Tensor, mask: Tensor, parameters: AttentionParameters
) -> tuple[Tensor, Tensor]:
    """Compute text embeddings (B, M, D) and attention weights (B, M, T) on the CPU."""
    vectors = head_vectors(parameters).expand(states.shape[0], -1, -1)  # (B, M, D)
    if parameters.log_temperature is None:
        temperature = states.new_ones(parameters.heads)
    else:
        temperature = parameters.log_temperature.exp()
    outputs: tuple[Tensor, Tensor] = CpuAttention.apply(  # type: ignore[no-untyped-call]
        states, mask, vectors, parameters.w, parameters.b, temperature,
        (parameters.tanh, parameters.l2),
    )  # fmt: skip
    return outputs


def compile_attention(dtype: torch.dtype) -> None:
    """Compile the CPU attention kernel ahead of its first use by running a tiny example."""
    one = torch.ones(1, 1, 1, dtype=dtype, requires_grad=True)
    square, vector = one[0], one[0, 0]
    parameters = AttentionParameters(
        square, vector, square, square, square, None, 1, tanh=True, l2=True
    )
    embedding, weights = cpu_attention(one, torch.ones(1, 1, dtype=torch.bool), parameters)
    (embedding.sum() + weights.sum()).backward()  # type: ignore[no-untyped-call]


class CpuAttention(torch.autograd.Function):
    """Autograd function that runs LAMA attention on the CPU, forward and backward.

    Its inputs are the states, the mask, the head vectors G (B, M, D), W, b and τ.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        """Run CPU attention on a batch and store intermediate values for the backward pass."""
        *tensors, (with_tanh, with_l2) = rest
        vectors, w, b, temperature = (tensor.detach() for tensor in tensors)
        texts, words, width = states.shape
        sizes = _sizes(states, vectors.shape[1], with_tanh, with_l2)
        operands = _operands(sizes, states.detach(), mask, vectors, (w, b), temperature)
        rows, padded, heads = texts * words, sizes.padded, sizes.padded_heads
        counts = (rows * padded, rows * padded, rows * heads, rows, rows * heads)
        trace = Trace(*_empty_arrays(counts, states.dtype))
        embedding = states.new_empty(texts, sizes.heads, width)
        weights = states.new_empty(texts, sizes.heads, words)
        run_kernel(attend, sizes, operands, trace, _flat(embedding), _flat(weights))
        ctx.kept = sizes, operands, trace
        ctx.set_materialize_grads(False)
        return embedding, weights

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, embedding: Tensor | None, weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients of CPU attention for the states and all parameters.

        The order is that of the inputs: states, mask (None), G, W, b, τ, options (None).
        """
        sizes, operands, trace = ctx.kept
        like = torch.from_numpy(operands.bias[:0])
        texts, words, width, padded = sizes.texts, sizes.words, sizes.width, sizes.padded
        if embedding is None:
            embedding = like.new_zeros(texts, sizes.heads, width)
        states = like.new_empty(texts, words, width)
        vectors = like.new_empty(texts, sizes.heads, padded)
        temperature = like.new_empty(sizes.tasks, sizes.padded_heads)
        w, b = like.new_empty(width, width), like.new_empty(width)
        counts = (sizes.tasks * width * padded, sizes.tasks * padded)
        project_sums, bias_sums = _empty_arrays(counts, like.dtype)
        gradients = Gradients(
            embedding=_flat(embedding),
            weights=like.numpy() if weights is None else _flat(weights),
            states=_flat(states),
            project=project_sums,
            bias=bias_sums,
            vectors=_flat(vectors),
            temperature=_flat(temperature),
        )
        run_kernel(attend_backward, sizes, operands, trace, gradients)
        add_tasks(sizes, gradients, w.numpy(), b.numpy())
        return (
            states,
            None,
            vectors[:, :, :width],
            w,
            b,
            temperature.sum(0)[: sizes.heads],
            None,
        )


def _sizes(states: Tensor, heads: int, with_tanh: bool, with_l2: bool) -> Sizes:
    texts, words, width = states.shape
    lanes = VECTOR_BYTES // states.element_size()
    padded, padded_heads = -(-width // lanes) * lanes, -(-heads // lanes) * lanes
    tasks = min(TASKS, texts)
    return Sizes(texts, words, width, heads, padded, padded_heads, lanes, tasks, with_tanh, with_l2)


def _operands(
    sizes: Sizes,
    states: Tensor,
    mask: Tensor,
    vectors: Tensor,
    project: tuple[Tensor, Tensor],
    temperature: Tensor,
) -> Operands:
    texts, width, padded, heads = sizes.texts, sizes.width, sizes.padded, sizes.padded_heads
    counts = (width * padded, width * padded, padded, texts * padded * heads)
    operands = Operands(
        np.empty(texts, np.int64),
        _flat(mask),
        _flat(states),
        *_empty_arrays((*counts, texts * padded * heads, heads), states.dtype),
    )
    given = (*project, vectors, temperature)
    fill_operands(sizes, operands, *(tensor.contiguous().numpy() for tensor in given))
    return operands


def _empty_arrays(counts: Sequence[int], dtype: torch.dtype) -> Iterator[Floats]:
    """Yield uninitialized arrays for CPU attention that share one block of memory."""
    memory, end = torch.empty(sum(counts), dtype=dtype).numpy(), 0
    for count in counts:
        end += count
        yield memory[end - count : end]


def _flat(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy().reshape(-1)


# Forward pass.


@compiled
def fill_operands(
    sizes: Sizes, operands: Operands, w: Floats, b: Floats, vectors: Floats, temperature: Floats
) -> None:  # pragma: no cover
    """Copy the attention parameters into the zero-padded arrays of the CPU kernel.

    Also find the length of each text, from its mask.
    """
    width, padded, heads = sizes.width, sizes.padded, sizes.padded_heads
    operands.project[:] = 0
    operands.project_back[:] = 0
    operands.bias[:] = 0
    operands.vectors[:] = 0
    operands.vectors_back[:] = 0
    operands.temperature[:] = 1
    for i in range(width):
        operands.bias[i] = b[i]
        for j in range(width):
            operands.project_back[i * padded + j] = w[i, j]
            operands.project[j * padded + i] = w[i, j]
    for m in range(sizes.heads):
        operands.temperature[m] = temperature[m]
    for text in range(sizes.texts):
        length = sizes.words
        while length > 0 and not operands.mask[text * sizes.words + length - 1]:
            length -= 1
        operands.length[text] = length if length > 0 else sizes.words
        for m in range(sizes.heads):
            for j in range(width):
                value = vectors[text, m, j]
                operands.vectors_back[(text * heads + m) * padded + j] = value
                operands.vectors[(text * padded + j) * heads + m] = value


@compiled
def attend(
    counter: Integers,
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    embedding: Floats,
    weights: Floats,
) -> None:  # pragma: no cover
    """Run the CPU attention forward pass in one thread, taking texts from a shared counter.

    Every thread calls this function once; the threads share ``counter`` (1,).
    """
    padded, heads = sizes.padded, sizes.padded_heads
    zeros = np.zeros(max(padded, heads), trace.states.dtype)
    pooled = np.empty(heads * padded, trace.states.dtype)  # S of one text, padded
    text = take_next(at(counter, 0))
    while text < sizes.texts:
        length, row = operands.length[text], text * sizes.words
        copy_states_in(sizes, operands, trace, text)
        u = matrix(trace.scored, row * padded, padded)
        h = matrix(trace.states, row * padded, padded)
        right = matrix(operands.project, 0, padded)
        multiply(u, matrix(operands.bias, 0, 0), h, right, length, padded, sizes.width)
        _apply_tanh(trace.scored, row * padded, length * padded, sizes.lanes)
        f = matrix(trace.squashed, row * heads, heads)
        right = matrix(operands.vectors, text * padded * heads, heads)
        multiply(f, matrix(zeros, 0, 0), u, right, length, heads, sizes.width)
        if sizes.tanh:
            _apply_tanh(trace.squashed, row * heads, length * heads, sizes.lanes)
        weights_of_text(sizes, operands, trace, text)
        a = Matrix(at(trace.weights, row * heads), 1, heads)  # (M, T): Aᵀ read as A
        out = matrix(pooled, 0, padded)
        multiply(out, matrix(zeros, 0, 0), a, h, sizes.heads, padded, length)
        copy_outputs(sizes, trace, text, length, pooled, embedding, weights)
        text = take_next(at(counter, 0))


@compiled
def copy_states_in(
    sizes: Sizes, operands: Operands, trace: Trace, text: int
) -> None:  # pragma: no cover
    """Copy the encoder states of one text into the padded buffer of CPU attention."""
    for word in range(text * sizes.words, text * sizes.words + operands.length[text]):
        for j in range(sizes.width):
            trace.states[word * sizes.padded + j] = operands.states[word * sizes.width + j]
        for j in range(sizes.width, sizes.padded):
            trace.states[word * sizes.padded + j] = 0


@compiled
def _apply_tanh(values: Floats, start: int, count: int, lanes: int) -> None:  # pragma: no cover
    place = at(values, start)
    for j in range(0, count, lanes):
        store(place, j, tanh(load(place, j)))


@compiled
def weights_of_text(
    sizes: Sizes, operands: Operands, trace: Trace, text: int
) -> None:  # pragma: no cover
    """Compute the attention weights of one text on the CPU by a masked softmax.

    The scores are e = τ s / ‖s‖; the weights are stored as Aᵀ and are 0 where masked.
    """
    heads = sizes.padded_heads
    most = np.full(heads, -np.inf, trace.weights.dtype)
    total = np.zeros(heads, trace.weights.dtype)
    for t in range(text * sizes.words, text * sizes.words + operands.length[text]):
        square = total[0]  # 0, in the precision of the kernel
        for m in range(heads):
            square += trace.squashed[t * heads + m] ** 2
        trace.norm[t] = 1 if not sizes.l2 else (1 / np.sqrt(square) if square > 0 else 0)
        for m in range(heads):
            score = trace.squashed[t * heads + m] * trace.norm[t] * operands.temperature[m]
            trace.weights[t * heads + m] = score if operands.mask[t] else -np.inf
            most[m] = max(most[m], trace.weights[t * heads + m])
    for t in range(text * sizes.words, text * sizes.words + operands.length[text]):
        for m in range(heads):
            power = np.exp(trace.weights[t * heads + m] - most[m])
            trace.weights[t * heads + m] = power
            total[m] += power
    for t in range(text * sizes.words, text * sizes.words + operands.length[text]):
        for m in range(heads):
            trace.weights[t * heads + m] /= total[m]


@compiled
def copy_outputs(  # noqa: PLR0913 - two outputs and their sources
    sizes: Sizes,
    trace: Trace,
    text: int,
    length: int,
    pooled: Floats,
    embedding: Floats,
    weights: Floats,
) -> None:  # pragma: no cover
    """Copy the CPU attention results of one text into the output arrays of the batch."""
    for m in range(sizes.heads):
        for j in range(sizes.width):
            embedding[(text * sizes.heads + m) * sizes.width + j] = pooled[m * sizes.padded + j]
        row = (text * sizes.heads + m) * sizes.words
        for t in range(length):
            place = (text * sizes.words + t) * sizes.padded_heads + m
            weights[row + t] = trace.weights[place]
        for t in range(length, sizes.words):
            weights[row + t] = 0


# Backward pass.


@compiled
def attend_backward(
    counter: Integers, sizes: Sizes, operands: Operands, trace: Trace, gradients: Gradients
) -> None:  # pragma: no cover
    """Run the CPU attention backward pass in one thread, taking tasks from a shared counter."""
    padded, heads, kind = sizes.padded, sizes.padded_heads, trace.states.dtype
    scratch = Scratch(
        np.empty(sizes.words * heads, kind),
        np.empty(sizes.words * padded, kind),
        np.empty(sizes.words * padded, kind),
        np.zeros(heads * padded, kind),
        np.zeros(padded * heads, kind),
        np.zeros(max(padded, heads), kind),
    )
    task = take_next(at(counter, 0))
    while task < sizes.tasks:
        gradients.bias[task * padded : (task + 1) * padded] = 0
        gradients.temperature[task * heads : (task + 1) * heads] = 0
        for text in range(task, sizes.texts, sizes.tasks):
            weights_gradient(sizes, operands, trace, gradients, text, scratch)
            softmax_backward(sizes, operands, trace, text, scratch.scores)
            norm_backward(sizes, operands, trace, gradients, text, task, scratch.scores)
            scores_backward(sizes, operands, trace, gradients, text, scratch)
            tanh_backward(sizes, operands, trace, gradients, text, task, scratch.inner)
            states_gradient(sizes, operands, trace, gradients, text, task, scratch)
            copy_states_gradient(sizes, operands, text, scratch.states, gradients.states)
        task = take_next(at(counter, 0))


@compiled
def weights_gradient(
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    gradients: Gradients,
    text: int,
    scratch: Scratch,
) -> None:  # pragma: no cover
    """Compute the gradient of one text's attention weights in the CPU backward pass.

    The gradient of Aᵀ is H (dS)ᵀ, plus dA if the loss uses the weights directly.
    """
    heads, padded, length = sizes.padded_heads, sizes.padded, operands.length[text]
    for m in range(sizes.heads):
        for j in range(sizes.width):
            value = gradients.embedding[(text * sizes.heads + m) * sizes.width + j]
            scratch.embedding[m * padded + j] = value
            scratch.transposed[j * heads + m] = value
    h = matrix(trace.states, text * sizes.words * padded, padded)
    out, zeros = matrix(scratch.scores, 0, heads), matrix(scratch.zeros, 0, 0)
    multiply(out, zeros, h, matrix(scratch.transposed, 0, heads), length, heads, sizes.width)
    if len(gradients.weights):
        for m in range(sizes.heads):
            row = (text * sizes.heads + m) * sizes.words
            for t in range(length):
                scratch.scores[t * heads + m] += gradients.weights[row + t]


@compiled
def softmax_backward(
    sizes: Sizes, operands: Operands, trace: Trace, text: int, scores: Floats
) -> None:  # pragma: no cover
    """Backpropagate through the softmax of CPU attention, updating ``scores`` in place.

    ``scores`` (T, M) holds the gradient of Aᵀ at the start and that of e at the end.
    """
    heads, start = sizes.padded_heads, text * sizes.words * sizes.padded_heads
    mean = np.zeros(heads, scores.dtype)
    for t in range(operands.length[text]):
        for m in range(heads):
            mean[m] += scores[t * heads + m] * trace.weights[start + t * heads + m]
    for t in range(operands.length[text]):
        for m in range(heads):
            weight = trace.weights[start + t * heads + m]
            scores[t * heads + m] = weight * (scores[t * heads + m] - mean[m])


@compiled
def norm_backward(  # noqa: PLR0913 - one text of the batch
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    gradients: Gradients,
    text: int,
    task: int,
    scores: Floats,
) -> None:  # pragma: no cover
    """Backpropagate in place through the normalization and tanh of the CPU attention scores.

    ``scores`` (T, M) holds the gradient of e at the start and that of f at the end. The gradient of
    the temperature is added to ``gradients``.
    """
    heads, row = sizes.padded_heads, text * sizes.words
    for t in range(operands.length[text]):
        norm = trace.norm[row + t]
        along = norm * 0
        for m in range(heads):
            unit = trace.squashed[(row + t) * heads + m] * norm
            gradients.temperature[task * heads + m] += scores[t * heads + m] * unit
            scores[t * heads + m] *= operands.temperature[m]
            if sizes.l2:
                along += scores[t * heads + m] * unit
        for m in range(heads):
            s = trace.squashed[(row + t) * heads + m]
            score = (scores[t * heads + m] - s * norm * along) * norm
            scores[t * heads + m] = score * (1 - s * s) if sizes.tanh else score


@compiled
def scores_backward(
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    gradients: Gradients,
    text: int,
    scratch: Scratch,
) -> None:  # pragma: no cover
    """Backpropagate the CPU attention score gradients to the head vectors and projected states."""
    heads, padded, length = sizes.padded_heads, sizes.padded, operands.length[text]
    zeros = matrix(scratch.zeros, 0, 0)
    u = matrix(trace.scored, text * sizes.words * padded, padded)
    transposed = Matrix(at(scratch.scores, 0), 1, heads)  # (M, T)
    out = matrix(gradients.vectors, text * sizes.heads * padded, padded)
    multiply(out, zeros, transposed, u, sizes.heads, padded, length)
    right = matrix(operands.vectors_back, text * heads * padded, padded)
    left, out = matrix(scratch.scores, 0, heads), matrix(scratch.inner, 0, padded)
    multiply(out, zeros, left, right, length, padded, sizes.heads)


@compiled
def tanh_backward(  # noqa: PLR0913 - one text of the batch
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    gradients: Gradients,
    text: int,
    task: int,
    inner: Floats,
) -> None:  # pragma: no cover
    """Backpropagate in place through the tanh of the state projection in CPU attention.

    ``inner`` (T, D) holds the gradient of u at the start and that of H Wᵀ + b at the end. The
    gradient of b is added to ``gradients``.
    """
    padded, start = sizes.padded, text * sizes.words * sizes.padded
    for t in range(operands.length[text]):
        for j in range(padded):
            u = trace.scored[start + t * padded + j]
            value = inner[t * padded + j] * (1 - u * u)
            inner[t * padded + j] = value
            gradients.bias[task * padded + j] += value


@compiled
def states_gradient(  # noqa: PLR0913 - one text of the batch
    sizes: Sizes,
    operands: Operands,
    trace: Trace,
    gradients: Gradients,
    text: int,
    task: int,
    scratch: Scratch,
) -> None:  # pragma: no cover
    """Compute the CPU attention gradients of the states and the projection matrix.

    The states H are used twice: in the scores, as H Wᵀ, and in the embedding, S = A H.
    """
    heads, padded, length = sizes.padded_heads, sizes.padded, operands.length[text]
    h = matrix(trace.states, text * sizes.words * padded, padded)
    transposed = Matrix(at(scratch.inner, 0), 1, padded)  # (D, T)
    out = matrix(gradients.project, task * sizes.width * padded, padded)
    start = matrix(scratch.zeros, 0, 0) if text == task else out  # the first text of the task
    multiply(out, start, transposed, h, sizes.width, padded, length)
    out, left = matrix(scratch.states, 0, padded), matrix(scratch.inner, 0, padded)
    right = matrix(operands.project_back, 0, padded)
    multiply(out, matrix(scratch.zeros, 0, 0), left, right, length, padded, sizes.width)
    weights = matrix(trace.weights, text * sizes.words * heads, heads)
    multiply(out, out, weights, matrix(scratch.embedding, 0, padded), length, padded, sizes.heads)


@compiled
def copy_states_gradient(
    sizes: Sizes, operands: Operands, text: int, states: Floats, out: Floats
) -> None:  # pragma: no cover
    """Copy the gradient of one text's states to the CPU attention batch, with zeros for padding."""
    row, length = text * sizes.words, operands.length[text]
    for t in range(length):
        for j in range(sizes.width):
            out[(row + t) * sizes.width + j] = states[t * sizes.padded + j]
    for place in range((row + length) * sizes.width, (row + sizes.words) * sizes.width):
        out[place] = 0


@compiled
def add_tasks(sizes: Sizes, gradients: Gradients, w: Floats, b: Floats) -> None:  # pragma: no cover
    """Add up the CPU attention gradients of W and b over the partial sums of all tasks."""
    width, padded = sizes.width, sizes.padded
    w[:] = 0
    b[:] = 0
    for i in range(width):
        for task in range(sizes.tasks):
            row = (task * width + i) * padded
            for j in range(width):
                w[i, j] += gradients.project[row + j]
            b[i] += gradients.bias[task * padded + i]


KERNELS = (fill_operands, attend, attend_backward, add_tasks)  # the kernels that Python calls
