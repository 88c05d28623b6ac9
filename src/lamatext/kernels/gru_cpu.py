"""The bidirectional GRU on the CPU, compiled by numba: forward pass, backward pass, autograd.

Reference implementation: ``lamatext.kernels.gru_dispatch.packed_gru`` (``torch.nn.GRU`` on packed
sequences); the tests compare states and all gradients with it.

Forward pass (⊙ is the elementwise product):

    r = σ(W_ir x + b_ir + W_hr h + b_hr)      v = W_hn h + b_hn
    z = σ(W_iz x + b_iz + W_hz h + b_hz)      n = tanh(W_in x + b_in + r ⊙ v)
    h ← n + z ⊙ (h − n)

Backward pass, with δ the gradient of the state after a word:

    δn = δ (1 − z) (1 − n²)            δv = r δn
    δr = v δn r (1 − r)                δz = δ (h − n) z (1 − z)
    δ before the word = δ z + W_hrᵀ δr + W_hzᵀ δz + W_hnᵀ δv

Letters: B texts, T words of the longest text, E input width, h hidden units per direction, H = h
rounded up to whole SIMD vectors, N rows. The words of all texts are stored consecutively as rows,
longest text first, with one zero row before each text and after the last; padding takes no rows.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lamatext.kernels.kernel_threads import run_kernel
from lamatext.kernels.matmul_tile import ROWS, Floats, Integers, Matrix, matrix, multiply
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import VECTOR_BYTES, at, load, shift, store, take_next, tanh

CHUNK = 64  # rows per matrix product of the backward pass: the operands fit the L1 cache
SLOTS = 4  # partial sums of the weight gradients; a constant, so results do not depend on threads
SPARE: deque[Floats] = deque(maxlen=4)  # trace buffers to reuse: fresh memory pages are slow
SPARE_WEIGHTS: deque[tuple[Any, "Weights"]] = deque(maxlen=4)  # the same, with their sizes


class Layout(NamedTuple):
    """Dimensions of a CPU GRU batch and the order in which its texts are stored."""

    text: Integers  # (B,) index in the batch of the text at this place
    length: Integers  # (B,) its number of words
    row: Integers  # (B,) the row of its first word
    texts: int  # B
    words: int  # T
    inputs: int  # E
    hidden: int  # h
    rows: int  # N
    padded_inputs: int  # E rounded up to whole vectors
    padded: int  # H: h rounded up to whole vectors
    lanes: int  # numbers per SIMD vector
    group: int  # texts that advance through time together


class Task(NamedTuple):
    """Work item for one thread of the CPU GRU: a range of texts in one direction."""

    direction: int  # 0 reads from the first word on, 1 from the last word back
    first: int
    last: int


class Weights(NamedTuple):
    """Weights of the CPU GRU in both directions, zero-padded and ready for matrix products."""

    inputs: Floats  # (2, E, 3H) gates n, r, z
    inputs_bias: Floats  # (2, 3H) n; r and z with the recurrent bias added
    hidden: Floats  # (2, h, 3H) gates r, z, n
    hidden_bias: Floats  # (2, 3H) 0, 0, n
    inputs_back: Floats  # (2, 3H, E) gates n, r, z; E padded
    hidden_back: Floats  # (2, 3H, H) gates r, z, n


class Trace(NamedTuple):
    """Gates and states that the CPU GRU stores for its backward pass."""

    gates: Floats  # (2, N, 4H) n, r, z and v: one row is an operand of both matrix products
    states: Floats  # (2, N, H) the state after each word; zero in the rows between texts


class Incoming(NamedTuple):
    """Input arrays of the CPU GRU backward pass, in batch order."""

    inputs: Floats  # (B, T, E)
    states_grad: Floats  # (B, T, 2h)


class Sums(NamedTuple):
    """Partial sums of the CPU GRU's weight gradients, which threads compute independently.

    There are S sums of each kind, which are added in a fixed order at the end.
    """

    inputs: Floats  # (2, S, E, 3H) gates n, r, z
    hidden: Floats  # (2, S, h, 3H) gates r, z, n
    bias: Floats  # (2, S, 4H) gates n, r, z, v


# The autograd function.


class CpuBiGru(torch.autograd.Function):
    """Autograd function that runs a bidirectional GRU on the CPU.

    It takes inputs (B, T, E), lengths (B,) and 8 parameters, and returns the states (B, T, 2h).
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, lengths: Tensor, *parameters: Tensor) -> Tensor:
        """Run a bidirectional GRU on the CPU and save its gates for the backward pass."""
        layout = layout_of(inputs, lengths, hidden=parameters[1].shape[1])
        weights = pack_weights(layout, parameters)
        states, memory = _run_forward(layout, weights, inputs)
        if any(ctx.needs_input_grad):
            ctx.layout, ctx.weights, ctx.memory = layout, weights, memory
            ctx.save_for_backward(inputs, *parameters)
        else:
            SPARE.append(memory)
            _reuse_weights(layout, weights)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, states_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the CPU GRU for its inputs and parameters.

        The gate gradients overwrite the gates, so a second backward pass repeats the forward pass.
        """
        layout, weights, memory = ctx.layout, ctx.weights, ctx.memory
        inputs, *parameters = ctx.saved_tensors
        ctx.weights = ctx.memory = None
        if memory is None:
            weights = pack_weights(layout, parameters)
            _, memory = _run_forward(layout, weights, inputs)
        trace = _trace(layout, memory)
        sums = _empty_sums(layout, weights.inputs.dtype)
        incoming = Incoming(_flat(inputs), _flat(states_grad))
        run_kernel(backward, layout, weights, trace, incoming, sums)
        inputs_grad = None
        if ctx.needs_input_grad[0]:
            inputs_grad = torch.empty_like(inputs, memory_format=torch.contiguous_format)
            run_kernel(backward_inputs, layout, weights, trace, _flat(inputs_grad))
        SPARE.append(memory)
        _reuse_weights(layout, weights)
        return inputs_grad, None, *_parameter_gradients(layout, sums, parameters)


def layout_of(inputs: Tensor, lengths: Tensor, hidden: int) -> Layout:
    """Sort the texts of a batch by length for the CPU GRU and lay them out in memory."""
    texts, words, width = inputs.shape
    lanes = VECTOR_BYTES // inputs.element_size()
    text, length, row = np.empty((3, texts), np.int64)
    rows = sort_texts(lengths.detach().numpy().astype(np.int64), words, text, length, row)
    if not rows:
        raise ValueError(
            f"lengths must be {texts} numbers from 1 to {words}, got {lengths.tolist()}."
        )
    return Layout(
        text=text,
        length=length,
        row=row,
        texts=texts,
        words=words,
        inputs=width,
        hidden=hidden,
        rows=rows,
        padded_inputs=-(-width // lanes) * lanes,
        padded=-(-hidden // lanes) * lanes,
        lanes=lanes,
        group=ROWS * min(max(texts // 16, 1), 4),
    )


def pack_weights(layout: Layout, parameters: Sequence[Tensor]) -> Weights:
    """Copy the weights of both GRU directions into the memory layout of the CPU kernel."""
    weights = _empty_weights(layout, parameters[0].dtype)
    own = [p.detach().contiguous().numpy() for p in parameters]
    pack(weights, layout, tuple(own[:4]), tuple(own[4:]))
    return weights


def _empty_weights(layout: Layout, dtype: torch.dtype) -> Weights:
    """Return zero-padded weight arrays for the CPU GRU, reusing old arrays if they fit.

    Only the padding is sure to be zero; the other numbers are arbitrary.
    """
    with suppress(IndexError):  # SPARE_WEIGHTS is empty
        sizes, weights = SPARE_WEIGHTS.pop()
        if sizes == (layout.inputs, layout.hidden, layout.lanes):
            return weights
    width, h, padded = layout.inputs, layout.hidden, layout.padded
    counts = (
        width * 3 * padded,
        3 * padded,
        h * 3 * padded,
        3 * padded,
        3 * padded * layout.padded_inputs,
        3 * padded * padded,
    )
    return Weights(*(torch.zeros(2 * count, dtype=dtype).numpy() for count in counts))


def _reuse_weights(layout: Layout, weights: Weights) -> None:
    """Keep the weight arrays of a finished CPU GRU pass for a later one."""
    SPARE_WEIGHTS.append(((layout.inputs, layout.hidden, layout.lanes), weights))


def _run_forward(layout: Layout, weights: Weights, inputs: Tensor) -> tuple[Tensor, Floats]:
    """Run the CPU GRU forward pass; return the states and the buffer that holds the trace."""
    states = inputs.new_empty(layout.texts, layout.words, 2 * layout.hidden)
    memory = _trace_memory(2 * layout.rows * 5 * layout.padded, weights.inputs.dtype)
    run_kernel(forward, layout, weights, _flat(inputs), _trace(layout, memory), _flat(states))
    return states, memory


def _trace_memory(size: int, dtype: "np.dtype[Any]") -> Floats:
    """Return a buffer of ``size`` elements for the CPU GRU trace, reused from an earlier pass."""
    with suppress(IndexError):  # SPARE is empty
        memory = SPARE.pop()
        if memory.dtype == dtype and size <= len(memory) <= 4 * size:
            return memory
    return _empty_floats(size, dtype)


def _trace(layout: Layout, memory: Floats) -> Trace:
    gates, states = 2 * layout.rows * 4 * layout.padded, 2 * layout.rows * layout.padded
    return Trace(memory[:gates], memory[gates : gates + states])


def _empty_floats(size: int, dtype: "np.dtype[Any]") -> Floats:
    """Allocate an uninitialized array for the CPU GRU with torch, aligned to cache lines."""
    kind = torch.float32 if dtype == np.float32 else torch.float64
    floats: Floats = torch.empty(size, dtype=kind).numpy()
    return floats


def _empty_sums(layout: Layout, dtype: "np.dtype[Any]") -> Sums:
    slots = min(SLOTS, -(-layout.texts // layout.group))
    inputs, hidden, bias = (
        2 * slots * count * layout.padded for count in (layout.inputs * 3, layout.hidden * 3, 4)
    )
    memory = _empty_floats(inputs + hidden + bias, dtype)
    return Sums(memory[:inputs], memory[inputs : inputs + hidden], memory[inputs + hidden :])


def _parameter_gradients(layout: Layout, sums: Sums, parameters: list[Tensor]) -> list[Tensor]:
    own = [np.empty(tuple(p.shape), sums.bias.dtype) for p in parameters]
    collect(layout, sums, tuple(own[:4]), tuple(own[4:]))
    return [torch.from_numpy(total) for total in own]


def _flat(tensor: Tensor) -> Floats:
    floats: Floats = tensor.detach().contiguous().numpy().reshape(-1)
    return floats


# Layout of the parameters, and helpers that both passes share.


@compiled
def sort_texts(
    lengths: Integers, words: int, text: Integers, length: Integers, row: Integers
) -> int:  # pragma: no cover
    """Sort the texts of a CPU GRU batch by length (longest first) and assign storage rows.

    Texts of the same length keep their order. Return the number of rows, or 0 if a length is less
    than 1 or greater than ``words``.
    """
    if len(lengths) != len(text):
        return 0
    starts = np.zeros(words + 1, np.int64)  # first place of each length, behind the longer ones
    for i in range(len(lengths)):
        if lengths[i] < 1 or lengths[i] > words:
            return 0
        starts[lengths[i] - 1] += 1
    for shorter in range(words - 1, -1, -1):
        starts[shorter] += starts[shorter + 1]
    for i in range(len(lengths)):
        place = starts[lengths[i]]
        starts[lengths[i]] += 1
        text[place] = i
        length[place] = lengths[i]
    rows = 1
    for place in range(len(text)):
        row[place] = rows
        rows += length[place] + 1
    return rows


@compiled
def pack(weights: Weights, layout: Layout, ahead: Any, back: Any) -> None:  # pragma: no cover
    """Copy torch's GRU parameters of both directions into the CPU kernel's arrays."""
    _pack_direction(weights, layout, 0, ahead)
    _pack_direction(weights, layout, 1, back)


@compiled
def _pack_direction(
    weights: Weights, layout: Layout, direction: int, parameters: Any
) -> None:  # pragma: no cover
    """Copy the torch GRU parameters of one direction into the arrays of the CPU kernel."""
    inputs, hidden, inputs_bias, hidden_bias = parameters
    width, h, padded = layout.inputs, layout.hidden, layout.padded
    for gate in range(3):  # in torch's order r, z, n
        rotated = ((gate + 1) % 3) * padded  # offset of the same gate in the order n, r, z
        straight = gate * padded
        for unit in range(h):
            source = gate * h + unit
            for k in range(width):
                value = inputs[source, k]
                to = (direction * width + k) * 3 * padded + rotated + unit
                weights.inputs[to] = value
                to = (direction * 3 * padded + rotated + unit) * layout.padded_inputs + k
                weights.inputs_back[to] = value
            for k in range(h):
                value = hidden[source, k]
                to = (direction * h + k) * 3 * padded + straight + unit
                weights.hidden[to] = value
                to = (direction * 3 * padded + straight + unit) * padded + k
                weights.hidden_back[to] = value
            to = direction * 3 * padded + rotated + unit
            recurrent = hidden_bias[source]
            weights.inputs_bias[to] = inputs_bias[source] + (recurrent if gate < 2 else 0)
            to = direction * 3 * padded + straight + unit
            weights.hidden_bias[to] = recurrent if gate == 2 else 0


@compiled
def active_texts(layout: Layout, task: Task, step: int) -> int:  # pragma: no cover
    """Count the texts of a CPU GRU task that have more than ``step`` words."""
    count = task.last - task.first
    while count > 0 and layout.length[task.first + count - 1] <= step:
        count -= 1
    return count


@compiled
def row_of(layout: Layout, direction: int, place: int, step: int) -> Any:  # pragma: no cover
    """Return the storage row of the word that the CPU GRU reads at a time step of a text.

    ``place`` is the position of the text in the sorted batch.
    """
    word = step if direction == 0 else layout.length[place] - 1 - step
    return direction * layout.rows + layout.row[place] + word


@compiled
def _copy(target: Any, source: Any, count: int) -> None:  # pragma: no cover
    for j in range(count):
        target[j] = source[j]


@compiled
def _clear(target: Any, count: int) -> None:  # pragma: no cover
    for j in range(count):
        target[j] = 0


@compiled
def _add(target: Any, source: Any, count: int) -> None:  # pragma: no cover
    for j in range(count):
        target[j] += source[j]


# Forward pass: all input products of a few texts, then their steps through time.


@compiled
def forward(
    counter: Integers, layout: Layout, weights: Weights, inputs: Floats, trace: Trace, out: Floats
) -> None:  # pragma: no cover
    """Run the CPU GRU forward pass in one thread, which takes tasks from a shared counter.

    ``counter`` (1,) is shared by the threads; ``inputs`` is (B, T, E), ``out`` (B, T, 2h).
    """
    tasks = 2 * -(-layout.texts // layout.group)
    number = take_next(at(counter, 0))
    while number < tasks:
        first = number // 2 * layout.group
        task = Task(number % 2, first, min(first + layout.group, layout.texts))
        project_inputs(layout, task, weights, inputs, trace)
        step_forward(layout, task, weights, trace)
        copy_states_out(layout, task, trace, out)
        number = take_next(at(counter, 0))


@compiled
def project_inputs(
    layout: Layout, task: Task, weights: Weights, inputs: Floats, trace: Trace
) -> None:  # pragma: no cover
    """Compute the input projections W_i x + b of the CPU GRU gates for all words of a task."""
    width, padded = layout.inputs, layout.padded
    for place in range(task.first, task.last):
        row = task.direction * layout.rows + layout.row[place]
        multiply(
            matrix(trace.gates, row * 4 * padded, 4 * padded),
            matrix(weights.inputs_bias, task.direction * 3 * padded, 0),
            matrix(inputs, layout.text[place] * layout.words * width, width),
            matrix(weights.inputs, task.direction * width * 3 * padded, 3 * padded),
            layout.length[place],
            3 * padded,
            width,
        )


@compiled
def step_forward(
    layout: Layout, task: Task, weights: Weights, trace: Trace
) -> None:  # pragma: no cover
    """Run the CPU GRU step by step over the texts of one thread's task."""
    h, padded = layout.hidden, layout.padded
    hidden = np.zeros((task.last - task.first) * padded, trace.states.dtype)  # (group, H)
    recurrent = np.empty((task.last - task.first) * 3 * padded, trace.states.dtype)  # (group, 3H)
    for step in range(layout.length[task.first]):
        count = active_texts(layout, task, step)
        multiply(
            matrix(recurrent, 0, 3 * padded),
            matrix(weights.hidden_bias, task.direction * 3 * padded, 0),
            matrix(hidden, 0, padded),
            matrix(weights.hidden, task.direction * h * 3 * padded, 3 * padded),
            count,
            3 * padded,
            h,
        )
        for i in range(count):
            row = row_of(layout, task.direction, task.first + i, step)
            gru_cell(
                layout,
                at(trace.gates, row * 4 * padded),
                at(recurrent, i * 3 * padded),
                at(hidden, i * padded),
                at(trace.states, row * padded),
            )


