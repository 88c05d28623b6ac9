"""What the training loop starts from: texts encoded, and a network with its first weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from lamatext.data.cache import Arrays, cached, fingerprint
from lamatext.data.splits import hold_out_validation
from lamatext.data.text_encoder import Encoder, TextEncoder
from lamatext.data.token_ids import Indices, TokenIds
from lamatext.data.tokenized_texts import TokenizedTexts, tokenize
from lamatext.data.tokenizer import make_tokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.data.word_vectors import Vectors, make_vectors
from lamatext.nn.network import build_network
from lamatext.progress import Progress
from lamatext.settings import Recipe, TextSettings
from lamatext.training.auto_settings import Facts, settle

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts and the number of each one's class."""

    texts: pa.ChunkedArray
    labels: Labels  # (n,)


@dataclass(frozen=True, slots=True)
class Split:
    """All texts, and which rows of them train and which validate."""

    texts: pa.ChunkedArray
    labels: Labels
    train: Indices
    valid: Indices


@dataclass(frozen=True, slots=True)
class Ready:
    """What the loop starts from."""

    recipe: Recipe  # nothing in it is left to ``auto``
    network: nn.Module
    encoder: Encoder
    rows: TokenIds  # ids of all texts
    split: Split
    tokens: TokenizedTexts | None = None  # all words of all texts; None where subwords are read
    architecture: dict[str, object] | None = None


def joined(
    train: Texts, valid: Texts | None, recipe: Recipe, names: Sequence[str] | None = None
) -> Split:
    """All texts together; without ``valid`` a share of the training texts is held out."""
    if valid is None:
        fraction = recipe.training.validation_fraction
        split = hold_out_validation(train.labels, fraction, recipe.seed, names=names)
        return Split(train.texts, train.labels, split.train, split.validation)
    texts = pa.chunked_array([*train.texts.chunks, *valid.texts.chunks], pa.large_string())
    rows, middle = np.arange(len(texts)), len(train.labels)
    labels = np.concatenate([train.labels, valid.labels])
    return Split(texts, labels, rows[:middle], rows[middle:])


def prepare_words(split: Split, recipe: Recipe, classes: int, progress: Progress) -> Ready:
    """The vocabulary and the word vectors come from the training texts alone."""
    tokens = tokens_of(split.texts, recipe.text, progress)
    counts = tokens.counts(split.train)  # of each different word
    once = int((counts == 1).sum())
    recipe = settle(recipe, Facts(len(split.train), int(counts.sum()), once, classes))
    encoder, rows = _encode(tokens, split.train, recipe.text)
    vectors = _vectors(recipe, encoder.vocabulary, rows.take(split.train), progress)
    torch.manual_seed(recipe.seed)
    network = build_network(
        recipe.model,
        vocabulary=len(encoder.vocabulary),
        width=recipe.text.vector_width,
        classes=classes,
    )
    with torch.no_grad():
        network.embedding.weight.copy_(torch.from_numpy(vectors))
    return Ready(recipe, network, encoder, rows, split, tokens)


def prepare_pretrained(split: Split, recipe: Recipe, classes: int, progress: Progress) -> Ready:
    """A pretrained encoder brings its own subwords and vectors."""
    from lamatext.data.subword_encoder import SubwordEncoder
    from lamatext.nn.pretrained import load_pretrained

    torch.manual_seed(recipe.seed)
    progress.stage(f"loading {recipe.model.pretrained}")
    model = recipe.model
    loaded = load_pretrained(model.pretrained, classes=classes, dropout=model.dropout)
    limit = min(recipe.text.max_words or loaded.max_words, loaded.max_words)
    encoder = SubwordEncoder.from_json(loaded.tokenizer, limit)
    progress.stage("tokenising")
    rows = encoder.encode(split.texts.to_pylist())
    recipe = settle(recipe, Facts(len(split.train), len(rows.ids), 0, classes))
    return Ready(recipe, loaded.network, encoder, rows, split, architecture=loaded.architecture)


def tokens_of(texts: pa.ChunkedArray, text: TextSettings, progress: Progress) -> TokenizedTexts:
    """The texts as numbers, before any vocabulary; made once and kept."""

    def make() -> Arrays:
        made = tokenize(texts, make_tokenizer(text.tokenizer, lower=text.lowercase), progress)
        types = np.frombuffer("\n".join(made.types).encode("utf-8", "surrogatepass"), np.uint8)
        return {"types": types, "ids": made.rows.ids, "offsets": made.rows.offsets}

    kept = cached("tokens", fingerprint("1", text.tokenizer, text.lowercase, texts), make)
    types = kept["types"].tobytes().decode("utf-8", "surrogatepass").split("\n")
    return TokenizedTexts(
        tuple(types) if len(kept["types"]) else (),
        TokenIds(kept["ids"].astype(np.int32), kept["offsets"].astype(np.int64)),
    )


def _encode(
    tokens: TokenizedTexts, train_rows: Indices, text: TextSettings
) -> tuple[TextEncoder, TokenIds]:
    """The vocabulary comes from the training texts alone; every text is encoded by it."""
    vocabulary = Vocabulary.from_counts(
        tokens.types, tokens.counts(train_rows), min_count=int(text.min_count)
    )
    tokenizer = make_tokenizer(text.tokenizer, lower=text.lowercase)
    encoder = TextEncoder(tokenizer, vocabulary, text.rare_words, text.max_words, text.last_words)
    return encoder, tokens.encode(
        vocabulary,
        rare_words=text.rare_words,
        max_words=text.max_words,
        last_words=text.last_words,
    )


def _vectors(recipe: Recipe, vocabulary: Vocabulary, rows: TokenIds, progress: Progress) -> Vectors:
    text, seed = recipe.text, recipe.seed

    def make() -> Arrays:
        vectors = make_vectors(text, vocabulary, rows, seed=seed, progress=progress)
        return {"vectors": vectors.astype(np.float16)}  # a first value: half the digits will do

    if text.word_vectors != "word2vec":
        return make_vectors(text, vocabulary, rows, seed=seed, progress=progress)
    settings = text.model_dump_json(include={"width", *_WORD2VEC})
    key = fingerprint("2", settings, seed, vocabulary.words, rows.ids, rows.offsets)
    return cached("word2vec", key, make)["vectors"].astype(np.float32)


_WORD2VEC = ("skip_gram", "vector_epochs", "vector_window", "vector_sample")
