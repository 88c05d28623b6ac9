"""Preparation of a training run: vocabulary, encoded texts, word vectors, initial network."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.splits import Split
from lamatext.data.text_encoder import Encoder, TextEncoder
from lamatext.data.token_ids import FIRST_WORD, Indices, TokenIds
from lamatext.data.tokenizer import TokenizedTexts, Tokenizer, make_tokenizer, tokenize
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import (
    Vectors,
    frequent_words,
    is_pretrained_encoder,
    make_vectors,
    random_vectors,
)
from lamatext.nn.network import build_network
from lamatext.progress import SILENT, Progress
from lamatext.saved.model_io import SavedModel
from lamatext.saved.quantization import Array
from lamatext.settings import Recipe, TextSettings
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings
from lamatext.training.warm_start import EMBEDDING, extend_word_vectors, start_network

UNLABELLED_MIN_COUNT = 3  # occurrences of a word in unlabelled texts that add it to the vocabulary
WORD_VECTOR_TEXTS = 1_000_000  # texts that word vectors are trained on, at most, if on disk
_WORD2VEC_SETTINGS = {name for name in TextSettings.model_fields if name.startswith("word2vec_")}


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Result of preparing a training run: network, text encoder, token ids and final settings."""

    recipe: Recipe  # every ``auto`` replaced by a value
    network: nn.Module  # with initial weights
    encoder: Encoder
    token_ids: TokenIds  # of all texts: training, validation and any others
    classes: int
    tokens: TokenizedTexts | None = None  # words of all texts; None if the network reads subwords
    architecture: dict[str, object] | None = None  # of a pretrained encoder
    start: SavedModel | None = None  # the model that the run continues


def prepare_run(  # noqa: PLR0913 - data, recipe, and what the caller has already
    texts: pa.ChunkedArray | TokenizedTexts,
    split: Split,
    recipe: Recipe,
    *,
    classes: int,
    multi_label: bool = False,
    word_vectors: Vectors | None = None,
    tokenizer: Tokenizer | None = None,
    start: SavedModel | None = None,
    unlabelled: Indices | None = None,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> PreparedRun:
    """Prepare a training run: tokenize the texts, build the vocabulary and create the network.

    The vocabulary starts with the words of the saved model to continue, if any, followed by those
    of the training texts.

    Args:
        texts: all texts, tokenized or not. For ``bert``, the tokens are its subword ids.
        split: rows of the training and validation texts.
        recipe: all settings; ``auto`` is resolved here.
        classes: number of classes.
        multi_label: whether a text may have several labels.
        word_vectors: initial embedding matrix (V, E); None follows ``text.word_vectors``.
        tokenizer: tokenizer of the encoder; None follows ``text.tokenizer``.
        start: a saved model with these settings, whose words and weights the run starts from.
        unlabelled: rows of texts without labels outside the split; up to ``text.extra_words`` of
            their frequent words are added to the vocabulary if the word vectors are pretrained.
        device: where a pretrained encoder computes the word vectors.
        progress: receives the stages of the preparation.
    """
    if recipe.model.name == "bert":
        return _prepare_pretrained(texts, split, recipe, classes, start, progress)
    if isinstance(texts, pa.ChunkedArray):
        texts = tokenize_texts(texts, recipe.text, progress)
    counts = texts.counts(split.train)
    seen_once = int((counts == 1).sum())
    size = DatasetSize(len(split.train), int(counts.sum()), seen_once, classes, multi_label)
    recipe = resolve_auto_settings(recipe, size)
    text = recipe.text
    tokenizer = tokenizer or _make_tokenizer(text)
    vocabulary = Vocabulary.from_counts(texts.types, counts, min_count=int(text.min_count))
    if start is None:
        if unlabelled is not None:
            vocabulary = vocabulary.extended(_unlabelled_words(texts, unlabelled, vocabulary, text))
        vocabulary = vocabulary.extended(_extra_words(text, tokenizer))
    else:
        assert isinstance(start.encoder, TextEncoder)  # the settings decide
        vocabulary = start.encoder.vocabulary.extended(vocabulary.ids)
    token_ids = encode_tokens(texts, vocabulary, text)
    encoder = TextEncoder(tokenizer, vocabulary, text.rare_words, text.max_words, text.last_words)
    used = _texts_in_memory(token_ids, split.train, recipe.seed)
    if start is not None:
        by_word = _extended_word_tensors(start, recipe, vocabulary, used, progress, device)
        network = start_network(start, recipe, classes=classes, by_word=by_word)
        return PreparedRun(recipe, network, encoder, token_ids, classes, texts, start=start)
    if word_vectors is None:
        word_vectors = _initial_vectors(recipe, vocabulary, used, progress, device)
    network = _initial_network(recipe, vocabulary, word_vectors, classes)
    return PreparedRun(recipe, network, encoder, token_ids, classes, texts)


def _initial_network(
    recipe: Recipe, vocabulary: Vocabulary, word_vectors: Vectors, classes: int
) -> nn.Module:
    """Create the network of a new training run with random weights and initial word vectors."""
    torch.manual_seed(recipe.seed)
    width = recipe.text.vector_width
    network = build_network(recipe.model, vocabulary=len(vocabulary), width=width, classes=classes)
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(word_vectors))
    if network.phrases is not None and network.phrases.ends is not None:
        network.phrases.ends.copy_(torch.tensor(_phrase_ends(vocabulary)))
    return network


