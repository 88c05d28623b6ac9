"""LAMA attention in one pass over the states: the fast way on a GPU, and the lean way elsewhere.

``LowRankAttention`` takes ``fused_attention`` where ``can_run`` says so. Its own equation, in plain
torch, is the reference for both directions.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamatext.kernels.attention_gradients import Form, fold, gradients

SWITCH = "LAMATEXT_ATTENTION"  # environment: "plain" never takes the fused kernel

MOST_WIDTH, MOST_HEADS, MOST_CONTEXT, MOST_TEXTS = 128, 32, 1024, 65_535
BLOCK = 64  # words a program scores at a time
WARPS, STAGES = 4, 2  # of a program; how far ahead of its use a block is read
PROGRAMS = 2  # that run on a processor at once
JOINED_AT_ONCE = 8192  # words of a text up to which its chunks are joined in the same launch
SPAN = 512  # words whose weights one program of the second launch writes
PART = 2048  # words scored at a time where memory is to be spared
PRECISION = "bf16x3"  # a product of float32 as three of bfloat16: right to 1e-5
MEMORY = 160 * 1024  # bytes of shared memory that a processor must lend a program


def can_run(states: Tensor, form: Form) -> bool:
    """Whether the fused kernel can do this, and the user lets it."""
    return (
        states.is_cuda
        and states.device.index == torch.cuda.current_device()  # where Triton launches
        and states.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and states.shape[0] <= MOST_TEXTS
        and states.shape[2] <= MOST_WIDTH
        and form.heads <= MOST_HEADS
        and form.p.shape[1] <= MOST_CONTEXT
        and form.p.dtype != torch.float64
        and os.environ.get(SWITCH) != "plain"
        and _works(states.device)
    )


def fused_attention(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    if not torch.is_grad_enabled():
        return _launch(states, mask, form)
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
        embedding, weights = _launch(states, mask, Form(*form))
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


@cache
def _works(device: torch.device) -> bool:
    """Whether Triton is there, the GPU has the memory, and what runs there is right.

    Triton wants a C compiler and a driver that it knows: whatever goes wrong at the first launch,
    the plain layer does the work.
    """
    if importlib.util.find_spec("triton") is None or torch.version.cuda is None:
        return False
    memory: int = getattr(
        torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0
    )
    try:
        return memory >= MEMORY and agrees(device)
    except Exception:
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
        found, _ = _launch(states, mask, form)
        return bool((found - expected).norm() < 1e-3 * expected.norm())


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def chunks_of(texts: int, words: int, processors: int) -> tuple[int, int]:
    """How many words a program takes, and how many programs share a text."""
    blocks = -(-words // BLOCK)
    wished = max(1, min(blocks, PROGRAMS * processors // texts))
    if words <= JOINED_AT_ONCE:
        wished = min(wished, 64)
    chunk = -(-blocks // wished) * BLOCK
    return chunk, -(-words // chunk)


def _launch(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    from lamatext.kernels import attention_triton as kernels

    states, heads = states.contiguous(), form.heads
    texts, words, width = states.shape
    chunk, chunks = chunks_of(texts, words, _processors(states.device))
    joined = (
        kernels.ALONE if chunks == 1 else kernels.LAST if words <= JOINED_AT_ONCE else kernels.SPLIT
    )
    embedding = states.new_empty(texts, heads, width)
    weights = states.new_empty(texts, heads, words)
    scores = (
        weights if states.dtype == torch.float32 else torch.empty_like(weights, dtype=torch.float32)
    )
    block_m, block_d = _power(heads), _power(width)
    scratch = counter = scores
    if chunks > 1:
        scratch = scores.new_empty(texts * chunks * block_m * (block_d + 2))
    if joined == kernels.LAST:
        counter = torch.zeros(texts, dtype=torch.int32, device=states.device)
    one_context = form.context.dim() == 1
    kernels.attend[chunks, texts](
        states,
        mask.contiguous().view(torch.uint8),
        form.q if form.w is None else form.w.contiguous(),
        form.q if form.b is None else form.b,
        form.p.contiguous(),
        form.q.contiguous(),
        form.context.contiguous(),
        form.q if form.log_temperature is None else form.log_temperature,
        embedding,
        scores,
        weights,
        scratch,
        counter,
        words,
        chunk,
        chunks,
        0 if one_context else form.context.shape[1],
        heads=heads,
        rank=form.rank,
        width=width,
        context_width=form.p.shape[1],
        project=form.w is not None,
        squash=form.tanh,
        l2=form.l2,
        tempered=form.log_temperature is not None,
        joined_by=joined,
        precision=PRECISION if states.is_cuda else "ieee",
        block_t=BLOCK,
        block_m=block_m,
        block_d=block_d,
        block_e=_power(form.p.shape[1]),
        num_warps=WARPS,
        num_stages=STAGES,
    )
    if joined == kernels.SPLIT:
        columns = 16
        parts = max(-(-words // SPAN), block_d // columns)
        kernels.combine[parts, texts](
            embedding, scores, weights, scratch, words, chunks,
            heads=heads, width=width, span=SPAN, columns=columns, block_m=block_m, block_d=block_d,
            num_warps=4,
        )  # fmt: skip
    return embedding, weights


def _power(size: int) -> int:
    """The next power of two that a product of matrices takes: at least 16."""
    return max(16, 1 << (size - 1).bit_length())