@compiled
def gru_cell(
    layout: Layout, gates: Any, recurrent: Any, hidden: Any, state: Any
) -> None:  # pragma: no cover
    """Apply the GRU cell equations to one word on the CPU, given the recurrent terms W_h h."""
    padded = layout.padded
    for j in range(0, padded, layout.lanes):
        r = _sigmoid(load(gates, padded + j) + load(recurrent, j))
        z = _sigmoid(load(gates, 2 * padded + j) + load(recurrent, padded + j))
        v = load(recurrent, 2 * padded + j)
        n = tanh(load(gates, j) + r * v)
        new = n + z * (load(hidden, j) - n)
        store(gates, j, n)
        store(gates, padded + j, r)
        store(gates, 2 * padded + j, z)
        store(gates, 3 * padded + j, v)
        store(hidden, j, new)
        store(state, j, new)


@compiled
def _sigmoid(vector: Any) -> Any:  # pragma: no cover
    return tanh(vector * 0.5) * 0.5 + 0.5  # σ(x) = (1 + tanh(x/2)) / 2


@compiled
def copy_states_out(
    layout: Layout, task: Task, trace: Trace, out: Floats
) -> None:  # pragma: no cover
    """Copy the states that a CPU GRU task has computed into the output batch, padded with zeros.

    Also clear the row before the first step, which the backward pass reads as the initial state.
    """
    h, padded = layout.hidden, layout.padded
    for place in range(task.first, task.last):
        length, row = layout.length[place], task.direction * layout.rows + layout.row[place]
        text = at(out, layout.text[place] * layout.words * 2 * h + task.direction * h)
        for word in range(length):
            _copy(shift(text, word * 2 * h), at(trace.states, (row + word) * padded), h)
        for word in range(length, layout.words):
            _clear(shift(text, word * 2 * h), h)
        _clear(at(trace.states, row_of(layout, task.direction, place, -1) * padded), padded)


