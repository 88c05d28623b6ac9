"""Vocabulary: the words that a model knows and their ids."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from lamatext.data.token_ids import FIRST_WORD, Indices

RareWords = Literal["drop", "unknown"]  # what happens to words outside the vocabulary
RESERVED = ("<pad>", "<unk>")  # the ids below FIRST_WORD, as written in a vocabulary file


class Vocabulary:
    """Vocabulary of a model, which assigns an id to each known word.

    The reserved ids come first, then the words from the most to the least frequent.
    """

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

    def extended(self, words: Iterable[str]) -> "Vocabulary":
        """Return a vocabulary with new words appended, skipping words that it already contains."""
        return Vocabulary([*self.ids, *dict.fromkeys(w for w in words if w not in self.ids)])

    def to_text(self) -> str:
        """Return the vocabulary as text with one word per line, in the order of the ids."""
        return "".join(f"{word}\n" for word in self.words)

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """Create a vocabulary from text with one word per line, as returned by ``to_text``."""
        return cls(text.split("\n")[FIRST_WORD:-1])
