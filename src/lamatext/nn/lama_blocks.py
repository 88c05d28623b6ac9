"""Encoder of the model lama-blocks: positions, a convolution and attention instead of a GRU.

In each block, LAMA's heads summarize the text, and every word receives a mix of the summaries; all
words are computed in parallel. The equations are in ``docs/model.md``.
Shapes: B texts, T words, D state width (that of the embeddings), M heads.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lamatext.nn.attention import LowRankAttention, masked_softmax
from lamatext.nn.encoders import check_positions, mask_of
from lamatext.nn.pooling import masked_mean


class BlocksEncoder(nn.Module):
    """Encoder of the ``lama-blocks`` model, a stack of LAMA attention blocks without a GRU.

    Args:
        width: D, the width of the embeddings and of the states.
        blocks: the blocks, in order; without blocks, the states after the window are returned.
        positions: module from position numbers (…, T) to vectors (…, T, D); None adds no positions.
        end_positions: the same for positions counted from the end of the text.
        window_radius: words to each side that the window covers; 0 disables the window.
    """

    def __init__(
        self,
        width: int,
        blocks: Iterable["LamaBlock"],
        *,
        positions: nn.Module | None = None,
        end_positions: nn.Module | None = None,
        window_radius: int = 0,
    ) -> None:
        super().__init__()
        self.width = width
        self.positions, self.end_positions = positions, end_positions
        self.window = None
        if window_radius:
            size = 2 * window_radius + 1
            self.window = nn.Conv1d(width, width, size, padding=window_radius, groups=width)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Encode word embeddings (B, T, D) with the lama-blocks encoder into states (B, T, D).

        The context of every block is the mean of the embeddings.
        """
        mask = mask_of(embedded, lengths)  # (B, T)
        states = self._add_positions(embedded, lengths)
        if self.window is not None:
            words = (states * mask[:, :, None]).transpose(1, 2)  # (B, D, T), zeros beyond the text
            states = states + self.window(words).relu().transpose(1, 2)
        if len(self.blocks):
            context = masked_mean(embedded, mask)  # (B, D)
            for block in self.blocks:
                states = block(states, mask, context)
        return states

    def _add_positions(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        states = embedded
        numbers = torch.arange(embedded.shape[1], device=embedded.device)  # (T,)
        if self.positions is not None:
            check_positions(self.positions, embedded)
            states = states + self.positions(numbers)
        if self.end_positions is not None:
            check_positions(self.end_positions, embedded)
            last = lengths.to(embedded.device, non_blocking=True)[:, None] - 1
            states = states + self.end_positions((last - numbers).clamp(min=0))  # (B, T, D)
        return states


class LamaBlock(nn.Module):
    """Attention block of lama-blocks, which adds a mix of the heads' pooled states to each word.

    With the scores f of LAMA's heads, S = A H and A = softmax of f over the words:

        h′ₜ = LN(hₜ + W_o Σᵢ softmaxᵢ(fₜ) sᵢ),   h″ₜ = LN(h′ₜ + W₂ relu(W₁ h′ₜ + b₁) + b₂)
    """

    def __init__(self, attention: LowRankAttention, width: int, *, feed_forward: int) -> None:
        super().__init__()
        self.attention = attention
        self.output = nn.Linear(width, width, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, feed_forward)
        self.linear2 = nn.Linear(feed_forward, width)

    def forward(self, states: Tensor, mask: Tensor, context: Tensor) -> Tensor:
        """Apply one attention block of the ``lama-blocks`` encoder to the word states (B, T, D).

        W_o is applied to the M summaries instead of the T words, which gives the same sum.
        """
        scores = self.attention.scores(states, context)  # (B, T, M)
        weights = masked_softmax(scores.transpose(1, 2), mask[:, None, :])  # (B, M, T)
        summaries = self.output(weights @ states)  # (B, M, D)
        states = self.norm1(states + scores.softmax(dim=-1) @ summaries)
        normalized: Tensor = self.norm2(states + self.linear2(self.linear1(states).relu()))
        return normalized


class SinusoidalPositions(nn.Module):
    """Sinusoidal position embedding of lama-blocks, which maps a word position to a vector.

    The network ``lama-blocks`` adds this vector to the word's embedding. Position t has the vector
    pₜ = g ∘ [sin ωt, cos ωt] with learned gains g and ωᵢ = 10000^(−i/⌈D/2⌉). The gains are
    initialized like learned position embeddings, from N(0, 0.1²). Every position has a vector, so
    texts may have any length.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = (width + 1) // 2
        frequencies = torch.tensor([10_000.0 ** (-i / half) for i in range(half)])
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.gain = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the sinusoidal position embeddings (…, T, D) of word positions (…, T)."""
        angles = numbers[..., None] * self.frequencies  # (…, T, ⌈D/2⌉)
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return waves[..., : len(self.gain)] * self.gain