def _phrase_ends(vocabulary: Vocabulary) -> list[float]:
    """Return one flag per vocabulary word: 1 if it is punctuation, which ends a phrase, else 0."""
    return [float(not any(map(str.isalnum, word))) for word in vocabulary.words]


def _texts_in_memory(token_ids: TokenIds, rows: Indices, seed: int) -> TokenIds:
    """Return the texts to train word vectors on: all, or a random sample of texts on disk."""
    if not token_ids.are_on_disk:
        return token_ids.take(rows)
    sample = token_ids.take(sample_rows(rows, WORD_VECTOR_TEXTS, seed))
    token_ids.release_pages()
    return sample


def sample_rows(rows: Indices, count: int, seed: int) -> Indices:
    """Sample at most ``count`` rows in preparation for training, keeping their order."""
    if len(rows) <= count:
        return rows
    chosen = np.random.default_rng(seed).choice(len(rows), count, replace=False)
    return rows[np.sort(chosen)]


def _prepare_pretrained(
    texts: pa.ChunkedArray | TokenizedTexts,
    split: Split,
    recipe: Recipe,
    classes: int,
    start: SavedModel | None,
    progress: Progress,
) -> PreparedRun:
    from lamatext.data.text_encoder import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    torch.manual_seed(recipe.seed)
    model = recipe.model
    network: nn.Module
    encoder: Encoder
    architecture: dict[str, object] | None
    if start is None:
        progress.stage(f"loading {model.pretrained}")
        loaded = load_pretrained(model.pretrained, classes=classes, dropout=model.dropout)
        limit = min(recipe.text.max_words or loaded.max_words, loaded.max_words)
        encoder = SubwordEncoder.from_json(loaded.tokenizer, limit)
        network, architecture = loaded.network, loaded.architecture
    else:
        encoder, architecture = start.encoder, start.facts.get("architecture")
        network = start_network(start, recipe, classes=classes, by_word={})
    if isinstance(texts, TokenizedTexts):
        token_ids = texts.rows
    else:
        progress.stage("tokenizing")
        token_ids = encoder.encode(texts.to_pylist())
    size = DatasetSize(len(split.train), len(token_ids.ids), 0, classes)
    recipe = resolve_auto_settings(recipe, size)
    return PreparedRun(
        recipe, network, encoder, token_ids, classes, architecture=architecture, start=start
    )


def tokenize_texts(
    texts: pa.ChunkedArray, text: TextSettings, progress: Progress
) -> TokenizedTexts:
    """Tokenize texts in preparation for a training run, caching the result on disk."""

    def compute() -> Arrays:
        return tokenize(texts, _make_tokenizer(text), progress).to_arrays()

    key = fingerprint("2", text.tokenizer, text.tokenizer_version, text.lowercase, texts)
    return TokenizedTexts.from_arrays(cached("tokens", key, compute))


def _make_tokenizer(text: TextSettings) -> Tokenizer:
    return make_tokenizer(text.tokenizer, lower=text.lowercase, version=text.tokenizer_version)


