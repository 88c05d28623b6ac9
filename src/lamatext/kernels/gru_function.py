"""The compiled bi-GRU as a function torch can differentiate."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lamatext.kernels.gru_backward import Given, Sums, backward, backward_inputs, collect
from lamatext.kernels.gru_forward import forward
from lamatext.kernels.gru_layout import Floats, Plan, Trace, Weights, pack
from lamatext.kernels.simd import VECTOR_BYTES
from lamatext.kernels.threads import run_on_threads, threads_or
from lamatext.kernels.tile import ROWS

KERNELS = (pack, forward, backward, backward_inputs, collect)  # what is called from Python
SLOTS = 4  # parts of the weights' gradients: twice as many tasks, whatever the machine
SPARE: deque[Tensor] = deque(maxlen=4)  # memory of finished passes; fresh pages are slow to get


def plan_for(inputs: Tensor, lengths: Tensor, hidden: int) -> Plan:
    """Sort the texts and give each its rows."""
    texts, words, width = inputs.shape
    length = lengths.detach().numpy().astype(np.int64)
    text = np.argsort(-length, kind="stable")
    length = length[text]
    row = 1 + np.cumsum(length + 1) - (length + 1)
    lanes = VECTOR_BYTES // inputs.element_size()
    return Plan(
        text=text,
        length=length,
        row=row,
        texts=texts,
        words=words,
        inputs=width,
        hidden=hidden,
        rows=int(length.sum()) + texts + 1,
        padded_inputs=-(-width // lanes) * lanes,
        padded=-(-hidden // lanes) * lanes,
        lanes=lanes,
        group=ROWS * min(max(texts // 16, 1), 4),
    )


def pack_weights(plan: Plan, parameters: tuple[Tensor, ...]) -> Weights:
    """Both directions' parameters in the layout of the kernels."""
    width, h, padded = plan.inputs, plan.hidden, plan.padded
    sizes = (
        width * 3 * padded,
        3 * padded,
        h * 3 * padded,
        3 * padded,
        3 * padded * plan.padded_inputs,
        3 * padded * padded,
    )
    dtype = parameters[0].dtype
    weights = Weights(*(torch.zeros(2 * size, dtype=dtype).numpy() for size in sizes))
    for direction in range(2):
        own = tuple(
            p.detach().contiguous().numpy() for p in parameters[4 * direction : 4 * direction + 4]
        )
        pack(weights, plan, direction, own)
    return weights


class BiGru(torch.autograd.Function):
    """States (B, T, 2h) of inputs (B, T, E), lengths (B,) and the 8 parameters of an nn.GRU."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, lengths: Tensor, *parameters: Tensor) -> Tensor:
        """Run both directions; keep gates and states for ``backward``."""
        plan = plan_for(inputs, lengths, hidden=parameters[1].shape[1])
        weights = pack_weights(plan, parameters)
        states, memory = _forward(plan, weights, inputs)
        if any(ctx.needs_input_grad):
            ctx.kept = plan, weights
            ctx.memory = memory
            ctx.save_for_backward(inputs, *parameters)
        else:
            SPARE.append(memory)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, states_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the inputs and the parameters.

        The gradients of the gates replace the gates. Whoever goes back a second time pays for a
        second way forward.
        """
        plan, weights = ctx.kept
        inputs, *parameters = ctx.saved_tensors
        memory, ctx.memory = ctx.memory, None
        if memory is None:
            _, memory = _forward(plan, weights, inputs)
        trace = _trace(plan, memory)
        sums = _sums(plan, inputs)
        given = Given(_flat(inputs), _flat(states_grad))
        _on_threads(backward, plan, weights, trace, given, sums)
        inputs_grad = None
        if ctx.needs_input_grad[0]:
            inputs_grad = torch.empty_like(inputs, memory_format=torch.contiguous_format)
            _on_threads(backward_inputs, plan, weights, trace, _flat(inputs_grad))
        SPARE.append(memory)
        return inputs_grad, None, *_parameters_grad(plan, sums, parameters)


def _forward(plan: Plan, weights: Weights, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The states, and the memory that holds the trace."""
    states = inputs.new_empty(plan.texts, plan.words, 2 * plan.hidden)
    memory = _memory(2 * plan.rows * 5 * plan.padded, inputs.dtype)
    _on_threads(forward, plan, weights, _flat(inputs), _trace(plan, memory), _flat(states))
    return states, memory


def _memory(size: int, dtype: torch.dtype) -> Tensor:
    """At least ``size`` numbers, if possible where a finished pass had its own."""
    with suppress(IndexError):  # none is spare
        memory = SPARE.pop()
        if memory.dtype == dtype and size <= len(memory) <= 4 * size:
            return memory
    return torch.empty(size, dtype=dtype)


def _trace(plan: Plan, memory: Tensor) -> Trace:
    gates, states = 2 * plan.rows * 4 * plan.padded, 2 * plan.rows * plan.padded
    return Trace(memory[:gates].numpy(), memory[gates : gates + states].numpy())


def _sums(plan: Plan, like: Tensor) -> Sums:
    slots = min(SLOTS, -(-plan.texts // plan.group))
    columns = (plan.inputs * 3, plan.hidden * 3, 4)
    sizes = (2 * slots * count * plan.padded for count in columns)
    return Sums(*(torch.empty(size, dtype=like.dtype).numpy() for size in sizes))


def _parameters_grad(plan: Plan, sums: Sums, parameters: list[Tensor]) -> list[Tensor]:
    totals = [torch.empty_like(p, memory_format=torch.contiguous_format) for p in parameters]
    for direction in range(2):
        own = tuple(total.numpy() for total in totals[4 * direction : 4 * direction + 4])
        collect(plan, direction, sums, own)
    return totals


def _on_threads(kernel: Callable[..., None], *arguments: Any) -> None:
    """Let threads share the tasks of ``kernel`` by a counter."""
    counter = np.zeros(1, np.int64)
    threads = threads_or(torch.get_num_threads())
    run_on_threads(lambda: kernel(counter, *arguments), threads)


def _flat(tensor: Tensor) -> Floats:
    floats: Floats = tensor.detach().contiguous().view(-1).numpy()
    return floats
