"""LAMA attention on the CPU as a function torch can differentiate, compiled and on our threads.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import importlib.util
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamatext.kernels.attention_gradients import Form
from lamatext.kernels.threads import run_on_threads, threads_or

SWITCH = "LAMATEXT_ATTENTION"  # environment: "plain" never takes a kernel
MOST_WORDS = 4096  # of a text; the plain way takes longer ones in parts
TASKS = 8  # parts of the sums over texts, whatever the machine: the same result on every one


def can_run(states: Tensor, form: Form) -> bool:
    """Whether the compiled kernel can do this, and the user lets it."""
    return (
        states.device.type == "cpu"
        and type(states) is Tensor  # one with numbers behind it
        and states.dtype in (torch.float32, torch.float64)
        and form.w is not None
        and form.w.dtype == form.q.dtype == form.context.dtype == states.dtype
        and states.shape[1] <= MOST_WORDS
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and os.environ.get(SWITCH) != "plain"
        and importlib.util.find_spec("numba") is not None
    )


def cpu_attention(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    query = F.linear(form.context, form.p)  # (B, M*k), or (M*k,)
    terms = query[..., None] * form.q  # (B, M*k, D): gᵢ = Qᵢ Pᵢᵀ c, whose product with uₜ is fₜᵢ
    vectors = terms.view(-1, form.heads, form.rank, form.q.shape[1]).sum(2)  # (B or 1, M, D)
    vectors = vectors.expand(states.shape[0], -1, -1)
    if form.log_temperature is None:
        temperature = states.new_ones(form.heads)
    else:
        temperature = form.log_temperature.exp()
    found: tuple[Tensor, Tensor] = CpuAttention.apply(  # type: ignore[no-untyped-call]
        states, mask, vectors, form.w, form.b, temperature, (form.tanh, form.l2)
    )
    return found


class CpuAttention(torch.autograd.Function):
    """S and A of states (B, T, D), mask (B, T), each text's vectors G (B, M, D), W, b and τ."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        """Run all texts; keep u, s, the norms and A for ``backward``."""
        from lamatext.kernels.attention_walk import Trace, attend

        *form, (with_tanh, with_l2) = rest
        vectors, w, b, temperature = (tensor.detach() for tensor in form)
        texts, words, width = states.shape
        sizes = _sizes(states, vectors.shape[1], with_tanh, with_l2)
        given = _given(sizes, states.detach(), mask, vectors, (w, b), temperature)
        rows, padded, heads = texts * words, sizes.padded, sizes.padded_heads
        counts = (rows * padded, rows * padded, rows * heads, rows, rows * heads)
        trace = Trace(*(_empty(count, states) for count in counts))
        embedding = states.new_empty(texts, sizes.heads, width)
        weights = states.new_empty(texts, sizes.heads, words)
        _on_threads(attend, sizes, given, trace, _flat(embedding), _flat(weights))
        ctx.kept = sizes, given, trace
        ctx.set_materialize_grads(False)
        return embedding, weights

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, embedding: Tensor | None, weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Gradients of the states, G, W, b and τ."""
        from lamatext.kernels.attention_back import attend_back
        from lamatext.kernels.attention_walk import Wanted

        sizes, given, trace = ctx.kept
        like = torch.from_numpy(given.bias[:0])
        texts, words, width, padded = sizes.texts, sizes.words, sizes.width, sizes.padded
        if embedding is None:
            embedding = like.new_zeros(texts, sizes.heads, width)
        states = like.new_empty(texts, words, width)
        project = like.new_zeros(sizes.tasks, width, padded)
        bias = like.new_zeros(sizes.tasks, padded)
        vectors = like.new_empty(texts, sizes.heads, padded)
        temperature = like.new_zeros(sizes.tasks, sizes.padded_heads)
        into = (states, project, bias, vectors, temperature)
        wanted_weights = like.numpy() if weights is None else _flat(weights)
        wanted = Wanted(_flat(embedding), wanted_weights, *map(_flat, into))
        _on_threads(attend_back, sizes, given, trace, wanted)
        return (
            states,
            None,
            vectors[:, :, :width],
            project.sum(0)[:, :width],
            bias.sum(0)[:width],
            temperature.sum(0)[: sizes.heads],
            None,
        )


def compile_attention(dtype: torch.dtype) -> None:
    """Compile the kernels ahead of their first use."""
    one = torch.ones(1, 1, 1, dtype=dtype, requires_grad=True)
    matrix, vector = one[0], one[0, 0]
    form = Form(matrix, vector, matrix, matrix, matrix, None, 1, tanh=True, l2=True)
    embedding, weights = cpu_attention(one, torch.ones(1, 1, dtype=torch.bool), form)
    (embedding.sum() + weights.sum()).backward()  # type: ignore[no-untyped-call]


def _sizes(states: Tensor, heads: int, with_tanh: bool, with_l2: bool) -> Any:
    from lamatext.kernels.attention_walk import Sizes
    from lamatext.kernels.simd import VECTOR_BYTES

    texts, words, width = states.shape
    lanes = VECTOR_BYTES // states.element_size()
    whole = -(-width // lanes) * lanes
    whole_heads = -(-heads // lanes) * lanes
    tasks = min(TASKS, texts)
    return Sizes(texts, words, width, heads, whole, whole_heads, lanes, tasks, with_tanh, with_l2)


def _given(
    sizes: Any,
    states: Tensor,
    mask: Tensor,
    vectors: Tensor,
    project: tuple[Tensor, Tensor],
    temperature: Tensor,
) -> Any:
    """The operands as the kernel reads them."""
    from lamatext.kernels.attention_walk import Given

    (w, b), more = project, sizes.padded - sizes.width
    more_heads = sizes.padded_heads - sizes.heads
    allowed = mask.contiguous().numpy()
    length = sizes.words - allowed[:, ::-1].argmax(axis=1)  # up to the last word let in
    return Given(
        length.astype(np.int64),
        allowed.reshape(-1),
        _flat(states),
        _flat(F.pad(w.t(), (0, more))),
        _flat(F.pad(w, (0, more))),
        _flat(F.pad(b, (0, more))),
        _flat(F.pad(vectors.transpose(1, 2), (0, more_heads, 0, more))),
        _flat(F.pad(vectors, (0, more, 0, more_heads))),
        _flat(F.pad(temperature, (0, more_heads), value=1.0)),
    )


def _on_threads(kernel: Any, *arguments: Any) -> None:
    """Let threads share the texts by a counter."""
    counter = np.zeros(1, np.int64)
    run_on_threads(lambda: kernel(counter, *arguments), threads_or(torch.get_num_threads()))


def _empty(count: int, like: Tensor) -> Any:
    return torch.empty(count, dtype=like.dtype).numpy()


def _flat(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().view(-1).numpy()
