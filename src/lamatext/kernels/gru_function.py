"""The compiled bi-GRU as a function torch can differentiate."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lamatext.kernels.gru_backward import Given, Gradients, backward, backward_inputs, collect
from lamatext.kernels.gru_forward import forward
from lamatext.kernels.gru_layout import Floats, Plan, Trace, Weights, pack
from lamatext.kernels.simd import VECTOR_BYTES
from lamatext.kernels.workers import run_on_threads

KERNELS = (pack, forward, backward, backward_inputs, collect)  # what is called from Python
GROUP = 4
SLOTS = 4  # parts of the weights' gradients: twice as many tasks, whatever the machine


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
        group=GROUP,
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
        trace = Trace(
            gates=_empty(2 * plan.rows * 4 * plan.padded, inputs),
            states=_empty(2 * plan.rows * plan.padded, inputs),
        )
        out = inputs.new_empty(plan.texts, plan.words, 2 * plan.hidden)
        _on_threads(forward, plan, weights, _flat(inputs), trace, _flat(out))
        ctx.kept = plan, weights, trace
        ctx.save_for_backward(inputs, *parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, out_grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the inputs and the parameters, each only where it is needed."""
        plan, weights, trace = ctx.kept
        inputs, *parameters = ctx.saved_tensors
        slots = min(SLOTS, -(-plan.texts // plan.group))
        grads = Gradients(
            gates=_empty(2 * plan.rows * 4 * plan.padded, inputs),
            inputs=_empty(2 * slots * plan.inputs * 3 * plan.padded, inputs),
            hidden=_empty(2 * slots * plan.hidden * 3 * plan.padded, inputs),
            bias=_empty(2 * slots * 4 * plan.padded, inputs),
        )
        given = Given(_flat(inputs), _flat(out_grad))
        _on_threads(backward, plan, weights, trace, given, grads)
        inputs_grad = None
        if ctx.needs_input_grad[0]:
            inputs_grad = torch.empty_like(inputs, memory_format=torch.contiguous_format)
            _on_threads(backward_inputs, plan, weights, grads, _flat(inputs_grad))
        return inputs_grad, None, *_parameters_grad(plan, grads, parameters)


def _parameters_grad(plan: Plan, grads: Gradients, parameters: list[Tensor]) -> list[Tensor]:
    totals = [torch.empty_like(p, memory_format=torch.contiguous_format) for p in parameters]
    for direction in range(2):
        own = tuple(total.numpy() for total in totals[4 * direction : 4 * direction + 4])
        collect(plan, direction, grads, own)
    return totals


def _on_threads(kernel: Callable[..., None], *arguments: Any) -> None:
    """Let threads share the tasks of ``kernel`` by a counter."""
    counter = np.zeros(1, np.int64)
    run_on_threads(lambda: kernel(counter, *arguments), torch.get_num_threads())


def _empty(size: int, like: Tensor) -> Floats:
    floats: Floats = torch.empty(size, dtype=like.dtype).numpy()  # aligned to cache lines
    return floats


def _flat(tensor: Tensor) -> Floats:
    floats: Floats = tensor.detach().contiguous().view(-1).numpy()
    return floats
