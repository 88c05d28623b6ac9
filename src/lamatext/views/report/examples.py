"""Which texts a report shows: those behind each confusion, sure mistakes, doubtful labels.

Shapes: n texts, C classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamatext.metrics import Floats, Numbers

LISTED = 12  # doubtful labels, and as many mistakes beside them
IN_CELL = 8  # texts behind one cell, at most
WIDEST = 20  # classes whose confusion matrix can be read
PAIRS = 30  # confusions that are listed where it cannot

Cell = tuple[int, int]  # true class, predicted class


@dataclass(frozen=True)
class Chosen:
    """Places of texts."""

    cells: dict[Cell, list[int]]  # by true and predicted class, the surest first
    doubtful: list[int]  # labels that may be wrong, the most doubtful first
    mistakes: list[int]  # other mistakes, the surest first

    @property
    def rows(self) -> list[int]:
        """All of them, once each."""
        found = {row for rows in self.cells.values() for row in rows}
        return sorted(found | set(self.doubtful) | set(self.mistakes))


def choose(truth: Numbers, probabilities: Floats, *, most: int) -> Chosen:
    """About ``most`` texts of n, by their class numbers (n,) and probabilities (n, C)."""
    predicted, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    doubtful = doubtful_labels(truth, probabilities)[:LISTED]
    shown = set(doubtful)
    order = np.argsort(-sure, kind="stable")
    wrong = [row for row in order[(predicted != truth)[order]].tolist() if row not in shown]
    cells = _cells(truth, predicted, order, classes=probabilities.shape[1])
    each = max(1, min(IN_CELL, most // max(len(cells), 1)))
    return Chosen(
        cells={cell: rows[:each] for cell, rows in cells.items()},
        doubtful=doubtful,
        mistakes=wrong[:LISTED],
    )


def doubtful_labels(truth: Numbers, probabilities: Floats) -> list[int]:
    """Texts that look more like another class than texts of that class usually do.

    Confident learning (Northcutt et al. 2021): with t_j the mean probability of class j over the
    texts labelled j, a label is in doubt where another class has p_j ≥ t_j and p_j > p_label. The
    widest margin p_j − p_label comes first.
    """
    n, classes = probabilities.shape
    own = probabilities[np.arange(n), truth]
    sums = np.bincount(truth, own, classes)
    counts = np.bincount(truth, minlength=classes)
    usual = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)  # (C,)
    likely = np.where(probabilities >= usual, probabilities, 0.0)
    likely[np.arange(n), truth] = 0.0
    margin = likely.max(axis=1) - own
    order: NDArray[np.int64] = np.argsort(-margin, kind="stable")
    return [int(row) for row in order if margin[row] > 0]


def _cells(
    truth: Numbers, predicted: Numbers, order: NDArray[np.int64], *, classes: int
) -> dict[Cell, list[int]]:
    """The texts of each cell in the given order; of many classes, the largest confusions alone."""
    cells: dict[Cell, list[int]] = {}
    for row in order.tolist():
        cells.setdefault((int(truth[row]), int(predicted[row])), []).append(row)
    if classes <= WIDEST:
        return cells
    confused = sorted((cell for cell in cells if cell[0] != cell[1]), key=lambda c: -len(cells[c]))
    return {cell: cells[cell] for cell in confused[:PAIRS]}
