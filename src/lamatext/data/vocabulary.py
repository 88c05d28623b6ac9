"""Vocabulary: the words that a model knows and their ids."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from lamatext.data.token_ids import FIRST_WORD, Indices

RareWords = Literal["drop", "unknown"]  # what happens to words outside the vocabulary
RESERVED = ("<pad>", "<unk>")  # the ids below FIRST_WORD, as written in a vocabulary file


class Vocabulary:
    """Vocabulary of words in the order of their ids: reserved ids first, then frequent words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*RESERVED, *words)
        self.ids: Mapping[str, int] = {word: i for i, word in enumerate(words, start=FIRST_WORD)}

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_counts(cls, types: Sequence[str], counts: Indices, *, min_count: int) -> "Vocabulary":
        """Create a vocabulary of the words that occur at least ``min_count`` times.

        Words with the same count are sorted alphabetically.
        """
        frequent = np.flatnonzero(counts >= min_count)
        return cls(
            [types[i] for i in sorted(frequent.tolist(), key=lambda i: (-counts[i], types[i]))]
        )

    def to_text(self) -> str:
        """Write the vocabulary as text with one word per line; the line number is the word id."""
        return "".join(f"{word}\n" for word in self.words)

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """Read a vocabulary that ``to_text`` wrote."""
        return cls(text.split("\n")[FIRST_WORD:-1])
