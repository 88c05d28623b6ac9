"""Word vectors to start from: word2vec on the training texts, a file, or random numbers."""

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import FIRST_WORD, UNK, TokenIds
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import ConfigError, DataError, require
from lamatext.progress import SILENT, Progress
from lamatext.settings import TextSettings

Vectors = NDArray[np.float32]  # (V, E)


def make_vectors(
    text: TextSettings,
    vocabulary: Vocabulary,
    rows: TokenIds,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Vectors:
    """The first value of the embedding matrix (V, E), by ``text.word_vectors``; padding is zero."""
    if text.word_vectors == "random":
        return random_vectors(len(vocabulary), text.vector_width, seed)
    if text.word_vectors == "word2vec":
        return train_word2vec(text, vocabulary, rows, seed=seed, progress=progress)
    vectors, found = read_vectors(Path(text.word_vectors), vocabulary, text.vector_width, seed)
    known = len(vocabulary) - FIRST_WORD
    progress.note(f"{text.word_vectors}: vectors for {found:,} of {known:,} words")
    return vectors


def random_vectors(size: int, width: int, seed: int) -> Vectors:
    """Numbers from N(0, 0.1²)."""
    vectors = np.random.default_rng(seed).normal(0, 0.1, (size, width)).astype(np.float32)
    vectors[0] = 0
    return vectors


@dataclass(frozen=True)
class _Sentences:
    words: tuple[str, ...]
    rows: TokenIds

    def __iter__(self) -> Iterator[list[str]]:
        for row in range(len(self.rows)):
            yield [self.words[i] for i in self.rows[row]]


def train_word2vec(
    text: TextSettings,
    vocabulary: Vocabulary,
    rows: TokenIds,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Vectors:
    """Gensim's CBOW on the ids of the training texts; one worker, so that the seed fixes it."""
    word2vec = require("gensim.models.word2vec", extra="train", purpose="word2vec")
    callbacks = require("gensim.models.callbacks", extra="train", purpose="word2vec")

    class Epochs(callbacks.CallbackAny2Vec):  # type: ignore[misc,name-defined]
        def on_epoch_end(self, model: Any) -> None:  # noqa: ARG002 - gensim's signature
            progress.advance()

    epochs = int(text.word2vec_epochs)
    progress.stage("word2vec", epochs)
    model = word2vec.Word2Vec(
        vector_size=text.vector_width,
        window=text.word2vec_window,
        sg=int(text.word2vec_skip_gram),
        sample=text.word2vec_subsample,
        min_count=1,
        workers=1,
        seed=seed + 1,
        epochs=epochs,
        max_final_vocab=None,
    )
    sentences = _Sentences(vocabulary.words, rows)
    model.build_vocab(sentences)
    model.train(
        sentences,
        total_examples=model.corpus_count,
        epochs=model.epochs,
        callbacks=[Epochs()],
    )
    vectors = random_vectors(len(vocabulary), text.vector_width, seed)
    for number, word in enumerate(vocabulary.words[UNK:], start=UNK):
        if word in model.wv.key_to_index:
            vectors[number] = model.wv[word]
    return vectors


def read_vectors(path: Path, vocabulary: Vocabulary, width: int, seed: int) -> tuple[Vectors, int]:
    """Vectors from a GloVe or word2vec text file (.gz too), and how many words it knew."""
    if not path.is_file():
        raise ConfigError(
            f"text.word_vectors = {str(path)!r}: no such file. "
            "Use word2vec, random, or a GloVe/word2vec text file."
        )
    vectors, found = random_vectors(len(vocabulary), width, seed), 0
    for number, line in enumerate(_lines(path), start=1):
        word, _, values = line.rstrip().partition(" ")
        if number == 1 and values.isdigit():
            continue  # word2vec's header: how many words, how ngrams
        row = vocabulary.ids.get(word)
        if row is None:
            continue
        vectors[row] = _parse_row(values, width, f"{path}:{number}")
        found += 1
    return vectors, found


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            with io.TextIOWrapper(stream, encoding="utf-8") as lines:
                yield from lines
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a UTF-8 text file of word vectors.") from error


def _parse_row(values: str, width: int, where: str) -> Vectors:
    try:
        row = np.array(values.split(" "), dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: expected a word and {width} numbers.") from error
    if len(row) != width:
        raise ConfigError(
            f"{where}: the vectors have {len(row)} numbers, text.vector_width is {width}. "
            f"Use --set text.vector_width={len(row)}."
        )
    return row
