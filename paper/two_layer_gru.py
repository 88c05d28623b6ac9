"""BiGRU with two layers, which the paper says converged more slowly and did worse than with one."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lamatext.data.splits import Split
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.word_vectors import Vectors
from lamatext.nn.encoders import GruEncoder
from lamatext.settings import Recipe
from lamatext.training.batching import EncodedDataset
from lamatext.training.checkpoint import EpochRecord
from lamatext.training.loop import LoopSettings, fit
from lamatext.training.preparation import prepare_run
from paper.accuracy_table import accuracy_records, mean_and_spread
from paper.datasets import TokenizedDataset
from paper.markdown import MISSING, dataset_heading, markdown_table
from paper.records import Record, Records

EXPERIMENT = "layers"
TWO_LAYERS = "bigru-2"  # our name of the system in records; its recipe is that of bigru
LAYER_DATASETS = ("r8", "mr")
SEEDS = (0, 1, 2)


class TwoLayerGruEncoder(nn.Module):
    """Two bidirectional GRU layers: the states of the first are the inputs of the second."""

    def __init__(self, first: GruEncoder) -> None:
        super().__init__()
        self.first = first
        self.second = GruEncoder(first.width, hidden=first.width // 2)
        self.width = self.second.width

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Encode word embeddings (B, T, E) with both GRU layers into states (B, T, 2h)."""
        states: Tensor = self.second(self.first(embedded, lengths), lengths)
        return states


class TrainedNetwork(NamedTuple):
    """A trained two-layer BiGRU, with the fields of a trained model that records need."""

    network: nn.Module
    history: list[EpochRecord]
    validation_accuracy: float
    scales: dict[str, float]


def train_two_layers(
    data: TokenizedDataset,
    split: Split,
    recipe: Recipe,
    word_vectors: Vectors | None,
    device: torch.device,
) -> TrainedNetwork:
    """Train a BiGRU with two layers by the recipe of the one with a single layer."""
    prepared = prepare_run(
        data.tokens,
        split,
        recipe,
        classes=len(data.classes),
        word_vectors=word_vectors,
        tokenizer=WordTokenizer(),  # never used: the texts are tokenized
    )
    network = prepared.network
    network.encoder = TwoLayerGruEncoder(network.get_submodule("encoder"))  # type: ignore[arg-type]
    texts = EncodedDataset(prepared.token_ids, data.labels)
    settings = LoopSettings(recipe.model, recipe.training, recipe.seed, device)
    state = fit(network, texts.take(split.train), texts.take(split.validation), settings)
    return TrainedNetwork(network, state.history, state.best_accuracy, {"network": 1.0})


def layers_table(records: Records) -> str:
    """Format the test accuracy and the best epoch of BiGRU with one and two layers."""
    systems = (
        ("BiGRU, one layer", "accuracy", "bigru"),
        ("BiGRU, two layers", EXPERIMENT, TWO_LAYERS),
    )
    rows = [
        [
            title,
            *(c for name in LAYER_DATASETS for c in _cells(records, experiment, name, model)),
        ]
        for title, experiment, model in systems
    ]
    columns = [c for name in LAYER_DATASETS for c in (dataset_heading(name), "best epoch")]
    return markdown_table(("test accuracy", *columns), rows)


def _cells(records: Records, experiment: str, dataset: str, model: str) -> tuple[str, str]:
    tested = [
        record
        for record in accuracy_records(records, dataset, model, experiment=experiment)
        if record.seed in SEEDS
    ]
    epochs = list(_best_epochs(records.of(experiment), dataset, model))
    shown = f"{np.mean(epochs):.1f}" if epochs else MISSING
    return mean_and_spread([record.number for record in tested]), shown


def _best_epochs(records: Sequence[Record], dataset: str, model: str) -> Iterator[int]:
    for record in records:
        wanted = (record.dataset, record.model, record.metric) == (
            dataset,
            model,
            "validation_curve",
        )
        if wanted and record.seed in SEEDS:
            yield int(np.argmax(np.array(record.value, float))) + 1
