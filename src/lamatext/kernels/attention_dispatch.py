"""Choice of an attention kernel, Triton on an NVIDIA GPU or numba on the CPU, and its parameters.

Reference implementation of both attention kernels: the plain torch equation in
``lamatext.nn.attention.LowRankAttention``, which is also used for inputs that no kernel supports.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

SWITCH = "LAMATEXT_ATTENTION"  # environment: "plain" disables the attention kernels

MAX_CPU_WORDS = 4096  # longer texts are scored in parts by the plain equation
FUNCTORCH_QUERY = "_are_functorch_transforms_active"  # private to torch; may disappear
PART = 2048  # words scored at a time by ``score_in_parts``


class AttentionParameters(NamedTuple):
    """Parameters and options of a ``LowRankAttention`` layer, passed to an attention kernel."""

    w: Tensor | None  # (D, D); None scores the states themselves
    b: Tensor | None  # (D,)
    p: Tensor  # (M*k, E)
    q: Tensor  # (M*k, D)
    context: Tensor  # (B, E), or (E,) if all texts share one context
    log_temperature: Tensor | None  # (M,)
    heads: int
    tanh: bool
    l2: bool

    @property
    def rank(self) -> int:
        """Rank k of the attention: the number of vector pairs (p, q) of each head."""
        return self.p.shape[0] // self.heads


def head_vectors(parameters: AttentionParameters) -> Tensor:
    """Compute one scoring vector per head from the attention parameters.

    Head i scores word t by gᵢ·uₜ with gᵢ = Qᵢ Pᵢᵀ c. The shape is (B or 1, M, D).
    """
    query = F.linear(parameters.context, parameters.p)  # (B, M*k) or (M*k,)
    terms = query[..., None] * parameters.q
    return terms.view(-1, parameters.heads, parameters.rank, parameters.q.shape[1]).sum(2)


Kernel = Callable[[Tensor, Tensor, AttentionParameters], tuple[Tensor, Tensor]]


def attention_kernel(states: Tensor, parameters: AttentionParameters) -> Kernel | None:
    """Return the attention kernel that can run a batch (CPU or CUDA), or None if there is none.

    A kernel takes states (B, T, D), mask (B, T) and parameters, and returns the embeddings S (B, M,
    D) and the weights A (B, M, T).
    """
    if os.environ.get(SWITCH) == "plain":
        return None
    if states.is_cuda:
        from lamatext.kernels.attention_cuda import can_run, cuda_attention

        return cuda_attention if can_run(states, parameters) else None
    if not _cpu_kernel_can_run(states, parameters):
        return None
    from lamatext.kernels.attention_cpu import cpu_attention  # needs numba

    return cpu_attention


def score_in_parts(score: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Compute attention scores in parts, which limits memory use if no attention kernel can run.

    The result is ``score(states)`` (B, T, M). It is computed in parts only on the CPU and without
    autograd, where a text of a million words would otherwise need memory for several copies of its
    states.
    """
    if states.shape[1] <= PART or states.is_cuda or torch.is_grad_enabled():
        return score(states)
    return torch.cat([score(part) for part in torch.split(states, PART, dim=1)], dim=1)


def _cpu_kernel_can_run(states: Tensor, parameters: AttentionParameters) -> bool:
    w, q, context = parameters.w, parameters.q, parameters.context
    return (
        states.device.type == "cpu"
        and type(states) is Tensor  # a subclass such as FakeTensor may hold no numbers
        and states.dtype in (torch.float32, torch.float64)
        and w is not None
        and w.dtype == q.dtype == context.dtype == states.dtype
        and states.shape[1] <= MAX_CPU_WORDS
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not _inside_functorch(states, w, q, context)
        and importlib.util.find_spec("numba") is not None
    )


def _inside_functorch(*tensors: Tensor) -> bool:
    """Return whether a ``torch.func`` transform is active, which no attention kernel supports.

    torch has no public query for this. If its private query is missing, test whether a tensor is
    wrapped by a transform: such a tensor has no data pointer.
    """
    query = getattr(torch._C, FUNCTORCH_QUERY, None)
    if query is not None:
        return bool(query())
    try:
        for tensor in tensors:
            tensor.data_ptr()
    except RuntimeError:
        return True
    return False
