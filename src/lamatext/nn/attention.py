"""Attention that pools the states of a text's words into one fixed-size matrix.

Padding may hold any finite numbers, for its weight is exactly 0; every text has at least one word.
Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from math import log
from typing import Any

import torch
from torch import Tensor, nn

from lamatext.errors import ConfigError
from lamatext.kernels import attention_cpu
from lamatext.kernels.attention import can_run, fused_attention, in_parts
from lamatext.kernels.attention_gradients import Form


class LowRankAttention(nn.Module):
    """LAMA: score every word once a head with a rank-k bilinear form, against one context vector.

    With uₜ = tanh(W hₜ + b) and the context c, head i gives word t the score

        fₜᵢ = cᵀ Pᵢ Qᵢᵀ uₜ = 1ᵀ(Pᵢᵀc ∘ Qᵢᵀuₜ),        Pᵢ (E, k), Qᵢ (D, k)

    and all heads together the weights A = softmax(l2(tanh(f))): l2 across the heads of one word,
    softmax over the words of the text. The embedding of the text is S = A H.
    [paper, section "Low-Rank Factorization based Multi-Head Attention"]

    Args:
        width: D, of the states.
        heads: M.
        context_width: E, of a context given with each text; None learns one vector for all texts.
        rank: k; the paper's is 1.
        project: score uₜ; otherwise the states hₜ themselves.
        tanh: squash the scores.
        l2: divide each word's scores by their norm over the heads.
        temperature: where a learned factor τᵢ > 0 on each head's scores starts (ours, not the
            paper's: after l2 no word could otherwise outweigh another by more than e²).
    """

    def __init__(  # noqa: PLR0913 - one argument for each open choice of the equation
        self,
        width: int,
        heads: int,
        context_width: int | None = None,
        *,
        rank: int = 1,
        project: bool = True,
        tanh: bool = True,
        l2: bool = True,
        temperature: float | None = None,
    ) -> None:
        super().__init__()
        learned = context_width is None
        query_width = width if context_width is None else context_width
        _check_sizes(heads, rank, min(width, query_width))
        self.heads, self.rank, self.tanh, self.l2 = heads, rank, tanh, l2
        self.project = gaussian_linear(width) if project else None
        self.context = nn.Parameter(torch.randn(width) / width**0.5) if learned else None
        self.p = nn.Linear(query_width, heads * rank, bias=False)
        self.q = nn.Linear(width, heads * rank, bias=False)
        self.log_temperature = None if temperature is None else _log_of(temperature, heads)

    def forward(
        self, states: Tensor, mask: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pool ``states`` (B, T, D) under ``mask`` (B, T; true for words) given ``context`` (B, E).

        Returns:
            The embedding S (B, M, D) and the weights A (B, M, T) that made it.
        """
        form = self.form(context)
        _check_inputs(states, mask, form.q.shape[1])
        if self.context is None:
            _check_context(form.context, len(states), form.p.shape[1])
        if can_run(states, form):
            return fused_attention(states, mask, form)
        if attention_cpu.can_run(states, form):
            return attention_cpu.cpu_attention(states, mask, form)
        scores = in_parts(lambda part: self.scores(part, context), states)  # (B, T, M)
        weights = masked_softmax(scores.transpose(1, 2), mask[:, None, :])  # (B, M, T)
        return weights @ states, weights  # (B, M, D), (B, M, T)

    def form(self, context: Tensor | None = None) -> Form:
        """The equation as the fused kernel takes it."""
        linear, learned = self._modules.get, self.context
        project, p, q = linear("project"), linear("p"), linear("q")
        shared = _given(context) if learned is None else learned  # (B, E) or (D,)
        return Form(
            _held(project, "weight"), _held(project, "bias"), _held(p, "weight"),
            _held(q, "weight"), shared, self.log_temperature, self.heads, self.tanh, self.l2,
        )  # fmt: skip

    def scores(self, states: Tensor, context: Tensor | None = None) -> Tensor:
        """What the softmax is taken of: (B, T, M)."""
        words = states if self.project is None else self.project(states).tanh()  # (B, T, D)
        query = self.p(self._shared_context(context))  # (B, 1, M*k) or (M*k,)
        products = query * self.q(words)  # (B, T, M*k)
        scores: Tensor = products.unflatten(-1, (self.heads, self.rank)).sum(-1)  # (B, T, M)
        if self.tanh:
            scores = scores.tanh()
        if self.l2:
            scores = l2_normalised(scores)
        if self.log_temperature is not None:
            scores = scores * self.log_temperature.exp()
        return scores

    def _shared_context(self, context: Tensor | None) -> Tensor:
        if self.context is not None:
            return self.context  # (D,)
        return _given(context)[:, None, :]  # (B, 1, E)


