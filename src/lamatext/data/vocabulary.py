"""The words a model knows, and their ids."""

from collections.abc import Mapping, Sequence

import numpy as np

from lamatext.data.token_ids import FIRST_WORD, Indices

RESERVED = ("<pad>", "<unk>")  # the ids below FIRST_WORD, as they stand in a vocabulary file


class Vocabulary:
    """Words by id, the reserved ones first, then by falling count."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*RESERVED, *words)
        self.ids: Mapping[str, int] = {
            word: place for place, word in enumerate(words, start=FIRST_WORD)
        }

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def from_counts(cls, types: Sequence[str], counts: Indices, *, min_count: int) -> "Vocabulary":
        """The types that occur often enough; equal counts stand in alphabetical order."""
        kept = np.flatnonzero(counts >= min_count)
        return cls([types[i] for i in sorted(kept.tolist(), key=lambda i: (-counts[i], types[i]))])

    def to_text(self) -> str:
        """One word a line; the line number is the id."""
        return "".join(f"{word}\n" for word in self.words)

    @classmethod
    def from_text(cls, text: str) -> "Vocabulary":
        """What ``to_text`` wrote."""
        return cls(text.split("\n")[FIRST_WORD:-1])
