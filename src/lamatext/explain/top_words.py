"""Top words over many explained texts: the strongest words of each class and attention head.

A word is counted in lower case, as it occurs in the texts.
Shapes: T words of a text, M heads, C classes, V different words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.tokenizer import Span
from lamatext.explain.contributions import Floats
from lamatext.explain.explanation import Explanation, Label

PRIOR = 5  # neutral occurrences added to each mean, so that rare words do not rank first by luck
CONTEXT = 40  # characters of an example on either side of its word

Sums = NDArray[np.float64]


class TopWord(NamedTuple):
    """A top word of a class or an attention head, with its score, frequency and an example."""

    word: str
    score: float  # class: mean contribution; head: mean of weight × T, 1 if uniform; or a spread
    occurrences: int
    example: str


@dataclass(frozen=True)
class TopWords:
    """Top words of each class and each attention head, collected from many explained texts."""

    texts: int
    classes: dict[Label, list[TopWord]]
    heads: list[list[TopWord]]
    contextual: list[TopWord]  # words whose attention weight varies most with their context
    head_overlap: float | None  # Σₜ min(αᵢₜ, αⱼₜ), mean over pairs of heads; None below two heads


def top_words(
    explanations: Sequence[Explanation], *, top: int = 20, min_count: int = 5
) -> TopWords:
    """Find the top words of each class and attention head in a model's explanations of many texts.

    Args:
        explanations: at least one.
        top: the maximum number of words per class and per head.
        min_count: words that occur less often are not ranked.
    """
    tally = _Tally(explanations)
    for explanation in explanations:
        tally.add(explanation)
    labels = explanations[0].labels
    means = tally.sums / (tally.counts + PRIOR)  # (C + M, V)
    uniform = PRIOR / (tally.counts + PRIOR)  # the prior of a head is the weight 1 / T
    eligible = tally.counts >= min_count
    eligible &= np.array([bool(word) for word in tally.words])

    def ranked(scores: Sums, row: int) -> list[TopWord]:
        order = np.argsort(np.where(eligible, -scores, np.inf), kind="stable")[:top]
        return [
            TopWord(
                tally.words[v],
                float(scores[v]),
                int(tally.counts[v]),
                tally.examples.get((row, int(v)), ""),
            )
            for v in order
            if eligible[v] and scores[v] > 0
        ]

    return TopWords(
        texts=len(explanations),
        classes={label: ranked(means[c], c) for c, label in enumerate(labels)},
        heads=[ranked(means[row] + uniform, row) for row in range(len(labels), len(means))],
        contextual=ranked(tally.weight_spread(), -1) if tally.heads else [],
        head_overlap=tally.overlap / len(explanations) if tally.heads > 1 else None,
    )


class _Tally:
    """Running sums of contributions and attention weights for ranking the top words.

    The first C rows are contributions to the classes; the next M rows are weight × T per head.
    """

    def __init__(self, explanations: Sequence[Explanation]) -> None:
        weights = explanations[0].weights
        self.classes = len(explanations[0].labels)
        self.heads = 0 if weights is None else len(weights)
        self.ids: dict[str, int] = {}
        for explanation in explanations:
            for word in explanation.words:
                self.ids.setdefault(word.lower(), len(self.ids))
        self.words = list(self.ids)
        rows, words = self.classes + self.heads, len(self.ids)
        self.counts = np.zeros(words, np.int64)
        self.sums: Sums = np.zeros((rows, words))
        self.examples: dict[tuple[int, int], str] = {}
        self.overlap = 0.0
        self._best: Sums = np.zeros((rows, words))  # the highest value so far, for the examples
        self._moments: Sums = np.zeros((words, 2))  # Σ x and Σ x² of x = mean weight × T

    def add(self, explanation: Explanation) -> None:
        ids = np.array([self.ids[word.lower()] for word in explanation.words])
        values: Sums = explanation.relative.astype(np.float64)  # (C, T)
        if explanation.weights is not None:
            relative_weights = explanation.weights * float(len(ids))  # (M, T): 1 if uniform
            values = np.concatenate([values, relative_weights.astype(np.float64)])  # (C + M, T)
            mean = relative_weights.mean(axis=0)
            np.add.at(self._moments, ids, np.stack([mean, mean**2], axis=1))
            self.overlap += head_overlap(explanation.weights)
        np.add.at(self.counts, ids, 1)
        np.add.at(self.sums.T, ids, values.T)
        self._keep_examples(explanation, ids, values)

    def weight_spread(self) -> Sums:
        """Return the standard deviation of each top-word candidate's attention weight.

        Shape (V,); the deviation is high where the weight depends on the context.
        """
        counts = np.maximum(self.counts, 1)
        mean = self._moments[:, 0] / counts
        spread: Sums = np.sqrt(np.maximum(self._moments[:, 1] / counts - mean**2, 0))
        return spread

    def _keep_examples(
        self, explanation: Explanation, ids: NDArray[np.int64], values: Sums
    ) -> None:
        """Store the context in which each candidate top word's contribution is highest so far."""
        rows, places = np.nonzero(values > self._best[:, ids])
        for row, t in zip(rows.tolist(), places.tolist(), strict=True):
            v = int(ids[t])
            if values[row, t] > self._best[row, v]:
                self._best[row, v] = values[row, t]
                self.examples[row, v] = _context(explanation.text, explanation.spans[t])
                if row >= self.classes:
                    self.examples[-1, v] = self.examples[row, v]


def head_overlap(weights: Floats) -> float:
    """Return how much the attention heads of an explanation attend to the same words, from 0 to 1.

    For weights (M, T), the overlap is the mean over pairs of heads of Σₜ min(αᵢₜ, αⱼₜ).
    """
    pairs = zip(*np.triu_indices(len(weights), k=1), strict=True)
    shared = [float(np.minimum(weights[i], weights[j]).sum()) for i, j in pairs]
    return sum(shared) / max(len(shared), 1)


def _context(text: str, span: Span) -> str:
    start, end = max(span[0] - CONTEXT, 0), min(span[1] + CONTEXT, len(text))
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return before + " ".join(text[start:end].split()) + after
