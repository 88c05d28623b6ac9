"""What is known of one prediction: the words of the text, their weights and contributions.

Shapes: T words, M heads, C classes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lamatext.data.tokenizer import Span
from lamatext.errors import ModelError
from lamatext.explain.classifier_head import Floats

Label = str | int


class WordScore(NamedTuple):
    """A word of the text, with what it was given."""

    word: str
    start: int
    end: int
    weight: float | None  # mean over the heads; None in a system without attention
    contribution: float  # relative, to the label that was asked for


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why ``text`` got its label.

    Spans count the characters (code points) of the original text. The words' contributions to
    class c and ``base[c]`` add up to its logit, its score before the softmax.
    """

    text: str
    spans: Sequence[Span]  # T
    labels: Sequence[Label]  # C
    probabilities: Floats  # (C,)
    contributions: Floats  # (C, T)
    base: Floats  # (C,)
    weights: Floats | None = None  # (M, T)
    method: Literal["contribution", "occlusion"] = "contribution"
    window: int = 1  # words left out together, by occlusion in a long text
    parts: Mapping[str, Floats] | None = None  # (C, T) each; together they are `contributions`

    @property
    def words(self) -> list[str]:
        """The words as they stand in the text."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def best(self) -> int:
        """The column of the most probable class."""
        return int(self.probabilities.argmax())

    @property
    def predicted(self) -> Label:
        """The most probable class."""
        return self.labels[self.best]

    @property
    def probability(self) -> float:
        """The probability of the predicted class."""
        return float(self.probabilities[self.best])

    @property
    def pooled(self) -> Floats | None:
        """The mean of the heads' weights: (T,), adding up to 1."""
        return None if self.weights is None else self.weights.mean(axis=0)

    @property
    def relative(self) -> Floats:
        """The contributions less their mean over the classes: (C, T), what the views show.

        A word that lifts every class alike decides nothing, for the softmax sees only differences.
        """
        relative: Floats = self.contributions - self.contributions.mean(axis=0)
        return relative

    @property
    def relative_parts(self) -> dict[str, Floats]:
        """The same of each part of the model, (C, T) each; empty where it has but one."""
        return {name: part - part.mean(axis=0) for name, part in (self.parts or {}).items()}

    @property
    def relative_base(self) -> Floats:
        """The same of what no word adds: (C,)."""
        relative: Floats = self.base - self.base.mean()
        return relative

    def shares(self, label: Label | None = None) -> dict[str, float]:
        """What all words together add to ``label`` through each part of the model."""
        column = self.column(label)
        return {name: float(part[column].sum()) for name, part in self.relative_parts.items()}

    @property
    def logits(self) -> Floats:
        """Before the softmax: (C,)."""
        total: Floats = self.contributions.sum(axis=1) + self.base
        return total

    def column(self, label: Label | None) -> int:
        """The column of ``label``; None means the predicted one."""
        if label is None:
            return self.best
        if label not in self.labels:
            known = ", ".join(map(str, self.labels))
            raise ModelError(f"this model has no class {label!r}. Its classes: {known}.")
        return list(self.labels).index(label)

    def top(self, n: int = 10, label: Label | None = None) -> list[WordScore]:
        """The ``n`` words that speak most for ``label`` (None: the predicted one), best first."""
        scores = self.relative[self.column(label)]
        pooled, words = self.pooled, self.words
        return [
            WordScore(
                words[t],
                self.spans[t][0],
                self.spans[t][1],
                None if pooled is None else float(pooled[t]),
                float(scores[t]),
            )
            for t in np.argsort(-scores, kind="stable")[:n]
        ]

    def as_dict(self) -> dict[str, object]:
        """Plain lists and numbers: ``weights`` one row a head, ``contributions`` one a class."""
        fields: dict[str, object] = {
            "text": self.text,
            "predicted": _plain(self.predicted),
            "labels": [_plain(label) for label in self.labels],
            "probabilities": _numbers(self.probabilities),
            "words": self.words,
            "spans": [list(span) for span in self.spans],
            "weights": None if self.weights is None else _rows(self.weights),
            "pooled": None if self.pooled is None else _numbers(self.pooled),
            "contributions": _rows(self.contributions),
            "relative": _rows(self.relative),
            "base": _numbers(self.base),
            "method": self.method,
        }
        if self.method == "occlusion":
            fields["window"] = self.window
        if self.parts is not None:
            fields["parts"] = {name: _rows(part) for name, part in self.parts.items()}
        return fields

    def to_json(self, *, indent: int | None = None) -> str:
        """``as_dict`` as JSON in ASCII, so that no character of a text can break a file."""
        return json.dumps(self.as_dict(), indent=indent, allow_nan=False)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from lamatext.views.notebook import fragment

        return fragment(self)


def _plain(label: object) -> object:
    """Labels may be numpy's numbers or strings."""
    return label.item() if isinstance(label, np.generic) else label


def _numbers(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _rows(values: Floats) -> list[list[float]]:
    return [_numbers(row) for row in values]
