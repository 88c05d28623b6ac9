"""Over many texts: which words decide for a class, what each head looks at, how heads differ.

One pass, in memory that grows with the vocabulary and not with the texts.
Shapes: T words, D state width, M heads, C classes, V vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import FIRST_WORD, Ids
from lamatext.data.tokenizer import Span
from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Label

PRIOR = 5  # a word's mean is drawn to the ordinary as by this many ordinary occurrences
AROUND = 40  # characters of an example on either side of its word

Sums = NDArray[np.float64]


class TextRead(NamedTuple):
    """What the model did with one text."""

    text: str
    ids: Ids  # (T,)
    spans: Sequence[Span]  # T
    contributions: Floats  # (C, T), relative: ``Explanation.relative``
    weights: Floats | None  # (M, T)
    embedding: Floats | None  # (M, D): the heads' rows


class GlobalWord(NamedTuple):
    """A word over all texts."""

    word: str
    score: float  # class: mean contribution; head: mean of weight × length, 1 is even; or a spread
    times: int
    example: str


@dataclass(frozen=True)
class HeadDifferences:
    """How much the heads differ, means over the texts."""

    positions: float  # D_p = −‖A Aᵀ − I‖²: 0 when each head looks at one word of its own
    embeddings: float  # D_e = −mean cos(sᵢ, sⱼ): −1 when all heads find the same
    overlap: float  # mean over pairs of Σₜ min(αᵢₜ, αⱼₜ): 1 the same weights, 0 no word in common


@dataclass(frozen=True)
class GlobalWords:
    """The words that matter, over ``texts`` texts."""

    texts: int
    classes: dict[Label, list[GlobalWord]]
    heads: list[list[GlobalWord]]
    contextual: list[GlobalWord]  # words whose weight depends most on the words around them
    differences: HeadDifferences | None  # None with fewer than two heads


def global_words(
    reads: Iterable[TextRead],
    *,
    vocabulary: Sequence[str],
    labels: Sequence[Label],
    top: int = 20,
    min_count: int = 5,
) -> GlobalWords:
    """Count over ``reads``; words met fewer than ``min_count`` times are not ranked."""
    tally = _Tally(len(vocabulary), len(labels))
    for read in reads:
        tally.add(read)
    ranked = tally.counts >= min_count
    ranked[:FIRST_WORD] = False

    def listed(scores: Sums, row: int) -> list[GlobalWord]:
        """The best of ``scores`` (V,), each with the example that ``row`` kept for it."""
        order = np.argsort(np.where(ranked, -scores, np.inf), kind="stable")[:top]
        return [
            GlobalWord(
                vocabulary[word],
                float(scores[word]),
                int(tally.counts[word]),
                tally.examples.get((row, int(word)), ""),
            )
            for word in order
            if ranked[word] and scores[word] > 0
        ]

    shrunk = tally.sums.T / (tally.counts + PRIOR)  # (C + M, V)
    classes, heads = len(labels), tally.sums.shape[1] - len(labels)
    return GlobalWords(
        texts=tally.texts,
        classes={label: listed(shrunk[c], c) for c, label in enumerate(labels)},
        heads=[
            listed(shrunk[row] + PRIOR / (tally.counts + PRIOR), row)
            for row in range(classes, classes + heads)
        ],
        contextual=listed(tally.spread(), -1) if heads else [],
        differences=tally.differences(),
    )


class _Tally:
    """Running sums of the classes' contributions, then of the heads' weight × length."""

    def __init__(self, vocabulary: int, classes: int) -> None:
        self.texts = 0
        self.counts = np.zeros(vocabulary, np.int64)
        self.sums: Sums = np.zeros((vocabulary, classes))
        self.best: Sums = np.full((classes, vocabulary), -np.inf)
        self.examples: dict[tuple[int, int], str] = {}
        self._squares: Sums = np.zeros((vocabulary, 2))  # Σ x and Σ x² of the mean head's x = α·T
        self._differences: Sums = np.zeros(3)
        self._classes = classes

    def add(self, read: TextRead) -> None:
        """Count one text."""
        self.texts += 1
        rows = [read.contributions.astype(np.float64)]
        if read.weights is not None:
            even = read.weights * float(len(read.ids))  # (M, T): 1 everywhere is even
            rows.append(even.astype(np.float64))
            self._grow(self._classes + len(even))
            pooled = even.mean(axis=0)
            np.add.at(self._squares, read.ids, np.stack([pooled, pooled**2], axis=1))
            if read.embedding is not None and len(read.weights) > 1:
                self._differences += head_differences(read.weights, read.embedding)
        values = np.concatenate(rows)  # (C + M, T)
        np.add.at(self.counts, read.ids, 1)
        np.add.at(self.sums, read.ids, values.T)
        self._keep_examples(read, values)

    def spread(self) -> Sums:
        """The standard deviation of the mean head's weight × length over occurrences: (V,)."""
        counts = np.maximum(self.counts, 1)
        mean = self._squares[:, 0] / counts
        spread: Sums = np.sqrt(np.maximum(self._squares[:, 1] / counts - mean**2, 0))
        return spread

    def differences(self) -> HeadDifferences | None:
        """The means over the texts."""
        if self.sums.shape[1] - self._classes < 2:
            return None
        return HeadDifferences(*(self._differences / self.texts).tolist())

    def _grow(self, rows: int) -> None:
        missing = rows - self.sums.shape[1]
        if missing > 0:
            self.sums = np.pad(self.sums, ((0, 0), (0, missing)))
            self.best = np.pad(self.best, ((0, missing), (0, 0)), constant_values=-np.inf)

    def _keep_examples(self, read: TextRead, values: Sums) -> None:
        """Where a word does better than in any text before, remember what stands around it."""
        rows, places = np.nonzero(values > np.maximum(self.best[:, read.ids], 0))
        for row, t in zip(rows.tolist(), places.tolist(), strict=True):
            word = int(read.ids[t])
            if values[row, t] > self.best[row, word]:
                self.best[row, word] = values[row, t]
                self.examples[row, word] = _around(read.text, read.spans[t])
                if row >= self._classes:
                    self.examples[-1, word] = self.examples[row, word]


def head_differences(weights: Floats, embedding: Floats) -> Sums:
    """D_p, D_e and the overlap of one text's heads, from (M, T) and (M, D): (3,)."""
    heads = len(weights)
    positions = -np.square(weights @ weights.T - np.eye(heads)).sum()
    lengths = np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    directions = embedding / lengths  # (M, D)
    embeddings = -(directions @ directions.T).mean()
    pairs = np.triu_indices(heads, k=1)
    shared = [np.minimum(weights[i], weights[j]).sum() for i, j in zip(*pairs, strict=True)]
    return np.array([positions, embeddings, np.mean(shared)])


def _around(text: str, span: Span) -> str:
    start, end = max(span[0] - AROUND, 0), min(span[1] + AROUND, len(text))
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return before + " ".join(text[start:end].split()) + after