def encode_tokens(tokens: TokenizedTexts, vocabulary: Vocabulary, text: TextSettings) -> TokenIds:
    """Convert tokenized texts to vocabulary ids in preparation for a training run."""
    return tokens.encode(
        vocabulary, rare_words=text.rare_words, max_words=text.max_words, last_words=text.last_words
    )


def _unlabelled_words(
    texts: TokenizedTexts, rows: Indices, vocabulary: Vocabulary, text: TextSettings
) -> Iterable[str]:
    """Return the frequent words of unlabelled texts to be added to the vocabulary of a run.

    At most ``text.extra_words`` words are returned, and none unless the word vectors are
    pretrained.
    """
    counts = texts.counts(rows)
    known = Vocabulary.from_counts(texts.types, counts, min_count=UNLABELLED_MIN_COUNT).ids
    return islice((word for word in known if word not in vocabulary.ids), text.added_words)


def _extra_words(text: TextSettings, tokenizer: Tokenizer) -> list[str]:
    """Return the frequent words of pretrained vectors to be added to the vocabulary of a run."""
    if not text.added_words:
        return []
    if is_pretrained_encoder(text.word_vectors):
        from lamatext.nn.pretrained import pretrained_word_list

        words = pretrained_word_list(text.word_vectors)[: text.extra_words]
    else:
        words = frequent_words(Path(text.word_vectors), text.extra_words)
    return [word for word in words if tokenizer.words(word) == [word]]


def _encoder_vectors(
    text: TextSettings, vocabulary: Vocabulary, device: str, progress: Progress
) -> Vectors:
    """Compute the initial word vectors of a run with a pretrained encoder, cached on disk."""
    from lamatext.nn.pretrained import pretrained_word_vectors

    def compute() -> Arrays:
        vectors = random_vectors(len(vocabulary), text.vector_width, seed=0)
        words = vocabulary.words[FIRST_WORD:]
        if words:
            vectors[FIRST_WORD:] = pretrained_word_vectors(
                text.word_vectors,
                words,
                width=text.vector_width,
                device=device,
                progress=progress,
            )
        return {"vectors": vectors.astype(np.float16)}

    key = fingerprint("1", text.word_vectors, text.vector_width, vocabulary.words)
    return cached("encoder-vectors", key, compute)["vectors"].astype(np.float32)


def _initial_vectors(
    recipe: Recipe,
    vocabulary: Vocabulary,
    token_ids: TokenIds,
    progress: Progress,
    device: str,
) -> Vectors:
    text, seed = recipe.text, recipe.seed

    def train_word2vec() -> Arrays:
        vectors = make_vectors(text, vocabulary, token_ids, seed=seed, progress=progress)
        return {"vectors": vectors.astype(np.float16)}  # enough digits for initial values

    if is_pretrained_encoder(text.word_vectors):
        return _encoder_vectors(text, vocabulary, device, progress)
    if text.word_vectors != "word2vec":
        return make_vectors(text, vocabulary, token_ids, seed=seed, progress=progress)
    settings = text.model_dump_json(include={"vector_width", *_WORD2VEC_SETTINGS})
    key = fingerprint("2", settings, seed, vocabulary.words, token_ids.ids, token_ids.offsets)
    return cached("word2vec", key, train_word2vec)["vectors"].astype(np.float32)


def _extended_word_tensors(
    start: SavedModel,
    recipe: Recipe,
    vocabulary: Vocabulary,
    token_ids: TokenIds,
    progress: Progress,
    device: str,
) -> dict[str, Array]:
    """Add vectors for the new words of a training run to those of the model that it continues."""
    trained: Vectors = start.tensors[EMBEDDING]
    if len(vocabulary) == len(trained):
        return {}
    initial = _initial_vectors(recipe, vocabulary, token_ids, progress, device)
    is_used = np.zeros(len(trained), bool)
    is_used[token_ids.ids[token_ids.ids < len(trained)]] = True
    is_used[:FIRST_WORD] = False
    tensors: dict[str, Array] = {EMBEDDING: extend_word_vectors(trained, initial, is_used)}
    if (ends := start.tensors.get("phrases.ends")) is not None:
        tensors["phrases.ends"] = np.array(_phrase_ends(vocabulary), ends.dtype)
    return tensors