class BilinearAttention(nn.Module):
    """The paper's single head: fₜ = cᵀ W uₜ with a full matrix W (E, D), softmax over the words.

    [paper, section "Single-Head Attention"] The reference that the factorised form equals at full
    rank; neither tanh nor l2 is applied to the score.
    """

    def __init__(self, width: int, context_width: int, *, project: bool = True) -> None:
        super().__init__()
        self.project = gaussian_linear(width) if project else None
        self.weight = nn.Parameter(torch.empty(context_width, width))
        nn.init.xavier_uniform_(self.weight)

    def forward(
        self, states: Tensor, mask: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pool ``states`` (B, T, D) given ``context`` (B, E): S (B, 1, D) and weights (B, 1, T)."""
        _check_inputs(states, mask, self.weight.shape[1])
        words = states if self.project is None else self.project(states).tanh()  # (B, T, D)
        query = _given(context) @ self.weight  # (B, D): cᵀ W
        scores = query[:, None, :] @ words.transpose(1, 2)  # (B, 1, T)
        weights = masked_softmax(scores, mask[:, None, :])
        return weights @ states, weights


class StructuredAttention(nn.Module):
    """SAN (Lin et al. 2017): A = softmax(W₂ tanh(W₁ Hᵀ)), without biases, S = A H."""

    def __init__(self, width: int, heads: int, *, hidden: int = 350) -> None:
        super().__init__()
        _check_sizes(heads)
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, heads, bias=False)

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - the contract of poolings
    ) -> tuple[Tensor, Tensor]:
        """Pool ``states`` (B, T, D) under ``mask`` (B, T): S (B, M, D) and weights (B, M, T)."""
        _check_inputs(states, mask, self.w1.in_features)
        scores = self.w2(self.w1(states).tanh())  # (B, T, M)
        weights = masked_softmax(scores.transpose(1, 2), mask[:, None, :])  # (B, M, T)
        return weights @ states, weights


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, exactly zero where ``mask`` is false; no row may be all false."""
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def l2_normalised(scores: Tensor) -> Tensor:
    """The paper's l2: x / ‖x‖ over the last axis. 0 stays 0, and its gradient is 0 too."""
    norm: Tensor = torch.linalg.vector_norm(scores, dim=-1, keepdim=True)
    return scores / norm.masked_fill(norm == 0, float("inf"))


def gaussian_linear(width: int) -> nn.Linear:
    """W and b of uₜ = tanh(W hₜ + b), drawn from N(0, 0.1²) as the paper has it."""
    linear = nn.Linear(width, width)
    nn.init.normal_(linear.weight, std=0.1)
    nn.init.normal_(linear.bias, std=0.1)
    return linear


def _given(context: Tensor | None) -> Tensor:
    if context is None:
        raise ConfigError(
            "this attention was made with context_width, so it needs a context (B, E) for each "
            "text: attend(states, mask, context), for example the mean of the text's embeddings. "
            "Leave context_width out of LowRankAttention to learn one vector for all texts."
        )
    return context


def _held(linear: nn.Module | None, name: str) -> Any:
    """A parameter, without nn.Module's search, which for all of them takes microseconds."""
    if linear is None:
        return None
    found = linear._parameters.get(name)
    return getattr(linear, name) if found is None else found  # None where it is parametrised


def _check_context(context: Tensor, texts: int, width: int) -> None:
    if context.shape != (texts, width):
        raise ConfigError(
            f"context must be {(texts, width)}, a row for each text, got {tuple(context.shape)}."
        )


def _check_inputs(states: Tensor, mask: Tensor, width: int) -> None:
    """The kernels trust shapes and types: what does not fit must not reach them."""
    shape = states.shape
    if len(shape) != 3 or shape[2] != width:
        raise ConfigError(f"states must be (B, T, {width}), got {tuple(shape)}.")
    if mask.device != states.device:
        raise ConfigError(f"mask is on {mask.device}, and states are on {states.device}.")
    if mask.dtype != torch.bool or mask.shape != shape[:2]:
        raise ConfigError(
            f"mask must be bool of shape {tuple(shape[:2])}, true for words, got "
            f"{mask.dtype} of shape {tuple(mask.shape)}. Use mask.bool() on one of 0 and 1."
        )


def _log_of(temperature: float, heads: int) -> nn.Parameter:
    if not temperature > 0:  # nor NaN
        raise ConfigError(f"temperature ({temperature}) must be above 0, or None for none at all.")
    return nn.Parameter(torch.full((heads,), log(temperature)))


def _check_sizes(heads: int, rank: int = 1, narrowest: int = 1) -> None:
    if heads < 1:
        raise ConfigError(f"heads ({heads}) must be at least 1.")
    if rank < 1:
        raise ConfigError(f"rank ({rank}) must be at least 1.")
    if rank > narrowest:
        raise ConfigError(
            f"rank ({rank}) must be at most the smaller of the widths of states and context "
            f"({narrowest}): a higher rank adds parameters, not capacity."
        )
