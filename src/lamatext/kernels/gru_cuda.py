"""The bi-GRU on an NVIDIA GPU: the whole recurrence as one launch each way.

At the sizes of this product (50 units, 32 texts) cuDNN is bound by its launches for every word;
here a text's recurrence stays on one multiprocessor. The input projections and the gradients of
the weights are matrix products of torch.

Shapes: B texts, T words of the longest, E input width, H hidden units of a direction.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

MOST_UNITS = 64  # a thread keeps a row of the weights in registers

Launch = Callable[..., None]


@cache
def kernels(hidden: int) -> tuple[Launch, Launch] | None:
    """The compiled forward and backward passes; None where this torch cannot compile them."""
    source = f"#define H {hidden}\n" + files("lamatext.kernels").joinpath("gru_cuda.cu").read_text(
        encoding="utf-8"
    )
    try:
        compile_kernel = torch.cuda._compile_kernel
        return compile_kernel(source, "gru_forward"), compile_kernel(source, "gru_backward")
    except (AttributeError, ImportError, RuntimeError, OSError):
        return None


def can_run(inputs: Tensor, hidden: int) -> bool:
    """Whether these kernels serve: float32 on an NVIDIA GPU, not too many units."""
    return (
        inputs.is_cuda
        and inputs.dtype == torch.float32
        and hidden <= MOST_UNITS
        and not torch.is_autocast_enabled("cuda")
        and kernels(hidden) is not None
    )


def cuda_bigru(inputs: Tensor, lengths: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The states (B, T, 2H); ``parameters`` are in the order of ``nn.GRU``."""
    on_device = lengths.to(inputs.device, torch.int32, non_blocking=True)
    joined = [torch.cat(pair) for pair in zip(parameters[:4], parameters[4:], strict=True)]
    states: Tensor = _BiGru.apply(inputs, on_device, *joined)  # type: ignore[no-untyped-call]
    return states


class _BiGru(torch.autograd.Function):
    """Both directions; the weights (6H, E), (6H, H) and biases (6H,) of both are joined."""

    @staticmethod
    def forward(  # noqa: PLR0913 - the GRU's parameters
        ctx: Any,
        inputs: Tensor,
        lengths: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
    ) -> Tensor:
        texts, words, _ = inputs.shape
        hidden = w_hh.shape[1]
        gates = torch.addmm(b_ih, inputs.reshape(texts * words, -1), w_ih.t())  # (B*T, 6H)
        states = inputs.new_zeros(texts, words, 2 * hidden)
        trace = inputs.new_empty(texts, words, 2, 4 * hidden)
        _launch(0, hidden, texts, [gates, w_hh, b_hh, lengths, states, trace, words])
        ctx.save_for_backward(inputs, lengths, w_ih, w_hh, states, trace)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, ...]:
        inputs, lengths, w_ih, w_hh, states, trace = ctx.saved_tensors
        texts, words, width = inputs.shape
        hidden, rows = w_hh.shape[1], texts * words
        back = trace.new_zeros(texts, words, 2, 4 * hidden)
        _launch(1, hidden, texts, [wanted.contiguous(), w_hh, lengths, states, trace, back, words])
        gates = back.view(rows, 2, 4 * hidden)
        outer = gates[:, :, : 3 * hidden].reshape(rows, 6 * hidden)  # of W x + b
        inner = torch.cat([gates[:, :, : 2 * hidden], gates[:, :, 3 * hidden :]], dim=2)
        before = torch.zeros_like(states)  # the state each step began with
        before[:, 1:, :hidden] = states[:, :-1, :hidden]
        before[:, :-1, hidden:] = states[:, 1:, hidden:]
        started = before.view(rows, 2, hidden)
        d_hh = torch.bmm(inner.permute(1, 2, 0), started.transpose(0, 1))  # (2, 3H, H)
        return (
            (outer @ w_ih).view_as(inputs),
            None,
            outer.t() @ inputs.reshape(rows, width),
            d_hh.view(6 * hidden, hidden),
            outer.sum(0),
            inner.sum(0).flatten(),
        )


def _launch(which: int, hidden: int, texts: int, arguments: list[Tensor | int]) -> None:
    compiled = kernels(hidden)
    if compiled is None:
        raise RuntimeError("the CUDA kernel of the GRU could not be compiled.")
    block = -(-3 * hidden // 32) * 32
    compiled[which](grid=(texts, 2, 1), block=(block, 1, 1), args=arguments)
