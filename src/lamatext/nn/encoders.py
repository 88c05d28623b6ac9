"""Encoders: from the embeddings of a text's words to one state per word.

Every encoder has the signature ``encoder(embedded (B, T, E), lengths (B,)) → states (B, T, D)``,
and ``encoder.width`` is D. Lengths stay on the CPU; states beyond a text's length are never read.
Shapes: B texts, T words, E embedding width, D state width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lamatext.errors import ConfigError
from lamatext.kernels.gru_dispatch import run_gru


class NoEncoder(nn.Module):
    """Identity encoder, which returns the word embeddings unchanged."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:  # noqa: ARG002 - same signature as every encoder
        """Return the word embeddings unchanged as the states of the identity encoder."""
        return embedded


class GruEncoder(nn.Module):
    """Bidirectional GRU encoder, which concatenates the states of both directions."""

    def __init__(self, width: int, *, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.width = 2 * hidden

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Encode word embeddings with a bidirectional GRU into states (B, T, 2h), 0 for padding."""
        return run_gru(self.gru, embedded, lengths)


class ConvolutionEncoder(nn.Module):
    """Convolutional encoder with filters over windows of 3, 4 and 5 words (CNN, Kim 2014).

    The states are the ReLU of the filter outputs.

    Every word has a state: its window of n words starts ⌊(n − 1)/2⌋ words before it. The text is
    padded with zeros on both sides.
    """

    def __init__(self, width: int, *, filters: int, windows: Sequence[int] = (3, 4, 5)) -> None:
        super().__init__()
        self.windows = nn.ModuleList(nn.Conv1d(width, filters, size) for size in windows)
        self.sizes = tuple(windows)
        self.width = len(windows) * filters

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Apply the convolutions to word embeddings and return states (B, T, windows * filters)."""
        mask = mask_of(embedded, lengths)
        words = (embedded * mask[:, :, None]).transpose(1, 2)  # (B, E, T), zeros beyond the text
        maps = [
            window(F.pad(words, ((size - 1) // 2, size // 2)))  # (B, filters, T)
            for window, size in zip(self.windows, self.sizes, strict=True)
        ]
        return torch.cat(maps, dim=1).relu().transpose(1, 2)


class TransformerEncoder(nn.Module):
    """Transformer encoder with learned position embeddings (TE, Vaswani et al. 2017)."""

    def __init__(
        self, width: int, *, heads: int, feed_forward: int, positions: int, layers: int = 1
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ConfigError(
                f"the width ({width}) must be divisible by heads ({heads}) in a Transformer. "
                "Choose heads that divide the width."
            )
        self.width = width
        self.positions = learned_positions(positions, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feed_forward, batch_first=True)
            for _ in range(layers)
        )

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Encode word embeddings with the Transformer layers into states (B, T, E)."""
        check_positions(self.positions, embedded)
        padding = ~mask_of(embedded, lengths)  # (B, T)
        states = embedded + self.positions.weight[: embedded.shape[1]]  # (B, T, E)
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=padding)
        return states


def learned_positions(positions: int, width: int) -> nn.Embedding:
    """Create the table of learned position embeddings of an encoder."""
    table = nn.Embedding(positions, width)
    nn.init.normal_(table.weight, std=0.1)
    return table


def check_positions(positions: nn.Module, embedded: Tensor) -> None:
    """Raise ConfigError if a text is longer than the encoder's table of position embeddings."""
    words = embedded.shape[1]
    if isinstance(positions, nn.Embedding) and words > positions.num_embeddings:
        raise ConfigError(
            f"a text of {words} words is longer than the {positions.num_embeddings} learned "
            "positions of this encoder. Lower text.max_words or raise model.transformer_positions."
        )


def mask_of(words: Tensor, lengths: Tensor) -> Tensor:
    """Create the padding mask (B, T) of an encoder: true for words, false for padding."""
    positions = torch.arange(words.shape[1], device=words.device)
    return positions < lengths.to(words.device, non_blocking=True)[:, None]
