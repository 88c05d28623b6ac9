"""The equation of LAMA attention as the fused kernel takes it, and its gradients in plain torch.

The backward pass keeps only the states and the weights A, and computes u and the scores again.
Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Form(NamedTuple):
    """The equation of a ``LowRankAttention`` and its parameters."""

    w: Tensor | None  # (D, D); None scores the states themselves
    b: Tensor | None  # (D,)
    p: Tensor  # (M*k, E)
    q: Tensor  # (M*k, D)
    context: Tensor  # (B, E), or (E,) where one serves all texts
    log_temperature: Tensor | None  # (M,)
    heads: int
    tanh: bool
    l2: bool

    @property
    def rank(self) -> int:
        """How many pairs of vectors a head has: k."""
        return self.p.shape[0] // self.heads


def gradients(
    states: Tensor, weights: Tensor, form: Form, wanted: Tensor, d_embedding: Tensor | None
) -> list[Tensor | None]:
    """Of the states and the six tensors of the form, given that of A (B, M, T).

    Where a weight is 0, as that of padding is, so is the gradient of its score.
    """
    kind = states.dtype
    words = states if form.w is None else F.linear(states, *_as(kind, form.w, form.b)).tanh()
    folded = fold(form).to(kind)  # (B, M, D), or (1, M, D)
    f = (folded @ words.transpose(1, 2)).float()  # (B, M, T)
    a, d_a = weights.float(), wanted.float()
    d_score = a * (d_a - (a * d_a).sum(-1, keepdim=True))
    d_f, d_temperature = _through_scores(form, f, d_score)
    d_f = d_f.to(kind)
    d_words = d_f.transpose(1, 2) @ folded  # (B, T, D)
    d_w = d_b = None
    d_states = d_words
    if form.w is not None:
        d_inner = (d_words * (1 - words * words)).flatten(0, 1)  # (B*T, D)
        d_w, d_b = d_inner.t() @ states.flatten(0, 1), d_inner.sum(0)
        d_states = (d_inner @ form.w.to(kind)).view_as(states)
    if d_embedding is not None:
        d_states = torch.baddbmm(d_states, weights.transpose(1, 2), d_embedding)
    d_p, d_q, d_context = _through_fold(form, (d_f @ words).float())
    return [d_states, d_w, d_b, d_p, d_q, d_context, d_temperature]


def _through_scores(form: Form, f: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor | None]:
    """Of f (B, M, T) and of log τ (M,), given that of τ l2(tanh(f))."""
    squashed = f.tanh() if form.tanh else f
    norm = torch.ones_like(f[:, :1])
    if form.l2:
        norm = torch.linalg.vector_norm(squashed, dim=1, keepdim=True)
        norm = norm.masked_fill(norm == 0, float("inf"))
    scores = squashed / norm
    d_temperature = None
    if form.log_temperature is not None:
        wanted = wanted * form.log_temperature.exp()[:, None]
        d_temperature = (wanted * scores).sum((0, 2))
    if form.l2:
        wanted = (wanted - scores * (wanted * scores).sum(1, keepdim=True)) / norm
    return wanted * (1 - squashed * squashed) if form.tanh else wanted, d_temperature


def fold(form: Form) -> Tensor:
    """(B, M, D): gᵢ = Qᵢ Pᵢᵀ c, the vector whose product with uₜ is head i's score."""
    query = F.linear(form.context.float(), form.p.float())  # (B, M*k) or (M*k,)
    terms = query[..., None] * form.q.float()
    return terms.view(-1, form.heads, form.rank, form.q.shape[1]).sum(2)


def _through_fold(form: Form, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of P, Q and the context, given that of each text's vectors (B, M, D)."""
    if form.context.dim() == 1:
        wanted = wanted.sum(0, keepdim=True)
    context = form.context.float().view(-1, form.p.shape[1])  # (B, E)
    query = context @ form.p.float().t()  # (B, M*k)
    rows = wanted.repeat_interleave(form.rank, dim=1) if form.rank > 1 else wanted  # (B, M*k, D)
    d_query = (rows * form.q.float()).sum(-1)
    d_q = (query[:, :, None] * rows).sum(0)
    return d_query.t() @ context, d_q, (d_query @ form.p.float()).view_as(form.context)


def _as(kind: torch.dtype, *tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.to(kind) for tensor in tensors]
