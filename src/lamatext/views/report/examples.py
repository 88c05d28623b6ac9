"""Example texts of the report: behind each confusion, confident mistakes, doubtful labels.

Shapes: n texts, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamatext.explain.explanation import Explanation
from lamatext.label_thresholds import reaches_threshold
from lamatext.metrics import Floats, Numbers
from lamatext.views.formatting import label_names
from lamatext.views.word_shading import contribution_strength, excerpt_segments

LISTED = 12  # doubtful labels, and as many other mistakes
PER_CELL = 8  # examples behind one cell of the confusion matrix
MAX_MATRIX_CLASSES = 20  # with more classes a confusion matrix is unreadable
MAX_PAIRS = 30  # confused pairs of classes listed instead
EXCERPT_WORDS = 70  # longer examples are shortened around their strongest words
FAINTEST_MARK = 0.2  # of the full strength; weaker words are not marked

Cell = tuple[int, int]  # true class, predicted class


@dataclass(frozen=True)
class Examples:
    """Row indices of the example texts shown in the report, grouped by purpose."""

    cells: dict[Cell, list[int]]  # by true and predicted class, most confident first
    doubtful: list[int]  # labels that may be wrong, most doubtful first
    mistakes: list[int]  # other mistakes, most confident first

    @property
    def rows(self) -> list[int]:
        """Row indices of all example texts, sorted and without duplicates."""
        in_cells = {row for rows in self.cells.values() for row in rows}
        return sorted(in_cells | set(self.doubtful) | set(self.mistakes))


def choose_examples(truth: Numbers, probabilities: Floats, *, limit: int) -> Examples:
    """Choose example texts for the report from true classes and predicted probabilities.

    ``truth`` has shape (n,) and ``probabilities`` (n, C); ``limit`` is the approximate number
    of examples behind the confusion matrix.
    """
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    doubtful = doubtful_labels(truth, probabilities)[:LISTED]
    order = np.argsort(-confidence, kind="stable")
    wrong = order[(predicted != truth)[order]].tolist()
    cells = _cells(truth, predicted, order, classes=probabilities.shape[1])
    per_cell = max(1, min(PER_CELL, limit // max(len(cells), 1)))
    return Examples(
        cells={cell: rows[:per_cell] for cell, rows in cells.items()},
        doubtful=doubtful,
        mistakes=[row for row in wrong if row not in doubtful][:LISTED],
    )


def choose_multi_label_examples(
    truth: NDArray[np.bool_], probabilities: Floats, decided: NDArray[np.bool_]
) -> Examples:
    """Choose example texts with wrong multi-label predictions, most confident mistakes first."""
    errors = np.where(truth != decided, np.abs(truth - probabilities), 0.0).max(axis=1)
    order = np.argsort(-errors, kind="stable")
    return Examples({}, [], [int(row) for row in order[: 2 * LISTED] if errors[row] > 0])


def multi_label_example_values(
    explanation: Explanation, labels: Sequence[str], truth: NDArray[np.bool_]
) -> dict[str, object]:
    """Return the template values of a multi-label example text.

    The marked words are those of the label on which model and truth differ most.
    """
    thresholds = explanation.thresholds
    assert thresholds is not None
    decided = reaches_threshold(explanation.probabilities, thresholds)
    errors = np.where(truth != decided, np.abs(truth - explanation.probabilities), 0.0)
    column = int(errors.argmax()) if errors.any() else explanation.best
    return {
        "predicted": label_names(labels[i] for i in np.flatnonzero(decided).tolist()),
        "correct": not errors.any(),
        "truth": label_names(labels[i] for i in np.flatnonzero(truth).tolist()),
        "label": labels[column],
        "probability": float(explanation.probabilities[column]),
        "words": marked_words(explanation, column),
    }


def doubtful_labels(truth: Numbers, probabilities: Floats) -> list[int]:
    """Find example texts with probably wrong labels by confident learning.

    Northcutt et al. 2021: with t_j the mean probability of class j over the texts labelled j, a
    label is doubtful if another class has p_j ≥ t_j and p_j > p_label. Rows are sorted by the
    margin p_j − p_label, largest first.
    """
    n, classes = probabilities.shape
    own = probabilities[np.arange(n), truth]
    sums = np.bincount(truth, own, classes)
    counts = np.bincount(truth, minlength=classes)
    thresholds = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)  # (C,)
    likely = np.where(probabilities >= thresholds, probabilities, 0.0)
    likely[np.arange(n), truth] = 0.0
    margin = likely.max(axis=1) - own
    order: NDArray[np.int64] = np.argsort(-margin, kind="stable")
    return [int(row) for row in order if margin[row] > 0]


def _cells(
    truth: Numbers, predicted: Numbers, order: NDArray[np.int64], *, classes: int
) -> dict[Cell, list[int]]:
    """Group the rows of example texts by true and predicted class.

    With many classes, only the most frequent confusions are kept.
    """
    cells: dict[Cell, list[int]] = {}
    for row in order.tolist():
        cells.setdefault((int(truth[row]), int(predicted[row])), []).append(row)
    if classes <= MAX_MATRIX_CLASSES:
        return cells
    confused = sorted((cell for cell in cells if cell[0] != cell[1]), key=lambda c: -len(cells[c]))
    return {cell: cells[cell] for cell in confused[:MAX_PAIRS]}


def example_values(
    explanation: Explanation, labels: Sequence[str], truth: int
) -> dict[str, object]:
    """Return the template values of one example text, such as its label and prediction."""
    best = explanation.best
    return {
        "label": None,  # the words are those of the predicted class
        "predicted": labels[best],
        "probability": explanation.probability,
        "correct": best == truth,
        "truth": labels[truth],
        "truth_probability": float(explanation.probabilities[truth]),
        "words": marked_words(explanation, best),
    }


def marked_words(explanation: Explanation, column: int) -> list[tuple[str, str]]:
    """Split an example text into pieces with the CSS classes that highlight them."""
    strength = contribution_strength(explanation, column)
    segments = excerpt_segments(explanation, strength, words=EXCERPT_WORDS)
    return [
        (characters, "" if t is None or not characters else _mark(float(strength[t])))
        for t, characters in segments
    ]


def _mark(strength: float) -> str:
    if abs(strength) < FAINTEST_MARK:
        return ""
    step = min(int((abs(strength) - FAINTEST_MARK) / (1 - FAINTEST_MARK) * 4), 3) + 1
    return f"{'p' if strength > 0 else 'n'}{step}"
