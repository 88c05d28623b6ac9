"""Texts to word ids: one at a time with their places, or a whole corpus at once."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lamatext.data.token_ids import UNK, Ids, Indices, Ragged
from lamatext.data.tokenizer import Span, Tokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.progress import SILENT, Progress

Rare = Literal["drop", "unknown"]
T = TypeVar("T")


class Encoder(Protocol):
    """Interface of a text encoder: texts to token ids (``TextEncoder``, ``SubwordEncoder``)."""

    def encode(self, texts: Iterable[str]) -> Ragged:
        """Encode each text as token ids."""
        ...

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """Encode one text as token ids, with the character span of each token."""
        ...


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """What turns a text into the ids a network reads."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    rare: Rare = "drop"
    max_words: int | None = None
    tail: int = 0

    def encode(self, texts: Iterable[str]) -> Ragged:
        """The ids of each text; a text with nothing known left is one unknown word."""
        return self.encode_words(map(self.tokenizer.words, texts))

    def encode_words(self, texts: Iterable[Sequence[str]]) -> Ragged:
        """The same of texts given as their words."""
        return Ragged.from_lists([self._ids(words) for words in texts])

    def encode_with_spans(self, text: str) -> tuple[Ids, list[Span]]:
        """The ids of one text, and where in it each of those words stands."""
        known, places = self.vocabulary.ids, self.tokenizer.spans(text)
        ids, spans = [], []
        for word, span in zip(self.tokenizer.words(text), places, strict=True):
            number = known.get(word, UNK)
            if number != UNK or self.rare == "unknown":
                ids.append(number)
                spans.append(span)
        if not ids:
            return np.array([UNK], np.int32), [(0, 0)]
        return np.array(self._read(ids), np.int32), self._read(spans)

    def _ids(self, words: Sequence[str]) -> list[int]:
        known = self.vocabulary.ids
        if self.rare == "drop":
            ids = list(filter(None, map(known.get, words)))  # no word has the id 0
        else:
            ids = [known.get(word, UNK) for word in words]
        return self._read(ids) or [UNK]

    def _read(self, words: list[T]) -> list[T]:
        """Of a long text its beginning and its end."""
        if self.max_words is None or len(words) <= self.max_words:
            return words
        return words[: self.max_words - self.tail] + words[len(words) - self.tail :]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A corpus as numbers, before any vocabulary is chosen: ids count into ``types``."""

    types: tuple[str, ...]
    rows: Ragged

    def counts(self, rows: Indices) -> Indices:
        """How often each type occurs in some of the texts: (types,)."""
        return np.bincount(self.rows.take(rows).ids, minlength=len(self.types))

    def encode(
        self,
        vocabulary: Vocabulary,
        *,
        rare: Rare = "drop",
        max_words: int | None = None,
        tail: int = 0,
    ) -> Ragged:
        """The same ids that ``TextEncoder.encode`` gives, without reading the texts again."""
        table = np.array([vocabulary.ids.get(word, UNK) for word in self.types] or [UNK], np.int32)
        rows = Ragged(table[self.rows.ids], self.rows.offsets)
        if rare == "drop":
            rows = _keep(rows, rows.ids != UNK)
        if max_words is not None:
            place = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
            to_end = np.repeat(rows.offsets[1:], rows.lengths) - np.arange(len(rows.ids))
            short = np.repeat(rows.lengths <= max_words, rows.lengths)
            rows = _keep(rows, short | (place < max_words - tail) | (to_end <= tail))
        return _with_something_in_each(rows)


def tokenise(texts: pa.ChunkedArray, tokenizer: Tokenizer, progress: Progress = SILENT) -> Tokens:
    """Every text's words, numbered in the order in which they are first met."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids, ends = array("i"), array("q", [0])
    progress.stage("tokenising", len(texts))
    for batch in _batches(texts):
        for text in batch:
            ids.extend(map(numbers.__getitem__, tokenizer.words(text)))
            ends.append(len(ids))
        progress.advance(len(batch))
    return Tokens(
        tuple(numbers), Ragged(np.frombuffer(ids, np.int32), np.frombuffer(ends, np.int64))
    )


def _batches(texts: pa.ChunkedArray, size: int = 4096) -> Iterator[list[str]]:
    for chunk in texts.chunks:
        for start in range(0, len(chunk), size):
            yield chunk.slice(start, size).to_pylist()


def _keep(rows: Ragged, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ragged:
    running = np.concatenate([[0], np.cumsum(kept)])
    return Ragged(rows.ids[kept], running[rows.offsets])


def _with_something_in_each(rows: Ragged) -> Ragged:
    empty = np.flatnonzero(rows.lengths == 0)
    if not len(empty):
        return rows
    ids = np.insert(rows.ids, rows.offsets[empty], UNK)
    grown = np.concatenate([[0], np.cumsum(rows.lengths == 0)])
    return Ragged(ids, rows.offsets + grown)
