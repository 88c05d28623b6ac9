"""Initial word vectors: trained on the texts (SVD, word2vec), read from a GloVe file, or random."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.readers.input_files import read_blocks
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.text_lines_reader import usable_lines
from lamatext.data.token_ids import FIRST_WORD, UNK, TokenIds
from lamatext.data.vocabulary import Vocabulary
from lamatext.errors import ConfigError, DataError, require
from lamatext.progress import SILENT, Progress
from lamatext.settings import TextSettings

LARGEST = 100_000  # number in a vector: the saved format allows no larger weights

Vectors = NDArray[np.float32]  # (V, E)


def make_vectors(
    text: TextSettings,
    vocabulary: Vocabulary,
    rows: TokenIds,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Vectors:
    """Create the initial word vectors (V, E) according to the setting ``text.word_vectors``."""
    if text.word_vectors == "random":
        return random_vectors(len(vocabulary), text.vector_width, seed)
    if text.word_vectors == "word2vec":
        return train_word2vec(text, vocabulary, rows, seed=seed, progress=progress)
    if text.word_vectors == "svd":
        return _svd_vectors(text, vocabulary, rows, seed=seed, progress=progress)
    vectors, matched = read_vectors(Path(text.word_vectors), vocabulary, text.vector_width, seed)
    words = len(vocabulary) - FIRST_WORD
    progress.note(f"{text.word_vectors}: vectors for {matched:,} of {words:,} words")
    return vectors


def is_pretrained_encoder(word_vectors: str) -> bool:
    """Return whether ``text.word_vectors`` is a pretrained encoder (``minilm`` or a folder)."""
    return word_vectors == "minilm" or Path(word_vectors).is_dir()


def random_vectors(size: int, width: int, seed: int) -> Vectors:
    """Draw random word vectors from N(0, 0.1²), with zeros for the padding id."""
    vectors = np.random.default_rng(seed).normal(0, 0.1, (size, width)).astype(np.float32)
    vectors[0] = 0
    return vectors


@dataclass(frozen=True)
class _Sentences:
    """Iterable over tokenized texts, for training word vectors with little memory."""

    words: tuple[str, ...]
    rows: TokenIds

    def __iter__(self) -> Iterator[list[str]]:
        for row in range(len(self.rows)):
            yield [self.words[i] for i in self.rows[row]]


def _svd_vectors(
    text: TextSettings, vocabulary: Vocabulary, rows: TokenIds, *, seed: int, progress: Progress
) -> Vectors:
    """Train word vectors by SVD, with random vectors for words without neighbours."""
    require("scipy", extra="train", purpose="text.word_vectors = svd")
    from lamatext.data.svd_vectors import train_svd_vectors

    progress.stage("word vectors")
    vectors = random_vectors(len(vocabulary), text.vector_width, seed)
    trained = train_svd_vectors(rows, len(vocabulary), text.vector_width, seed)
    known = trained.any(axis=1)
    vectors[known] = trained[known]
    return vectors


def train_word2vec(
    text: TextSettings,
    vocabulary: Vocabulary,
    rows: TokenIds,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Vectors:
    """Train word vectors on the texts with gensim's word2vec.

    The settings choose skip-gram or CBOW. Training uses one worker, because several workers would
    give different vectors in each run.
    """
    word2vec = require("gensim.models.word2vec", extra="train", purpose="word2vec")
    callbacks = require("gensim.models.callbacks", extra="train", purpose="word2vec")

    class Epochs(callbacks.CallbackAny2Vec):  # type: ignore[misc,name-defined]
        def on_epoch_end(self, model: Any) -> None:  # noqa: ARG002 - gensim's signature
            progress.advance()

    epochs = text.word2vec_epochs
    progress.stage("word2vec", epochs)
    model = word2vec.Word2Vec(
        _Sentences(vocabulary.words, rows),
        vector_size=text.vector_width,
        window=text.word2vec_window,
        sg=int(text.word2vec_skip_gram),
        sample=text.word2vec_subsample,
        min_count=1,
        workers=1,
        seed=(seed + 1) % 2**32,  # the largest that NumPy takes
        epochs=epochs,
        callbacks=[Epochs()],
    )
    vectors = random_vectors(len(vocabulary), text.vector_width, seed)
    for word_id, word in enumerate(vocabulary.words[UNK:], start=UNK):
        if word in model.wv.key_to_index:
            vectors[word_id] = model.wv[word]
    return vectors


def frequent_words(path: Path, count: int) -> list[str]:
    """Return the first ``count`` words in a word-vector file, usually the most frequent ones.

    The file is in GloVe or word2vec format, compressed or not.
    """
    words: list[str] = []
    if count == 0 or not path.is_file():
        return words
    for number, word, values in _read_words(path):
        if number == 1 and values.isdigit():
            continue  # the header of word2vec
        if not _starts_with_number(values):
            continue  # an entry of several words, which no tokenizer returns
        words.append(word)
        if len(words) == count:
            break
    return words


def read_vectors(path: Path, vocabulary: Vocabulary, width: int, seed: int) -> tuple[Vectors, int]:
    """Read word vectors from a text file in GloVe or word2vec format, compressed or not.

    Returns:
        The vectors (V, E), random for words not in the file, and the number of words found.
    """
    if not path.is_file():
        raise ConfigError(
            f"text.word_vectors = {str(path)!r}: no such file. Use word2vec, svd, random, minilm, "
            "the folder of a pretrained encoder, or a GloVe/word2vec text file."
        )
    vectors, matched = random_vectors(len(vocabulary), width, seed), 0
    for number, word, values in _read_words(path):
        if number == 1 and values.isdigit():
            continue  # the header of word2vec: number of words, vector width
        row = vocabulary.ids.get(word)
        if row is None or (matched and not _starts_with_number(values)):
            continue  # another word, or an entry of several words, as GloVe's files have
        vectors[row] = _parse_row(values, width, f"{path}:{number}")
        matched += 1
    return vectors, matched


def _read_words(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, word, unparsed vector) for each line of a word-vector file.

    Lines that are not UTF-8 are skipped. Some files have tabs instead of spaces.
    """
    log = ReadLog(str(path), max_bad_rows=1.0)
    for block in read_blocks(str(path), encoding="utf-8", log=log):
        for number, line in usable_lines(block, log):
            word, _, values = line.rstrip().replace("\t", " ").partition(" ")
            yield number, word, values


def _starts_with_number(values: str) -> bool:
    """Return whether a number follows the first word in a line of a word-vector file."""
    try:
        float(values.partition(" ")[0])
    except ValueError:
        return False
    return True


def _parse_row(values: str, width: int, where: str) -> Vectors:
    try:
        row = np.array(values.split(" "), dtype=np.float32)
    except ValueError as error:
        raise DataError(
            f"{where}: expected a word and {width} numbers, separated by spaces."
        ) from error
    if len(row) != width:
        raise ConfigError(
            f"{where}: the vectors have {len(row)} numbers, text.vector_width is {width}. "
            f"Use --set text.vector_width={len(row)}."
        )
    if not (np.abs(row) <= LARGEST).all():  # not a number, either
        raise DataError(f"{where}: expected numbers of at most {LARGEST:,}, as a model may have.")
    return row
