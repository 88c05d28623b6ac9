"""Explanation of one prediction: its words, attention weights, contributions and probabilities.

Shapes: T words, M heads, C classes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lamatext.data.tokenizer import Span
from lamatext.data.validation import python_label
from lamatext.errors import ModelError
from lamatext.explain.contributions import Floats
from lamatext.label_thresholds import reaches_threshold

Label = str | int

MAX_EXPLAINED = 3  # predicted labels of a text: the most probable labels


class WordScore(NamedTuple):
    """A word in an explanation, with its attention weight and its contribution to a label."""

    word: str
    start: int
    end: int
    weight: float | None  # mean over heads; None if attention has no effect on the model
    contribution: float  # minus the mean over classes


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Explanation of the prediction for one text: word contributions and attention weights.

    Spans count the characters (code points) of the original text. The contributions of all words
    to class c and ``base[c]`` add up to the logit of class c.
    """

    text: str
    spans: Sequence[Span]  # T
    labels: Sequence[Label]  # C
    probabilities: Floats  # (C,)
    contributions: Floats  # (C, T)
    base: Floats  # (C,)
    weights: Floats | None = None  # (M, T); None if attention has no effect on the model
    method: Literal["contribution", "occlusion"] = "contribution"
    window: int = 1  # words per occlusion in a long text
    parts: Mapping[str, Floats] | None = None  # (C, T) each, "network" and "n-grams"; they add up
    thresholds: Floats | None = None  # (C,) if a text may have several labels

    @property
    def words(self) -> list[str]:
        """The words of the explanation, as they appear in the text."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def is_empty(self) -> bool:
        """Whether the explained text is empty, apart from white space."""
        return not self.text.strip()

    @property
    def best(self) -> int:
        """Index of the class that the model predicts for the explained text.

        It is the most probable class. For a multi-label model, it is the most probable of the
        predicted labels, or of all labels if none is predicted.
        """
        if self.thresholds is None:
            return int(self.probabilities.argmax())
        reached = reaches_threshold(self.probabilities, self.thresholds)
        return int(np.lexsort((self.probabilities, reached))[-1])

    @property
    def predicted(self) -> Label:
        """Label of the class that the model predicts for the explained text."""
        return self.labels[self.best]

    @property
    def probability(self) -> float:
        """Probability of the class that the model predicts for the explained text."""
        return float(self.probabilities[self.best])

    @property
    def predicted_labels(self) -> list[Label]:
        """Labels that the model assigns to the explained text, the most probable first.

        There is one label or, for a multi-label model, every label whose probability reaches its
        threshold.
        """
        if self.thresholds is None:
            return [self.predicted]
        order = np.argsort(-self.probabilities, kind="stable")
        reached = reaches_threshold(self.probabilities, self.thresholds)
        return [self.labels[i] for i in order if reached[i]]

    @property
    def is_by_ngrams_alone(self) -> bool:
        """Whether the n-grams alone decide on the explained text, as the network has weight 0."""
        return self.method == "contribution" and self.weights is None

    @property
    def pooled(self) -> Floats | None:
        """Attention weight of each word of the explanation, averaged over heads.

        Shape (T,), with sum 1; None if attention has no effect on the model.
        """
        return None if self.weights is None else self.weights.mean(axis=0)

    @property
    def relative(self) -> Floats:
        """Contributions of the words in the explanation, minus their mean over classes.

        Shape (C, T).

        A word that raises the logits of all classes equally decides nothing, because the softmax
        depends on differences only. A multi-label model decides on each label separately, so its
        contributions are returned unchanged.
        """
        return self._relative(self.contributions)

    @property
    def relative_parts(self) -> dict[str, Floats]:
        """Contributions per model part in the explanation, minus their mean over classes.

        Maps ``network`` and ``n-grams`` to arrays (C, T); empty for a model with one part.
        """
        return {name: self._relative(part) for name, part in (self.parts or {}).items()}

    @property
    def relative_base(self) -> Floats:
        """Constant term of the explanation for each class, minus its mean over classes."""
        return self._relative(self.base)

    def _relative(self, values: Floats) -> Floats:
        if self.thresholds is not None:
            return values
        relative: Floats = values - values.mean(axis=0)
        return relative

    @property
    def logits(self) -> Floats:
        """Logits of the explained text: the sum of the word contributions and the constant term."""
        total: Floats = self.contributions.sum(axis=1) + self.base
        return total

    def shares(self, label: Label | None = None) -> dict[str, float]:
        """Return the total contribution of each model part to ``label`` in this explanation."""
        column = self.column(label)
        return {name: float(part[column].sum()) for name, part in self.relative_parts.items()}

    def column(self, label: Label | None) -> int:
        """Return the class index of ``label`` in the explanation (the predicted class if None)."""
        if label is None:
            return self.best
        if label not in self.labels:
            known = ", ".join(map(str, self.labels))
            raise ModelError(f"this model has no class {label!r}. Its classes: {known}.")
        return list(self.labels).index(label)

    def columns(self, label: Label | None) -> list[int]:
        """Return the class indices of the labels that the explanation covers.

        It covers ``label`` if that is given, otherwise the predicted label. For a multi-label
        model, these are the most probable of the predicted labels, or the most probable label if
        none is predicted.
        """
        if label is not None or self.thresholds is None:
            return [self.column(label)]
        return [self.column(name) for name in self.predicted_labels[:MAX_EXPLAINED]] or [self.best]

    def explained_labels(self, label: Label | None = None) -> list[Label]:
        """Return the labels that the explanation covers (the predicted labels by default)."""
        return [self.labels[column] for column in self.columns(label)]

    def top(self, n: int = 10, label: Label | None = None) -> list[WordScore]:
        """Return the ``n`` words of the explanation that contribute most to a label.

        The label is the predicted one unless another is given.
        """
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

    def as_dict(self, label: Label | None = None) -> dict[str, object]:
        """Return the explanation as a dictionary of JSON-serializable values.

        It has the contributions to every label; ``explained`` lists the labels that the explanation
        covers, which is only ``label`` if that is given.
        """
        values: dict[str, object] = {
            "text": self.text,
            "predicted": python_label(self.predicted),
            "explained": list(map(python_label, self.explained_labels(label))),
            "labels": [python_label(label) for label in self.labels],
            "probabilities": _rounded(self.probabilities),
            "words": self.words,
            "spans": [list(span) for span in self.spans],
            "weights": None if self.weights is None else _rounded_rows(self.weights),
            "pooled": None if self.pooled is None else _rounded(self.pooled),
            "contributions": _rounded_rows(self.contributions),
            "relative": _rounded_rows(self.relative),
            "base": _rounded(self.base),
            "method": self.method,
        }
        if self.thresholds is not None:
            values["predicted_labels"] = list(map(python_label, self.predicted_labels))
            values["thresholds"] = _rounded(self.thresholds)
        if self.is_empty:
            values["empty"] = True
        if self.method == "occlusion":
            values["window"] = self.window
        if self.parts is not None:
            values["parts"] = {name: _rounded_rows(part) for name, part in self.parts.items()}
        return values

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the explanation as a JSON string that contains only ASCII characters."""
        return json.dumps(self.as_dict(), indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        """Return a one-line summary of the explanation with the prediction and strongest words."""
        from lamatext.views.notebook import explanation_line

        return explanation_line(self)

    def _repr_html_(self) -> str:
        from lamatext.views.notebook import notebook_html

        return notebook_html(self)


def _rounded(values: Floats) -> list[float]:
    """Round the numbers of an explanation to nine digits, which suffice to restore each float32."""
    return [float(f"{value:.9g}") for value in values.tolist()]


def _rounded_rows(values: Floats) -> list[list[float]]:
    return [_rounded(row) for row in values]
