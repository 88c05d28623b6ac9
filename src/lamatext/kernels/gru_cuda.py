"""The bidirectional GRU on an NVIDIA GPU: the CUDA kernel ``gru_cuda.cu`` as an autograd function.

Reference implementation: ``lamatext.kernels.gru_dispatch.packed_gru``; the tests compare states
and all gradients with it. At the sizes of this package (50 units, 32 texts) cuDNN spends its time
launching a kernel per word. Here the whole recurrence is one launch in the forward pass and one in
the backward pass, and a text stays on one multiprocessor. The input products and weight gradients
are torch matrix products.

Shapes: B texts, T words of the longest text, E input width, H hidden units per direction.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

MAX_UNITS = 64  # a thread keeps one row of the recurrent weights in registers
FIRST_TORCH = (2, 8)  # has torch.cuda._compile_kernel, torch's private interface to NVRTC

KernelCall = Callable[..., None]


def is_available(hidden: int) -> bool:
    """Return whether the CUDA GRU kernel can be compiled for this number of hidden units."""
    return hidden <= MAX_UNITS and compiled_kernels(hidden) is not None


def can_run(inputs: Tensor, hidden: int) -> bool:
    """Return whether the CUDA GRU kernel can run on these inputs (float32 on an NVIDIA GPU)."""
    return (
        inputs.is_cuda
        and inputs.dtype == torch.float32
        and not torch.is_autocast_enabled("cuda")
        and is_available(hidden)
    )


@cache
def compiled_kernels(hidden: int) -> tuple[KernelCall, KernelCall] | None:
    """Compile the forward and backward CUDA GRU kernels; return None if that is impossible.

    ``torch.cuda._compile_kernel`` is private, so the version is checked and any failure means that
    torch's own GRU is used.
    """
    if _torch_version() < FIRST_TORCH:
        return None
    code = files("lamatext.kernels").joinpath("gru_cuda.cu").read_text(encoding="utf-8")
    source = f"#define H {hidden}\n{code}"
    try:
        compile_kernel = torch.cuda._compile_kernel
        return compile_kernel(source, "gru_forward"), compile_kernel(source, "gru_backward")
    except (AttributeError, TypeError, ImportError, RuntimeError, OSError):
        return None


def _torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def cuda_gru(inputs: Tensor, lengths: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Run the CUDA GRU kernel on a batch and return the states (B, T, 2H).

    ``parameters`` are in the order of ``nn.GRU``.
    """
    on_device = lengths.to(inputs.device, torch.int32, non_blocking=True)
    joined = [torch.cat(pair) for pair in zip(parameters[:4], parameters[4:], strict=True)]
    states: Tensor = CudaBiGru.apply(inputs, on_device, *joined)  # type: ignore[no-untyped-call]
    return states


class CudaBiGru(torch.autograd.Function):
    """Autograd function that runs a bidirectional GRU with the CUDA kernel.

    The weights of both directions are concatenated: (6H, E), (6H, H), (6H,).
    """

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
        """Run both GRU directions in one CUDA launch and save gates for the backward pass."""
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
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the CUDA GRU for its inputs and parameters."""
        inputs, lengths, w_ih, w_hh, states, trace = ctx.saved_tensors
        texts, words, width = inputs.shape
        hidden, rows = w_hh.shape[1], texts * words
        d_gates = trace.new_zeros(texts, words, 2, 4 * hidden)
        arguments = [d_states.contiguous(), w_hh, lengths, states, trace, d_gates, words]
        _launch(1, hidden, texts, arguments)
        gates = d_gates.view(rows, 2, 4 * hidden)
        outer = gates[:, :, : 3 * hidden].reshape(rows, 6 * hidden)  # gradient of W x + b
        inner = torch.cat([gates[:, :, : 2 * hidden], gates[:, :, 3 * hidden :]], dim=2)  # of U h
        before = torch.zeros_like(states)  # the state before each step
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
    kernels = compiled_kernels(hidden)
    if kernels is None:
        raise RuntimeError("the CUDA kernel of the GRU could not be compiled.")
    block = -(-3 * hidden // 32) * 32
    kernels[which](grid=(texts, 2, 1), block=(block, 1, 1), args=arguments)
