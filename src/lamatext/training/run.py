"""One training run, from texts and class numbers to a trained network with its text encoder."""

from collections.abc import Mapping, Sequence
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
from lamatext.errors import ConfigError
from lamatext.kernels.gru import compile_kernels, ready
from lamatext.nn.network import RECURRENT, build_network
from lamatext.progress import SILENT, Progress
from lamatext.runtime.predictor import Encoder
from lamatext.training.batches import Examples
from lamatext.training.calibrate import fold_temperature
from lamatext.training.checkpoint import EpochRecord
from lamatext.training.fit import Plan, fit

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run leaves behind."""

    network: nn.Module
    encoder: Encoder
    history: list[EpochRecord]
    best_epoch: int
    valid_accuracy: float
    temperature: float
    architecture: dict[str, object] | None = None  # of a pretrained encoder


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
    names: Sequence[str],
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: Progress = SILENT,
) -> Trained:
    """Train by the recipe; without ``valid`` a share of the training texts is held out.

    Args:
        train: texts to learn from.
        valid: texts to stop by.
        recipe: all settings.
        names: the classes' labels; the class numbers count into them.
        device: ``auto`` takes a GPU where there is one.
        checkpoint: a file that keeps the state of the run; if it exists, the run goes on there.
        progress: told what is being done.
    """
    classes = len(names)
    prepare = _prepare_pretrained if recipe.model.name == "bert" else _prepare_words
    ready = prepare(_joined(train, valid, recipe), recipe, classes, progress)
    network, rows, split = ready.network, ready.rows, ready.split
    held_out = Examples(rows.take(split.valid), split.labels[split.valid])
    learned = Examples(rows.take(split.train), split.labels[split.train])
    plan = Plan(
        recipe.model,
        recipe.training,
        recipe.seed,
        pick_device(device),
        class_weights=class_weights(recipe.training.class_weight, learned.labels, names),
        checkpoint=checkpoint,
        identity=fingerprint(
            recipe.model_dump_json(), rows.ids, rows.offsets, split.labels, split.train
        ),
    )
    _warm_up(recipe, plan.device, progress)
    state = fit(network, learned, held_out, plan, progress)
    temperature = fold_temperature(network, held_out, plan.device)
    network.to("cpu").eval()
    return Trained(
        network=network,
        encoder=ready.encoder,
        history=state.history,
        best_epoch=state.best_epoch,
        valid_accuracy=state.best_accuracy,
        temperature=temperature,
        architecture=ready.architecture,
    )


def pick_device(name: str) -> torch.device:
    """``auto`` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


@dataclass(frozen=True, slots=True)
class _Split:
    """All texts, and which rows of them train and which validate."""

    texts: pa.ChunkedArray
    labels: Labels
    train: Indices
    valid: Indices


@dataclass(frozen=True, slots=True)
class _Ready:
    """What the loop starts from."""

    network: nn.Module
    encoder: Encoder
    rows: Ragged
    split: _Split
    architecture: dict[str, object] | None = None


def _joined(train: Texts, valid: Texts | None, recipe: Recipe) -> _Split:
    if valid is None:
        shares = (1 - recipe.training.valid, recipe.training.valid)
        rows, held = stratified_split(train.labels, shares, recipe.seed)
        return _Split(train.texts, train.labels, rows, held)
    texts = pa.chunked_array([*train.texts.chunks, *valid.texts.chunks], pa.large_string())
    rows, middle = np.arange(len(texts)), len(train.labels)
    labels = np.concatenate([train.labels, valid.labels])
    return _Split(texts, labels, rows[:middle], rows[middle:])


def _prepare_words(split: _Split, recipe: Recipe, classes: int, progress: Progress) -> _Ready:
    """The vocabulary and the word vectors come from the training texts alone."""
    tokens = _tokens(split.texts, recipe.text, progress)
    encoder, rows = _encode(tokens, split.train, recipe.text)
    vectors = _vectors(recipe, encoder.vocabulary, rows.take(split.train), progress)
    torch.manual_seed(recipe.seed)
    network = build_network(
        recipe.model, vocabulary=len(encoder.vocabulary), width=recipe.text.width, classes=classes
    )
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(vectors))
    return _Ready(network, encoder, rows, split)


def _prepare_pretrained(split: _Split, recipe: Recipe, classes: int, progress: Progress) -> _Ready:
    """A pretrained encoder brings its own subwords and vectors."""
    from lamatext.data.subwords import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    torch.manual_seed(recipe.seed)
    progress.stage(f"loading {recipe.model.pretrained}")
    loaded = load_pretrained(recipe.model.pretrained, classes=classes, dropout=recipe.model.dropout)
    limit = min(recipe.text.max_words or loaded.max_words, loaded.max_words)
    encoder = SubwordEncoder.from_json(loaded.tokenizer, limit)
    progress.stage("tokenising")
    rows = encoder.encode(split.texts.to_pylist())
    return _Ready(loaded.network, encoder, rows, split, loaded.architecture)


def _warm_up(recipe: Recipe, device: torch.device, progress: Progress) -> None:
    """Compile the CPU kernel before the first batch, and say so where it takes a while."""
    if device.type == "cpu" and recipe.model.name in RECURRENT and not ready():
        progress.stage("compiling the CPU kernel (once on this machine)")
        compile_kernels()


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


def class_weights(
    wanted: str | Mapping[str, float] | None, labels: Labels, names: Sequence[str]
) -> Tensor | None:
    """What each class's loss counts: (C,). ``balanced`` makes all classes weigh the same."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        counts = np.bincount(labels, minlength=len(names))
        return torch.tensor(len(labels) / (len(names) * counts), dtype=torch.float32)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ConfigError(
            f"class_weight names the class {unknown[0]!r}, which the labels have not. "
            f"They have {', '.join(names[:20])}."
        )
    return torch.tensor([wanted.get(name, 1.0) for name in names], dtype=torch.float32)
