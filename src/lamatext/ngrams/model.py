"""The n-gram model: a linear model on n-grams, whose logits are added to the network's.

A block is the n-grams of one kind, of words or of characters. An n-gram g that stands tf times in a
text has the value (1 + ln tf) · idf_g; the values of a block are divided by their norm, and

    logit_c = b_c + Σ_g value_g · w_cg

so that each n-gram's part of a logit is known, and is shared by the words it covers.
Shapes: n texts, T words, K n-grams in a block's table, C classes; two classes share one row of w.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.ngrams.hashing import NgramSpec, count_ngrams, count_text, hash_ngrams
from lamatext.settings import NgramSettings

Floats = NDArray[np.float32]
Words = Sequence[str]

CHARACTERS = (2, 5)


@dataclass(frozen=True, slots=True)
class Block:
    """The n-grams of one kind that the model knows."""

    spec: NgramSpec
    keys: NDArray[np.uint32]  # (K,) ascending
    idf: NDArray[np.uint8]  # (K,) in steps of idf_step
    weights: NDArray[np.int8]  # (rows, K) in steps of `steps`
    idf_step: Floats  # ()
    steps: Floats  # (rows,)

    def values(
        self, keys: NDArray[np.uint32], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Floats]:
        """Where in the table each n-gram stands, and its value before the norm; 0 if unknown."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.float32)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        idf = self.idf[place] * self.idf_step * (self.keys[place] == keys)
        return place, ((1 + np.log(counts)) * idf).astype(np.float32)

    def logits(self, texts: Sequence[Words]) -> Floats:
        """(n, rows)."""
        if len(texts) == 1:
            return self._logits_of_one(texts[0])[None, :]
        found = count_ngrams(texts, self.spec)
        owner = np.repeat(np.arange(len(texts)), np.diff(found.offsets))
        place, values = self.values(found.keys, found.counts)
        norm = np.sqrt(np.bincount(owner, values.astype(np.float64) ** 2, len(texts)))
        norm = np.maximum(norm, 1e-12)
        sums = [
            np.bincount(owner, values * row[place], len(texts)) / norm * step
            for row, step in zip(self.weights, self.steps, strict=True)
        ]
        return np.stack(sums, axis=1).astype(np.float32)

    def _logits_of_one(self, words: Words) -> Floats:
        """(rows,): the steps that keep texts apart would take as long as all others."""
        place, values = self.values(*count_text(words, self.spec))
        norm = max(float(np.sqrt(np.dot(values, values))), 1e-12)
        sums = [float(np.dot(values, row[place])) for row in self.weights]
        return np.array(sums, np.float32) / np.float32(norm) * self.steps

    def contributions(self, words: Words) -> Floats:
        """What each word adds, n-grams over several words shared equally: (rows, T)."""
        found = hash_ngrams(words, self.spec)
        keys, which, counts = np.unique(found.keys, return_inverse=True, return_counts=True)
        place, values = self.values(keys, counts)
        norm = max(float(np.sqrt((values.astype(np.float64) ** 2).sum())), 1e-12)
        each = self.weights[:, place] * self.steps[:, None] * values / norm / counts  # (rows, keys)
        share = each[:, which] / found.width  # (rows, occurrences)
        total = np.zeros((len(self.weights), len(words)), np.float64)
        for offset in range(int(found.width.max(initial=0))):
            covers = found.width > offset
            for row in range(len(total)):
                total[row] += np.bincount(
                    found.first[covers] + offset, share[row, covers], len(words)
                )
        return total.astype(np.float32)


@dataclass(frozen=True, slots=True)
class NgramModel:
    """All blocks, and a constant for each class."""

    blocks: tuple[Block, ...]
    bias: Floats  # (rows,)

    def logits(self, texts: Sequence[Words]) -> Floats:
        """(n, C) of texts given as their words."""
        total = sum((block.logits(texts) for block in self.blocks), start=np.float32(0)) + self.bias
        return _both(np.asarray(total, np.float32).T).T

    def contributions(self, words: Words) -> Floats:
        """(C, T); with ``base`` they add up to the logits."""
        parts = [block.contributions(words) for block in self.blocks]
        return _both(np.sum(parts, axis=0, dtype=np.float32))

    @property
    def base(self) -> Floats:
        """What a text without a known n-gram gets: (C,)."""
        return _both(self.bias)

    @property
    def size(self) -> int:
        """How many weights it has."""
        return sum(block.weights.size for block in self.blocks) + self.bias.size

    def scaled(self, factor: float) -> "NgramModel":
        """The same with every logit times ``factor``."""
        small = np.float32(factor)
        blocks = tuple(replace(block, steps=block.steps * small) for block in self.blocks)
        return NgramModel(blocks, self.bias * small)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """As arrays by name."""
        named: dict[str, NDArray[Any]] = {"bias": self.bias}
        for number, block in enumerate(self.blocks):
            for name in _ARRAYS:
                named[f"{number}.{name}"] = np.ascontiguousarray(getattr(block, name))
        return named

    @classmethod
    def from_tensors(
        cls, settings: NgramSettings, tensors: Mapping[str, NDArray[Any]]
    ) -> "NgramModel":
        """What ``to_tensors`` gave; the settings say which n-grams each block has."""
        blocks = tuple(
            Block(spec, **{name: tensors[f"{number}.{name}"] for name in _ARRAYS})
            for number, spec in enumerate(specs(settings))
        )
        return cls(blocks, tensors["bias"])


_ARRAYS = ("keys", "idf", "weights", "idf_step", "steps")


def specs(settings: NgramSettings) -> list[NgramSpec]:
    """The n-grams of each block."""
    words = [NgramSpec(settings.max_words, None)]
    return [*words, NgramSpec(0, CHARACTERS)] if settings.characters is True else words


def _both(rows: Floats) -> Floats:
    """One row that tells two classes apart becomes two that are opposite: (1, …) → (2, …)."""
    if len(rows) > 1:
        return rows
    return np.concatenate([-rows / 2, rows / 2])
