"""The whole network: word ids in, logits out; and the one builder that reads the settings.

Shapes: B texts, T words, E embedding width, D state width, M heads, C classes.
"""

from typing import NamedTuple, assert_never

from torch import Tensor, nn

from lamatext.errors import ModelError
from lamatext.nn.attention import BilinearAttention, LowRankAttention, StructuredAttention
from lamatext.nn.encoders import (
    ConvolutionEncoder,
    GruEncoder,
    NoEncoder,
    TransformerEncoder,
    mask_of,
)
from lamatext.nn.losses import disagreement_over_embeddings, disagreement_over_positions
from lamatext.nn.pooling import MaxPooling, MeanPooling, masked_mean
from lamatext.settings import ModelSettings


class Output(NamedTuple):
    """What a network says of a batch of texts."""

    logits: Tensor  # (B, C)
    embedding: Tensor  # (B, M, D): S, the matrix embedding of each text
    weights: Tensor | None  # (B, M, T): A; None where a system has no attention
    states: Tensor  # (B, T, D): H


Encoder = NoEncoder | GruEncoder | ConvolutionEncoder | TransformerEncoder


class Network(nn.Module):
    """Embedding → encoder → pooling → classifier."""

    def __init__(
        self,
        embedding: nn.Embedding,
        encoder: Encoder,
        pooling: nn.Module,
        classifier: nn.Module,
        *,
        embedding_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder
        self.pooling = pooling
        self.classifier = classifier
        self.embedding_dropout = nn.Dropout(embedding_dropout)

    def forward(self, ids: Tensor, lengths: Tensor) -> Output:
        """Classify ``ids`` (B, T), of which the first ``lengths`` (B,; on the CPU) are words."""
        mask = mask_of(ids, lengths)  # (B, T)
        embedded = self.embedding_dropout(self.embedding(ids))  # (B, T, E)
        context = masked_mean(embedded, mask)  # (B, E)
        states = self.encoder(embedded, lengths)  # (B, T, D)
        embedding, weights = self.pooling(states, mask, context)  # (B, M, D), (B, M, T)
        return Output(self.classifier(embedding.flatten(1)), embedding, weights, states)


DISAGREEMENT = {"lama-ctx-dp": "positions", "lama-ctx-de": "embeddings", "san": "positions"}


def build_network(model: ModelSettings, *, vocabulary: int, width: int, classes: int) -> Network:
    """The system that the settings name; ``bert`` alone is built by ``lamatext.nn.pretrained``."""
    encoder = _encoder(model, width)
    pooling, rows = _pooling(model, states=encoder.width, context=width)
    return Network(
        nn.Embedding(vocabulary, width, padding_idx=0),
        encoder,
        pooling,
        _classifier(model, inputs=rows * encoder.width, classes=classes),
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
        case _:
            return GruEncoder(width, hidden=model.hidden_size)


def _pooling(model: ModelSettings, *, states: int, context: int) -> tuple[nn.Module, int]:
    """What makes the embedding of a text from its states, and how many rows that has."""
    match model.name:
        case "lama":
            return _low_rank(model, states, None), model.heads
        case "lama-ctx" | "lama-ctx-dp" | "lama-ctx-de" | "lama-encoder":
            return _low_rank(model, states, context), model.heads
        case "san":
            return (
                StructuredAttention(states, model.heads, hidden=model.san_width),
                model.heads,
            )
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


def disagreement(model: ModelSettings, output: Output) -> Tensor | None:
    """D of each text (B,), for the systems whose loss has the term."""
    match DISAGREEMENT.get(model.name):
        case "positions" if output.weights is not None:
            return disagreement_over_positions(output.weights)
        case "embeddings":
            return disagreement_over_embeddings(output.embedding[:, : model.heads])
        case _:
            return None


def count_parameters(network: nn.Module) -> dict[str, int]:
    """Trainable parameters by component; each is counted once, in the first that holds it."""
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
        return nn.Sequential(nn.Dropout(model.dropout), linear)
    return nn.Sequential(
        nn.Linear(inputs, model.classifier_width),
        nn.ReLU(),
        nn.Dropout(model.dropout),
        nn.Linear(model.classifier_width, classes),
    )
