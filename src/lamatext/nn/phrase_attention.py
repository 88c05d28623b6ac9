"""Phrase attention (lama-phrases): one query per phrase, then one weight per phrase.

A middle ground between LAMA's single context vector and a query for every word. The equations are
in ``docs/model.md``.
Shapes: B texts, T words, J phrases, D state width, E embedding width, M heads, k rank.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lamatext.nn.attention import LowRankAttention, masked_softmax

PART = 1 << 25  # number of scores (texts x heads x phrases x words) computed at a time


class Queries(NamedTuple):
    """Query vectors of the phrases in a batch (mean word embeddings), with a padding mask."""

    means: Tensor  # (B, J, E)
    mask: Tensor  # (B, J) bool: true for phrases that have words


class Phrases(nn.Module):
    """Layer that splits texts into phrases, either by a fixed number of words or by punctuation.

    Args:
        words: w, the words per phrase; None makes the whole text one phrase. Ignored with
            ``vocabulary``.
        vocabulary: V, the size of the vocabulary; the buffer ``ends`` (V,) then flags the words
            that end a phrase. None cuts windows of w words.
    """

    ends: Tensor | None

    def __init__(self, words: int | None = None, *, vocabulary: int | None = None) -> None:
        super().__init__()
        self.words = words
        self.register_buffer("ends", None if vocabulary is None else torch.zeros(vocabulary))

    def forward(self, ids: Tensor, embedded: Tensor, mask: Tensor) -> Queries:
        """Compute the query of each phrase as the mean of its word embeddings."""
        real = mask[:, :, None].to(embedded.dtype)  # (B, T, 1)
        words = torch.cat([embedded * real, real], dim=-1)  # (B, T, E + 1): the last one counts
        sums = self._spans(ids, words, mask) if self.words is None else self._windows(words)
        counts = sums[:, :, -1]  # (B, J)
        return Queries(sums[:, :, :-1] / counts.clamp(min=1)[:, :, None], counts > 0)

    def _windows(self, words: Tensor) -> Tensor:
        """Sum the word embeddings of each phrase, for phrases with a fixed number of words."""
        assert self.words is not None
        texts, length, width = words.shape
        padded = F.pad(words, (0, 0, 0, -length % self.words))
        return padded.view(texts, -1, self.words, width).sum(dim=2)

    def _spans(self, ids: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        """Sum the word embeddings of each phrase, for phrases separated by punctuation."""
        if self.ends is None:
            return words.sum(dim=1, keepdim=True)
        ends = (self.ends[ids] > 0.5) & mask  # (B, T)
        numbers = ends.cumsum(dim=1) - ends.long()  # (B, T): the marks before each word
        shape = (len(words), int(numbers.max()) + 1, words.shape[2])
        return words.new_zeros(shape).scatter_add(1, numbers[:, :, None].expand_as(words), words)


class PhraseAttention(nn.Module):
    """Phrase attention layer, which pools word states with a separate query for each phrase.

    Head i weighs the words of the text once for each phrase j, A_ijt = softmax over t of the
    low-rank scores of c_j and uₜ, which gives the summaries S_ij = Σₜ A_ijt hₜ. A second low-rank
    score of S_ij and the context c gives the phrases their weights B_ij, and sᵢ = Σ_j B_ij S_ij.
    Because both steps are linear in hₜ, the word weights Āᵢₜ = Σ_j B_ij A_ijt give sᵢ = Σₜ Āᵢₜ hₜ.

    Args:
        words: the attention layer whose heads score words against the query of a phrase.
        phrases: the attention layer whose heads score the summaries of phrases against c; it
            scores states, without a projection.
    """

    def __init__(self, words: LowRankAttention, phrases: LowRankAttention) -> None:
        super().__init__()
        self.words, self.phrases = words, phrases

    def forward(
        self, states: Tensor, mask: Tensor, context: Tensor, queries: Queries
    ) -> tuple[Tensor, Tensor]:
        """Pool the word states of each text by phrase attention.

        ``states`` is (B, T, D), ``mask`` (B, T) and ``context`` (B, E). To save memory, the phrases
        are computed in parts, with running sums of exp(g_ij) A_ijt. During training, if there are
        several parts, each is recomputed in the backward pass instead of being stored.

        Returns:
            The embedding S (B, M, D) and the word weights Ā (B, M, T).
        """
        keys, values = self.words.keys(states), self.phrases.keys(states)  # (B, T, M*k)
        context = self.phrases.p(context)[:, None]  # (B, 1, M*k)
        size = max(PART // (mask.numel() * self.words.heads), 1)
        means, phrase_masks = (torch.split(part, size, dim=1) for part in queries)
        running = _initial_sums(states, self.words.heads)
        for part, phrase_mask in zip(means, phrase_masks, strict=True):
            inputs = (running, part, phrase_mask, keys, values, mask, context)
            if len(means) > 1 and torch.is_grad_enabled():
                running = checkpoint(
                    self._add_phrases, *inputs, use_reentrant=False, preserve_rng_state=False
                )
            else:
                running = self._add_phrases(*inputs)
        weights = running.weights / running.total[:, :, None]  # (B, M, T)
        return weights @ states, weights

    def _add_phrases(  # noqa: PLR0913 - the running sums, one part of the phrases, all words
        self,
        running: "_Sums",
        means: Tensor,
        phrase_mask: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        context: Tensor,
    ) -> "_Sums":
        """Add a chunk of phrases to the running softmax sums of phrase attention."""
        weights = self._word_weights(means, keys, mask)  # (B, M, J, T)
        values = values.view(*values.shape[:2], self.words.heads, -1)  # (B, T, M, k)
        summaries = weights @ values.transpose(1, 2)  # (B, M, J, k): Q′ᵢᵀS_ij
        scores = self.phrases.combine(context, summaries.transpose(1, 2).flatten(2))  # (B, J, M)
        scores = scores.transpose(1, 2).masked_fill(~phrase_mask[:, None, :], float("-inf"))
        maximum = torch.maximum(running.maximum, scores.amax(dim=2)).detach()  # (B, M)
        rescale = (running.maximum - maximum).exp()
        shares = (scores - maximum[:, :, None]).exp()  # (B, M, J)
        return _Sums(
            maximum,
            running.total * rescale + shares.sum(dim=2),
            running.weights * rescale[:, :, None] + (shares[:, :, None, :] @ weights)[:, :, 0],
        )

    def _word_weights(self, means: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """Compute the attention weights (B, M, J, T) of all words for each phrase query."""
        scores = self.words.combine(self.words.p(means)[:, :, None], keys[:, None])  # (B, J, T, M)
        return masked_softmax(scores.permute(0, 3, 1, 2), mask[:, None, None, :])


class _Sums(NamedTuple):
    """Running softmax sums of phrase attention over the phrases processed so far."""

    maximum: Tensor  # (B, M): the largest phrase score, subtracted before exp
    total: Tensor  # (B, M): Σ_j exp(g_ij − maximum)
    weights: Tensor  # (B, M, T): Σ_j exp(g_ij − maximum) A_ijt


def _initial_sums(states: Tensor, heads: int) -> _Sums:
    texts, words = states.shape[:2]
    zeros = states.new_zeros(texts, heads)
    lowest = torch.finfo(states.dtype).min
    return _Sums(zeros + lowest, zeros, states.new_zeros(texts, heads, words))