# Backward pass: the steps back through time, then the weight gradients.


@compiled
def backward(
    counter: Integers,
    layout: Layout,
    weights: Weights,
    trace: Trace,
    incoming: Incoming,
    sums: Sums,
) -> None:  # pragma: no cover
    """Run the CPU GRU backward pass in one thread, which takes tasks from a shared counter.

    ``counter`` (1,) is shared by the threads; the gate gradients overwrite the gates.
    """
    slots = len(sums.bias) // (8 * layout.padded)
    groups = -(-layout.texts // layout.group)
    number = take_next(at(counter, 0))
    while number < 2 * slots:
        direction, slot = number % 2, number // 2
        own = partial_sums(layout, direction * slots + slot, sums)
        for group in range(slot, groups, slots):
            first = group * layout.group
            task = Task(direction, first, min(first + layout.group, layout.texts))
            step_backward(layout, task, weights, trace, incoming.states_grad)
            add_weight_gradients(layout, task, trace, incoming.inputs, own, group == slot)
        number = take_next(at(counter, 0))


@compiled
def partial_sums(layout: Layout, index: int, sums: Sums) -> Any:  # pragma: no cover
    """Return one partial sum of the CPU GRU's weight gradients and set its bias sum to zero.

    The other sums need not be cleared: the first product replaces their content.
    """
    padded = layout.padded
    inputs = at(sums.inputs, index * layout.inputs * 3 * padded)
    hidden = at(sums.hidden, index * layout.hidden * 3 * padded)
    bias = at(sums.bias, index * 4 * padded)
    _clear(bias, 4 * padded)
    return Matrix(inputs, 3 * padded, 1), Matrix(hidden, 3 * padded, 1), bias


@compiled
def step_backward(
    layout: Layout, task: Task, weights: Weights, trace: Trace, states_grad: Floats
) -> None:  # pragma: no cover
    """Backpropagate through time in the CPU GRU, overwriting the gates with their gradients."""
    h, padded = layout.hidden, layout.padded
    delta = np.zeros((task.last - task.first) * padded, states_grad.dtype)  # (group, H)
    gradient = np.empty((task.last - task.first) * 3 * padded, states_grad.dtype)  # (group, 3H)
    for step in range(layout.length[task.first] - 1, -1, -1):
        count = active_texts(layout, task, step)
        for i in range(count):
            place = task.first + i
            row = row_of(layout, task.direction, place, step)
            before = row_of(layout, task.direction, place, step - 1)
            word = row - task.direction * layout.rows - layout.row[place]
            source = (layout.text[place] * layout.words + word) * 2 * h + task.direction * h
            _add(at(delta, i * padded), at(states_grad, source), h)
            gru_cell_backward(
                layout,
                at(trace.gates, row * 4 * padded),
                at(trace.states, before * padded),
                at(delta, i * padded),
                at(gradient, i * 3 * padded),
            )
        multiply(
            matrix(delta, 0, padded),
            matrix(delta, 0, padded),
            matrix(gradient, 0, 3 * padded),
            matrix(weights.hidden_back, task.direction * 3 * padded * padded, padded),
            count,
            padded,
            3 * padded,
        )


@compiled
def gru_cell_backward(
    layout: Layout, gates: Any, state: Any, delta: Any, gradient: Any
) -> None:  # pragma: no cover
    """Backpropagate through the GRU cell for one word on the CPU, given the previous state."""
    padded = layout.padded
    for j in range(0, padded, layout.lanes):
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
        store(gradient, j, dr)
        store(gradient, padded + j, dz)
        store(gradient, 2 * padded + j, dv)


@compiled
def add_weight_gradients(
    layout: Layout, task: Task, trace: Trace, inputs: Floats, sums: Any, is_first: bool
) -> None:  # pragma: no cover
    """Add the weight gradients of one CPU GRU task to the partial sums.

    The gradients are δ(W_i) = Σ δg xᵀ and δ(W_h) = Σ δg hᵀ. Texts are read without a gap, so that
    short ones share a chunk; the zero rows between them add nothing. The first task replaces what
    is in the sums.
    """
    inputs_sum, hidden_sum, bias_sum = sums
    width, padded = layout.inputs, layout.padded
    previous = -1 if task.direction == 0 else 1  # offset of the row with the state before the word
    chunk = np.empty(CHUNK * width, inputs.dtype)  # (CHUNK, E)
    zeros = matrix(np.zeros(3 * padded, inputs.dtype), 0, 0)
    place, word = task.first, 0
    row = task.direction * layout.rows + layout.row[task.first]
    last = task.last - 1
    end = task.direction * layout.rows + layout.row[last] + layout.length[last]
    while row < end:
        depth = min(CHUNK, end - row)
        for i in range(depth):
            gates = at(trace.gates, (row + i) * 4 * padded)
            if word < layout.length[place]:
                source = at(inputs, (layout.text[place] * layout.words + word) * width)
                _copy(at(chunk, i * width), source, width)
                _add(bias_sum, gates, 4 * padded)
                word += 1
            else:
                _clear(at(chunk, i * width), width)
                _clear(gates, 4 * padded)
                place, word = place + 1, 0
        multiply(
            inputs_sum,
            zeros if is_first else inputs_sum,
            Matrix(at(chunk, 0), 1, width),
            matrix(trace.gates, row * 4 * padded, 4 * padded),
            width,
            3 * padded,
            depth,
        )
        multiply(
            hidden_sum,
            zeros if is_first else hidden_sum,
            Matrix(at(trace.states, (row + previous) * padded), 1, padded),
            matrix(trace.gates, row * 4 * padded + padded, 4 * padded),
            layout.hidden,
            3 * padded,
            depth,
        )
        is_first = False
        row += depth


@compiled
def backward_inputs(
    counter: Integers, layout: Layout, weights: Weights, trace: Trace, out: Floats
) -> None:  # pragma: no cover
    """Compute the input gradients (B, T, E) of the CPU GRU over both directions."""
    width = layout.padded_inputs
    block = np.empty(CHUNK * width, out.dtype)  # (CHUNK, E)
    place = take_next(at(counter, 0))
    while place < layout.texts:
        length = layout.length[place]
        text = at(out, layout.text[place] * layout.words * layout.inputs)
        for word in range(0, length, CHUNK):
            count = min(CHUNK, length - word)
            _clear(at(block, 0), count * width)
            for direction in range(2):
                row = direction * layout.rows + layout.row[place] + word
                multiply(
                    matrix(block, 0, width),
                    matrix(block, 0, width),
                    matrix(trace.gates, row * 4 * layout.padded, 4 * layout.padded),
                    matrix(weights.inputs_back, direction * 3 * layout.padded * width, width),
                    count,
                    width,
                    3 * layout.padded,
                )
            for i in range(count):
                _copy(shift(text, (word + i) * layout.inputs), at(block, i * width), layout.inputs)
        _clear(shift(text, length * layout.inputs), (layout.words - length) * layout.inputs)
        place = take_next(at(counter, 0))


@compiled
def collect(layout: Layout, sums: Sums, ahead: Any, back: Any) -> None:  # pragma: no cover
    """Add up the CPU GRU's partial weight gradients and write the totals in torch's layout."""
    _collect_direction(layout, 0, sums, ahead)
    _collect_direction(layout, 1, sums, back)


@compiled
def _collect_direction(
    layout: Layout, direction: int, sums: Sums, parameters: Any
) -> None:  # pragma: no cover
    """Add up the CPU GRU's weight gradients for one direction and write them in torch's layout."""
    inputs, hidden, inputs_bias, hidden_bias = parameters
    width, h, padded = layout.inputs, layout.hidden, layout.padded
    slots = len(sums.bias) // (8 * padded)
    in_total, in_size = direction * slots * width * 3 * padded, width * 3 * padded
    hid_total, hid_size = direction * slots * h * 3 * padded, h * 3 * padded
    bias_total = direction * slots * 4 * padded
    for slot in range(1, slots):
        _add(at(sums.inputs, in_total), at(sums.inputs, in_total + slot * in_size), in_size)
        _add(at(sums.hidden, hid_total), at(sums.hidden, hid_total + slot * hid_size), hid_size)
        _add(at(sums.bias, bias_total), at(sums.bias, bias_total + slot * 4 * padded), 4 * padded)
    for gate in range(3):
        rotated = ((gate + 1) % 3) * padded
        straight = gate * padded
        for unit in range(h):
            to = gate * h + unit
            for k in range(width):
                inputs[to, k] = sums.inputs[in_total + k * 3 * padded + rotated + unit]
            for k in range(h):
                hidden[to, k] = sums.hidden[hid_total + k * 3 * padded + straight + unit]
            inputs_bias[to] = sums.bias[bias_total + rotated + unit]
            hidden_bias[to] = sums.bias[bias_total + padded + straight + unit]


# The kernels that Python calls.
KERNELS = (sort_texts, pack, forward, backward, backward_inputs, collect)
