"""Attention layers, which pool the states of a text's words into one fixed-size matrix.

Padding may hold any finite numbers, because its weight is exactly 0. Every text needs at least one
word.
Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from math import log
from typing import Any

import torch
from torch import Tensor, nn

from lamatext.errors import ConfigError
from lamatext.kernels.attention_dispatch import (
    AttentionParameters,
    attention_kernel,
    score_in_parts,
)


class LowRankAttention(nn.Module):
    """Low-rank multi-head attention layer (LAMA), which pools word states into a text embedding.

    Every head scores every word once, with a rank-k bilinear form against a context vector.

    With uₜ = tanh(W hₜ + b) and the context c, head i gives word t the score

        fₜᵢ = cᵀ Pᵢ Qᵢᵀ uₜ = 1ᵀ(Pᵢᵀc ∘ Qᵢᵀuₜ),        Pᵢ (E, k), Qᵢ (D, k)

    and all heads together the weights A = softmax(l2(tanh(f))): l2 across the heads of one word,
    softmax over the words of the text. The embedding of the text is S = A H.
    [paper, section "Low-Rank Factorization based Multi-Head Attention"]

    Args:
        width: D, the width of the states.
        heads: M, the number of attention heads.
        context_width: E, the width of the context passed with each text; None learns one context
            vector for all texts.
        rank: k; 1 in the paper.
        project: score uₜ; otherwise score the states hₜ themselves.
        tanh: apply tanh to the scores.
        l2: divide each word's scores by their norm over the heads.
        temperature: initial value of a learned factor τᵢ > 0 on each head's scores (not in the
            paper: after l2 no word could otherwise outweigh another by more than e²).
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
        self.log_temperature = None if temperature is None else _log_temperature(temperature, heads)

    def forward(
        self, states: Tensor, mask: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Pool the word states of each text by LAMA attention.

        ``states`` is (B, T, D), ``context`` (B, E) and ``mask`` (B, T), which is true for words and
        false for padding.

        Returns:
            The embedding S (B, M, D) and the attention weights A (B, M, T).
        """
        parameters = self.kernel_parameters(context)
        _check_inputs(states, mask, parameters.q.shape[1])
        if self.context is None:
            _check_context(parameters.context, len(states), parameters.p.shape[1])
        kernel = attention_kernel(states, parameters)
        if kernel is not None:
            return kernel(states, mask, parameters)
        scores = score_in_parts(lambda part: self.scores(part, context), states)  # (B, T, M)
        weights = masked_softmax(scores.transpose(1, 2), mask[:, None, :])  # (B, M, T)
        return weights @ states, weights  # (B, M, D), (B, M, T)

    def kernel_parameters(self, context: Tensor | None = None) -> AttentionParameters:
        """Collect the weights and options of this LAMA attention layer for a fused kernel."""
        project, p, q = (_member(self, "_modules", name) for name in ("project", "p", "q"))
        return AttentionParameters(
            w=None if project is None else _member(project, "_parameters", "weight"),
            b=None if project is None else _member(project, "_parameters", "bias"),
            p=_member(p, "_parameters", "weight"),
            q=_member(q, "_parameters", "weight"),
            context=_required(context) if self.context is None else self.context,  # (B, E) or (D,)
            log_temperature=self.log_temperature,
            heads=self.heads,
            tanh=self.tanh,
            l2=self.l2,
        )

    def scores(self, states: Tensor, context: Tensor | None = None) -> Tensor:
        """Compute the LAMA attention scores (B, T, M) of all words, before the softmax."""
        query = self.p(self._shared_context(context))  # (B, 1, M*k) or (M*k,)
        return self.combine(query, self.keys(states))

    def keys(self, states: Tensor) -> Tensor:
        """Project word states (B, T, D) to the keys Q̃ᵀuₜ (B, T, M*k) of LAMA attention."""
        words = states if self.project is None else self.project(states).tanh()  # (B, T, D)
        keys: Tensor = self.q(words)
        return keys

    def combine(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compute attention scores (…, M) from projected queries and keys (…, M*k)."""
        scores = query * keys  # (…, M*k)
        if self.rank > 1:
            scores = scores.reshape(*scores.shape[:-1], self.heads, self.rank).sum(-1)  # (…, M)
        if self.tanh:
            scores = scores.tanh()
        if self.l2:
            scores = l2_normalized(scores)
        if self.log_temperature is not None:
            scores = scores * self.log_temperature.exp()
        return scores

    def _shared_context(self, context: Tensor | None) -> Tensor:
        if self.context is not None:
            return self.context  # (D,)
        return _required(context)[:, None, :]  # (B, 1, E)


class BilinearAttention(nn.Module):
    """Single-head attention layer with a full-rank bilinear form, as in the LAMA paper.

    The score of word t is fₜ = cᵀ W uₜ with a full matrix W (E, D), without tanh or l2. [paper,
    section "Single-Head Attention"] ``LowRankAttention`` with one head of full rank is equivalent.
    """

    def __init__(self, width: int, context_width: int, *, project: bool = True) -> None:
        super().__init__()
        self.project = gaussian_linear(width) if project else None
        self.weight = nn.Parameter(torch.empty(context_width, width))
        nn.init.xavier_uniform_(self.weight)

    def forward(
        self, states: Tensor, mask: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the embedding (B, 1, D) and weights (B, 1, T) of bilinear attention."""
        _check_inputs(states, mask, self.weight.shape[1])
        words = states if self.project is None else self.project(states).tanh()  # (B, T, D)
        query = _required(context) @ self.weight  # (B, D): cᵀ W
        scores = query[:, None, :] @ words.transpose(1, 2)  # (B, 1, T)
        weights = masked_softmax(scores, mask[:, None, :])
        return weights @ states, weights


class StructuredAttention(nn.Module):
    """Structured self-attention layer with several heads (SAN, Lin et al. 2017).

    A = softmax(W₂ tanh(W₁ Hᵀ)), S = A H.
    """

    def __init__(self, width: int, heads: int, *, hidden: int = 350) -> None:
        super().__init__()
        _check_sizes(heads)
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, heads, bias=False)

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        context: Tensor | None = None,  # noqa: ARG002 - same signature as every pooling
    ) -> tuple[Tensor, Tensor]:
        """Compute the embedding (B, M, D) and weights (B, M, T) of structured self-attention."""
        _check_inputs(states, mask, self.w1.in_features)
        scores = self.w2(self.w1(states).tanh())  # (B, T, M)
        weights = masked_softmax(scores.transpose(1, 2), mask[:, None, :])  # (B, M, T)
        return weights @ states, weights


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Compute attention weights by a softmax over the last axis, with zeros for padding.

    Every row needs at least one true value in ``mask``.
    """
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def l2_normalized(scores: Tensor) -> Tensor:
    """Divide attention scores by their l2 norm over the last axis; zero vectors stay zero.

    The gradient at zero is zero too.
    """
    norm: Tensor = torch.linalg.vector_norm(scores, dim=-1, keepdim=True)
    return scores / norm.masked_fill(norm == 0, float("inf"))


def gaussian_linear(width: int) -> nn.Linear:
    """Create the projection layer of an attention layer, initialized from N(0, 0.1²)."""
    linear = nn.Linear(width, width)
    nn.init.normal_(linear.weight, std=0.1)
    nn.init.normal_(linear.bias, std=0.1)
    return linear


def _required(context: Tensor | None) -> Tensor:
    if context is None:
        raise ConfigError(
            "this attention layer has a context_width, so it needs a context (B, E), one row per "
            "text: attend(states, mask, context), for example the mean of the text's embeddings. "
            "Omit context_width in LowRankAttention to learn one vector for all texts."
        )
    return context


def _member(module: nn.Module, table: str, name: str) -> Any:
    """Look up a submodule or parameter of an attention layer faster than by attribute access.

    On a GPU, eight lookups through ``nn.Module`` take a tenth of the time for a short text.
    Whatever is not in the private table, such as a parametrised weight, is looked up as usual.
    """
    member = module.__dict__.get(table, {}).get(name)
    return getattr(module, name) if member is None else member


def _check_context(context: Tensor, texts: int, width: int) -> None:
    if context.shape != (texts, width):
        raise ConfigError(
            f"context must be {(texts, width)}, one row per text, got {tuple(context.shape)}."
        )


def _check_inputs(states: Tensor, mask: Tensor, width: int) -> None:
    """Raise ConfigError if states or mask do not fit the attention layer.

    The attention kernels do not check their inputs.
    """
    shape = states.shape
    if len(shape) != 3 or shape[2] != width:
        raise ConfigError(f"states must be (B, T, {width}), got {tuple(shape)}.")
    if mask.device != states.device:
        raise ConfigError(f"mask is on {mask.device}, but states are on {states.device}.")
    if mask.dtype != torch.bool or mask.shape != shape[:2]:
        raise ConfigError(
            f"mask must be bool of shape {tuple(shape[:2])}, true for words, got "
            f"{mask.dtype} of shape {tuple(mask.shape)}. Convert a 0/1 mask with mask.bool()."
        )


def _log_temperature(temperature: float, heads: int) -> nn.Parameter:
    if not temperature > 0:  # also catches NaN
        raise ConfigError(f"temperature ({temperature}) must be above 0; None disables it.")
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
