"""One training run, from texts and class numbers to a trained network with its text encoder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamatext.config import Recipe, TextSettings
from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.encode import TextEncoder, Tokens, tokenise
from lamatext.data.ragged import Indices, Ragged
from lamatext.data.split import stratified_split
from lamatext.data.tokens import make_tokenizer
from lamatext.data.vectors import Vectors, make_vectors
from lamatext.data.vocab import Vocabulary
from lamatext.nn.network import build_network
from lamatext.progress import SILENT, Progress
from lamatext.training.batches import Examples
from lamatext.training.calibrate import fold_temperature
from lamatext.training.checkpoint import EpochRecord
from lamatext.training.fit import Plan, fit

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run leaves behind."""

    network: nn.Module
    encoder: TextEncoder
    history: list[EpochRecord]
    best_epoch: int
    valid_accuracy: float
    temperature: float


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts and the number of each one's class."""

    texts: pa.ChunkedArray
    labels: Labels  # (n,)


def train(  # noqa: PLR0913 - data, recipe, and where and how it runs
    train: Texts,
    valid: Texts | None,
    recipe: Recipe,
    *,
    classes: int,
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> Trained:
    """Train by the recipe; without ``valid`` a share of the training texts is held out."""
    tokens, train_rows, valid_rows, labels = _gather(train, valid, recipe, progress)
    encoder, rows = _encode(tokens, train_rows, recipe.text)
    vectors = _vectors(recipe, encoder.vocabulary, rows.take(train_rows), progress)
    torch.manual_seed(recipe.seed)
    network = build_network(
        recipe.model, vocabulary=len(encoder.vocabulary), width=recipe.text.width, classes=classes
    )
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(vectors))
    held_out = Examples(rows.take(valid_rows), labels[valid_rows])
    plan = Plan(
        recipe.model,
        recipe.training,
        recipe.seed,
        pick_device(device),
        class_weights=_class_weights(recipe, labels[train_rows], classes),
        checkpoint=checkpoint,
        identity=fingerprint(recipe.model_dump_json(), rows.ids, rows.offsets, labels, train_rows),
    )
    state = fit(
        network, Examples(rows.take(train_rows), labels[train_rows]), held_out, plan, progress
    )
    temperature = fold_temperature(network, held_out, plan.device)
    network.to("cpu").eval()
    return Trained(
        network, encoder, state.history, state.best_epoch, state.best_accuracy, temperature
    )


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _gather(
    train: Texts, valid: Texts | None, recipe: Recipe, progress: Progress
) -> tuple[Tokens, Indices, Indices, Labels]:
    """All texts as tokens, and which of them train and which validate."""
    if valid is None:
        train_rows, valid_rows = stratified_split(
            train.labels, (1 - recipe.training.valid, recipe.training.valid), recipe.seed
        )
        return _tokens(train.texts, recipe.text, progress), train_rows, valid_rows, train.labels
    texts = pa.chunked_array([*train.texts.chunks, *valid.texts.chunks], pa.large_string())
    labels = np.concatenate([train.labels, valid.labels])
    rows = np.arange(len(labels))
    middle = len(train.labels)
    return _tokens(texts, recipe.text, progress), rows[:middle], rows[middle:], labels


def _tokens(texts: pa.ChunkedArray, text: TextSettings, progress: Progress) -> Tokens:
    def make() -> Arrays:
        made = tokenise(texts, make_tokenizer(text.tokenizer, lower=text.lower), progress)
        types = np.frombuffer("\n".join(made.types).encode("utf-8", "surrogatepass"), np.uint8)
        return {"types": types, "ids": made.rows.ids, "offsets": made.rows.offsets}

    kept = cached("tokens", fingerprint("1", text.tokenizer, text.lower, texts), make)
    types = kept["types"].tobytes().decode("utf-8", "surrogatepass").split("\n")
    return Tokens(
        tuple(types) if len(kept["types"]) else (),
        Ragged(kept["ids"].astype(np.int32), kept["offsets"].astype(np.int64)),
    )


def _encode(tokens: Tokens, train_rows: Indices, text: TextSettings) -> tuple[TextEncoder, Ragged]:
    """The vocabulary comes from the training texts alone; every text is encoded by it."""
    vocabulary = Vocabulary.from_counts(
        tokens.types, tokens.counts(train_rows), min_count=text.min_count
    )
    encoder = TextEncoder(
        make_tokenizer(text.tokenizer, lower=text.lower),
        vocabulary,
        rare=text.rare,
        max_words=text.max_words,
    )
    return encoder, tokens.encode(vocabulary, rare=text.rare, max_words=text.max_words)


def _vectors(recipe: Recipe, vocabulary: Vocabulary, rows: Ragged, progress: Progress) -> Vectors:
    text = recipe.text

    def make() -> Arrays:
        return {
            "vectors": make_vectors(text, vocabulary, rows, seed=recipe.seed, progress=progress)
        }

    if text.vectors != "word2vec":
        return make()["vectors"].astype(np.float32)
    settings = (text.width, text.vector_epochs, text.vector_window, recipe.seed)
    key = fingerprint("1", settings, vocabulary.words, rows.ids, rows.offsets)
    return cached("word2vec", key, make)["vectors"].astype(np.float32)


def _class_weights(recipe: Recipe, labels: Labels, classes: int) -> Tensor | None:
    if recipe.training.class_weight is None:
        return None
    counts = np.bincount(labels, minlength=classes)
    return torch.tensor(len(labels) / (classes * counts), dtype=torch.float32)
