"""LAMA attention in one pass over the states: the fast way on a GPU, and the lean way elsewhere.

``LowRankAttention`` takes ``fused_attention`` where ``can_run`` says so. Its own equation, in plain
torch, is the reference for both directions.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import importlib.util
import os
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamatext.kernels.attention_gradients import Form, fold, gradients
from lamatext.kernels.attention_launch import (
    MOST_CONTEXT,
    MOST_HEADS,
    MOST_TEXTS,
    MOST_WIDTH,
    launch,
)

SWITCH = "LAMATEXT_ATTENTION"  # environment: "plain" never takes the fused kernel

PART = 2048  # words scored at a time where memory is to be spared
MEMORY = 160 * 1024  # bytes of shared memory that a processor must lend a program


def can_run(states: Tensor, form: Form) -> bool:
    """Whether the fused kernel can do this, and the user lets it."""
    return (
        states.is_cuda
        and form.p.get_device() == form.context.get_device() == states.get_device()
        and states.get_device() == torch._C._cuda_getDevice()  # where Triton launches
        and os.environ.get(SWITCH) != "plain"
        and _takes(
            states.shape, form.p.shape, form.heads, states.dtype, form.p.dtype, states.device
        )
    )


def fused_attention(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    if not torch.is_grad_enabled():
        return launch(states, mask, form)
    found: tuple[Tensor, Tensor] = _Attention.apply(states, mask, *form)  # type: ignore[no-untyped-call]
    return found


def in_parts(score: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """``score(states)`` (B, T, M); on a CPU without gradients of ``PART`` words at a time.

    A text of a million words would otherwise need room for several copies of its states.
    """
    if states.shape[1] <= PART or states.is_cuda or torch.is_grad_enabled():
        return score(states)
    return torch.cat([score(part) for part in torch.split(states, PART, dim=1)], dim=1)


class _Attention(torch.autograd.Function):
    """The fused forward pass; the backward pass computes u and the scores again."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor, *form: Any) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        embedding, weights = launch(states, mask, Form(*form))
        tensors, ctx.rest = form[:6], form[6:]
        ctx.save_for_backward(states, weights, *tensors)
        return embedding, weights

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_embedding: Tensor | None, d_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        states, weights, *tensors = ctx.saved_tensors
        wanted = _wanted(states, d_embedding, d_weights)
        if wanted is None:
            return (None,) * (2 + len(Form._fields))
        form = Form(*tensors, *ctx.rest)
        d_states, *others = gradients(states, weights, form, wanted, d_embedding)
        return d_states, None, *others, None, None, None


def _wanted(states: Tensor, d_embedding: Tensor | None, d_weights: Tensor | None) -> Tensor | None:
    """The gradient of A (B, M, T), what comes through S = A H included."""
    if d_embedding is None:
        return d_weights
    through = d_embedding @ states.transpose(1, 2)
    return through if d_weights is None else through + d_weights


@lru_cache(maxsize=4096)
def _takes(
    shape: torch.Size,
    p_shape: torch.Size,
    heads: int,
    kind: torch.dtype,
    p_kind: torch.dtype,
    device: torch.device,
) -> bool:
    """Whether the kernel is made for such sizes and numbers, and works."""
    return (
        kind in (torch.float32, torch.bfloat16, torch.float16)
        and p_kind != torch.float64
        and shape[0] <= MOST_TEXTS
        and shape[2] <= MOST_WIDTH
        and heads <= MOST_HEADS
        and p_shape[1] <= MOST_CONTEXT
        and _works(device)
    )


@cache
def _works(device: torch.device) -> bool:
    """Whether Triton is there, the GPU has the memory, and what runs there is right.

    Triton wants a C compiler and a driver that it knows: whatever goes wrong at the first launch,
    the plain layer does the work, and a warning says so.
    """
    if importlib.util.find_spec("triton") is None or torch.version.cuda is None:
        return False
    memory: int = getattr(
        torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0
    )
    if memory < MEMORY:
        return False
    try:
        if agrees(device):
            return True
        why = "it gives other numbers than the plain layer"
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"the fused attention kernel does not work on {device} ({why}); the plain layer does its "
        f"work: as right, and slower. {SWITCH}=plain takes it without this warning.",
        stacklevel=2,
    )
    return False


@torch.no_grad()
def agrees(device: torch.device) -> bool:
    """Whether the kernel gives what the equation gives, on a small example."""
    numbers = (torch.arange(8192, device=device, dtype=torch.float32) * 37).sin() / 3
    states, w, q = numbers[:6400].view(2, 200, 16), numbers[:256].view(16, 16), numbers[-48:]
    q = q.view(3, 16)
    form = Form(w, q[0], q, q, states[:, 0], None, heads=3, tanh=True, l2=True)
    mask = torch.arange(200, device=device) < torch.tensor([[200], [70]], device=device)
    with torch.autocast(device.type, enabled=False):
        f = (fold(form) @ F.linear(states, w, q[0]).tanh().transpose(1, 2)).tanh()  # (B, M, T)
        scores = F.normalize(f, dim=1).masked_fill(~mask[:, None, :], float("-inf"))
        expected = scores.softmax(-1) @ states
        twice = [launch(states, mask, form)[0] for _ in range(2)]  # the second as it was compiled
        worst = max((found - expected).norm() for found in twice)
        return bool(worst < 1e-3 * expected.norm())
