"""Tokenized texts of a whole dataset, stored as integers before a vocabulary is chosen."""

from array import array
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.dataset import text_batches
from lamatext.data.text_encoder import RareWords
from lamatext.data.token_ids import UNK, Indices, TokenIds
from lamatext.data.tokenizer import Tokenizer
from lamatext.data.vocabulary import Vocabulary
from lamatext.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """Tokenized texts of a dataset: each word is stored as its position in ``types``."""

    types: tuple[str, ...]  # the distinct words, in order of first appearance
    rows: TokenIds  # for each text the positions of its words in ``types``

    def counts(self, rows: Indices) -> Indices:
        """Count the occurrences of each distinct word in the tokenized texts at ``rows``."""
        return np.bincount(self.rows.take(rows).ids, minlength=len(self.types))

    def words(self, rows: Indices) -> list[list[str]]:
        """Return the words of the tokenized texts at ``rows`` as strings."""
        types = self.types
        return [[types[i] for i in self.rows[row]] for row in rows]

    def encode(
        self,
        vocabulary: Vocabulary,
        *,
        rare_words: RareWords = "drop",
        max_words: int | None = None,
        last_words: int = 0,
    ) -> TokenIds:
        """Encode the tokenized texts like ``TextEncoder.encode``, without the strings."""
        table = np.array([vocabulary.ids.get(word, UNK) for word in self.types] or [UNK], np.int32)
        rows = TokenIds(table[self.rows.ids], self.rows.offsets)
        if rare_words == "drop":
            rows = _filter_tokens(rows, rows.ids != UNK)
        if max_words is not None:
            position = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
            to_end = np.repeat(rows.offsets[1:], rows.lengths) - np.arange(len(rows.ids))
            is_short = np.repeat(rows.lengths <= max_words, rows.lengths)
            is_first = position < max_words - last_words
            rows = _filter_tokens(rows, is_short | is_first | (to_end <= last_words))
        return _fill_empty_texts(rows)


def tokenize(
    texts: pa.ChunkedArray, tokenizer: Tokenizer, progress: Progress = SILENT
) -> TokenizedTexts:
    """Return the tokenized texts of a column; words are numbered in order of first appearance."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids, ends = array("i"), array("q", [0])
    progress.stage("tokenizing", len(texts))
    for batch in text_batches(texts):
        for text in batch.to_pylist():
            ids.extend(map(numbers.__getitem__, tokenizer.words(text)))
            ends.append(len(ids))
        progress.advance(len(batch))
    return TokenizedTexts(
        tuple(numbers), TokenIds(np.frombuffer(ids, np.int32), np.frombuffer(ends, np.int64))
    )


def _filter_tokens(rows: TokenIds, keep: NDArray[np.bool_]) -> TokenIds:
    running = np.concatenate([[0], np.cumsum(keep)])
    return TokenIds(rows.ids[keep], running[rows.offsets])


def _fill_empty_texts(rows: TokenIds) -> TokenIds:
    """Give each tokenized text without any known word the one id UNK."""
    empty = np.flatnonzero(rows.lengths == 0)
    if not len(empty):
        return rows
    ids = np.insert(rows.ids, rows.offsets[empty], UNK)
    inserted = np.concatenate([[0], np.cumsum(rows.lengths == 0)])
    return TokenIds(ids, rows.offsets + inserted)
