"""The network from word ids to logits, and the builder that reads the model settings.

Shapes: B texts, T words, E embedding width, D state width, M heads, C classes.
"""

from typing import NamedTuple, assert_never

import torch
from torch import Tensor, nn

from lamatext.errors import ModelError
from lamatext.nn.attention import BilinearAttention, LowRankAttention, StructuredAttention
from lamatext.nn.encoders import (
    ConvolutionEncoder,
    GruEncoder,
    NoEncoder,
    TransformerEncoder,
    learned_positions,
    mask_of,
)
from lamatext.nn.lama_blocks import BlocksEncoder, LamaBlock, SinusoidalPositions
from lamatext.nn.phrase_attention import PhraseAttention, Phrases
from lamatext.nn.pooling import MaxPooling, MeanPooling, masked_mean
from lamatext.settings import ModelSettings


class Output(NamedTuple):
    """Outputs of the network for one batch: logits, embeddings, attention weights and states."""

    logits: Tensor  # (B, C)
    embedding: Tensor  # (B, M, D): S, the matrix embedding of each text
    weights: Tensor | None  # (B, M, T): A; None if the model has no attention
    states: Tensor  # (B, T, D): H


Encoder = NoEncoder | GruEncoder | ConvolutionEncoder | TransformerEncoder | BlocksEncoder


class Dropout(nn.Dropout):
    """Dropout layer that is faster than torch's on the CPU, with 16 random bits per element.

    On the CPU, generating torch's own random numbers takes as long as a GRU. The dropout
    probability is rounded to a multiple of 2⁻¹⁶; the mean of the output stays exact.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training mode, zeroing each element with probability p."""
        if not self.training or not self.p or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * 2**16)  # of 2¹⁶ equally likely values
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = words.view(torch.int16)[: x.numel()].view_as(x) >= dropped - 2**15
        return x * (keep * (2**16 / (2**16 - dropped))).to(x.dtype)


class Network(nn.Module):
    """Text classification network with embedding, encoder, pooling and classifier."""

    def __init__(
        self,
        embedding: nn.Embedding,
        encoder: Encoder,
        pooling: nn.Module,
        classifier: nn.Module,
        *,
        phrases: Phrases | None = None,
        embedding_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder
        self.pooling = pooling
        self.phrases = phrases
        self.classifier = classifier
        self.embedding_dropout = Dropout(embedding_dropout)

    def forward(self, ids: Tensor, lengths: Tensor) -> Output:
        """Run the network on a batch of padded word ids.

        ``ids`` is (B, T), padded after ``lengths`` (B,) words. The lengths stay on the CPU.
        """
        mask = mask_of(ids, lengths)  # (B, T)
        embedded = self.embedding_dropout(self.embedding(ids))  # (B, T, E)
        context = masked_mean(embedded, mask)  # (B, E)
        states = self.encoder(embedded, lengths)  # (B, T, D)
        queries = () if self.phrases is None else (self.phrases(ids, embedded, mask),)
        embedding, weights = self.pooling(states, mask, context, *queries)  # (B, M, D), (B, M, T)
        return Output(self.classifier(embedding.flatten(1)), embedding, weights, states)


def build_network(model: ModelSettings, *, vocabulary: int, width: int, classes: int) -> Network:
    """Build the network that the model settings describe, for every model except ``bert``.

    The network of ``bert`` is built in ``pretrained.py``.
    """
    encoder = _encoder(model, width)
    pooling, rows = _pooling(model, states=encoder.width, context=width)
    return Network(
        nn.Embedding(vocabulary, width, padding_idx=0),
        encoder,
        pooling,
        _classifier(model, inputs=rows * encoder.width, classes=classes),
        phrases=_phrases(model, vocabulary) if model.name == "lama-phrases" else None,
        embedding_dropout=model.embedding_dropout,
    )


def _encoder(model: ModelSettings, width: int) -> Encoder:
    match model.name:
        case "te":
            return TransformerEncoder(
                width,
                heads=model.heads,
                feed_forward=model.transformer_feed_forward,
                positions=model.transformer_positions,
                layers=model.transformer_layers,
            )
        case "cnn":
            return ConvolutionEncoder(width, filters=model.cnn_filters)
        case "avg" | "lama-encoder":
            return NoEncoder(width)
        case "lama-blocks":
            return _blocks(model, width)
        case _:
            return GruEncoder(width, hidden=model.hidden_size)


def _blocks(model: ModelSettings, width: int) -> BlocksEncoder:
    inner = model.transformer_feed_forward
    blocks = [
        LamaBlock(_low_rank(model, width, width), width, feed_forward=inner)
        for _ in range(model.transformer_layers)
    ]
    return BlocksEncoder(
        width,
        blocks,
        positions=_positions(model, width),
        end_positions=_positions(model, width) if model.end_positions else None,
        window_radius=model.window_radius,
    )


def _positions(model: ModelSettings, width: int) -> nn.Module | None:
    match model.position_encoding:
        case "none":
            return None
        case "learned":
            return learned_positions(model.transformer_positions, width)
        case "sinusoidal":
            return SinusoidalPositions(width)


def _phrases(model: ModelSettings, vocabulary: int) -> Phrases:
    if model.phrases == "punctuation":
        return Phrases(vocabulary=vocabulary)
    return Phrases(model.phrases)


def _pooling(model: ModelSettings, *, states: int, context: int) -> tuple[nn.Module, int]:
    match model.name:
        case "lama" | "lama-ctx" | "lama-ctx-dp" | "lama-ctx-de" | "lama-encoder" | "lama-blocks":
            learned = model.name == "lama"
            return _low_rank(model, states, None if learned else context), model.heads
        case "lama-phrases":
            words = _low_rank(model, states, context)
            states_alone = model.model_copy(update={"score_input": "states"})
            return PhraseAttention(words, _low_rank(states_alone, states, context)), model.heads
        case "san":
            return StructuredAttention(states, model.heads, hidden=model.san_width), model.heads
        case "bilinear":
            return BilinearAttention(states, context, project=model.score_input == "projected"), 1
        case "bigru" | "cnn":
            return MaxPooling(), 1
        case "avg" | "te":
            return MeanPooling(), 1
        case "bert":
            raise ModelError("bert is built by lamatext.nn.pretrained, not by build_network.")
        case _:
            assert_never(model.name)


def count_parameters(network: nn.Module) -> dict[str, int]:
    """Count the trainable parameters per network component, counting shared ones only once."""
    counts, seen = {}, set[Tensor]()
    for part in ("embedding", "encoder", "pooling", "classifier"):
        module = getattr(network, part, None)
        own = set(module.parameters()) - seen if isinstance(module, nn.Module) else set()
        seen |= own
        name = "attention" if part == "pooling" else part
        counts[name] = sum(parameter.numel() for parameter in own if parameter.requires_grad)
    return counts


def _low_rank(model: ModelSettings, width: int, context_width: int | None) -> LowRankAttention:
    return LowRankAttention(
        width,
        model.heads,
        context_width,
        rank=model.rank,
        project=model.score_input == "projected",
        tanh=model.score_tanh,
        l2=model.score_l2,
        temperature=model.initial_temperature,
    )


def _classifier(model: ModelSettings, *, inputs: int, classes: int) -> nn.Sequential:
    if not model.classifier_width:
        linear = nn.Linear(inputs, classes)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        return nn.Sequential(Dropout(model.dropout), linear)
    return nn.Sequential(
        nn.Linear(inputs, model.classifier_width),
        nn.ReLU(),
        Dropout(model.dropout),
        nn.Linear(model.classifier_width, classes),
    )
