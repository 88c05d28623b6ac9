"""Linear SVM of the n-gram model: dual coordinate descent on sparse features, class by class.

For one class, with signs yᵢ = ±1, costs Cᵢ and features sⱼ·xᵢⱼ (s is the naive-Bayes scale), fit

    min over w, b    ‖(w, b)‖²/2 + Σᵢ Cᵢ max(0, 1 − yᵢ (b + Σⱼ wⱼ sⱼ xᵢⱼ))²

as LIBLINEAR does (Hsieh et al. 2008, algorithm 3 with shrinking). The scale is applied on the fly:
only vⱼ = sⱼ·wⱼ is stored, so all classes share one matrix and are fitted on several threads. The
result does not depend on the number of threads. Reference: scikit-learn's ``LinearSVC``.
A fit can start from weights w⁰, b⁰; the penalty is then ‖(w − w⁰, b − b⁰)‖²/2, the distance from
them, because the dual problem differs only in where w and b are while all its variables are 0.
Shapes: n texts, K n-grams, N values that are not zero.
"""

import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.kernels.kernel_threads import run_on_threads, thread_count
from lamatext.kernels.numba_compat import compiled

TOLERANCE = 0.01  # of the optimality conditions; a stricter one takes longer and changes nothing
MAX_PASSES = 300


class SparseRows(NamedTuple):
    """Sparse feature matrix in compressed rows (CSR), as the SVM solver reads it."""

    starts: NDArray[np.int64]  # (n + 1,) where each text begins in the other two
    columns: NDArray[np.int32]  # (N,)
    values: NDArray[np.float32]  # (N,)
    width: int  # K


class BinaryTask(NamedTuple):
    """Data of one binary SVM, which separates the positive texts from all other texts."""

    positive: NDArray[np.bool_]  # (n,)
    cost: NDArray[np.float64]  # (n,); a text of cost 0 is ignored
    scale: NDArray[np.float32]  # (K,)


class StartWeights(NamedTuple):
    """Initial weights of linear SVMs, towards which the penalty pulls the fitted weights."""

    weights: NDArray[np.float32]  # (tasks, K), as returned by fit_svms
    biases: NDArray[np.float32]  # (tasks,)


def fit_svms(
    rows: SparseRows,
    task: Callable[[int], BinaryTask],
    tasks: int,
    *,
    start: StartWeights | None = None,
    tolerance: float = TOLERANCE,
    advance: Callable[[], None] = lambda: None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Fit one linear SVM per class on several threads.

    Args:
        rows: the features that all classes share.
        task: returns the data of an SVM by its number.
        tasks: number of SVMs.
        start: weights to start from and to stay close to; None is zeros.
        tolerance: the largest violation of the optimality conditions at which to stop.
        advance: called after each SVM.

    Returns:
        The weights sⱼ·wⱼ (tasks, K) and the biases (tasks,).
    """
    if start is None:
        start = StartWeights(np.zeros((tasks, rows.width), np.float32), np.zeros(tasks, np.float32))
    weights, biases = start.weights.copy(), start.biases.copy()
    counter = itertools.count()

    def work() -> None:
        while (number := next(counter)) < tasks:
            fitted = _descend(rows, task(number), tolerance, weights[number], biases[number])
            weights[number], biases[number] = fitted.pairs[:, 0], fitted.bias[0]
            advance()

    run_on_threads(work, min(tasks, thread_count(default=os.cpu_count() or 1)))
    return weights, biases


class _Descent(NamedTuple):
    """State of the coordinate descent for one SVM; arrays of length 1 are variables."""

    dual: NDArray[np.float64]  # (n,) αᵢ
    curvature: NDArray[np.float64]  # (n,) second derivative of the dual problem by αᵢ
    order: NDArray[np.int64]  # texts in the order of the pass; those left out by shrinking last
    active: NDArray[np.int64]  # (1,) number of texts that are not left out
    bias: NDArray[np.float64]  # (1,)
    random: NDArray[np.uint64]  # (1,) state of the random number generator
    pairs: NDArray[np.float32]  # (K, 2): v and s² of each n-gram, side by side


def _descend(
    rows: SparseRows,
    task: BinaryTask,
    tolerance: float,
    weights: NDArray[np.float32],
    bias: np.float32,
) -> _Descent:
    """Fit one linear SVM by coordinate descent over the texts, starting from given weights."""
    order = np.flatnonzero(task.cost > 0)
    pairs = np.empty((rows.width, 2), np.float32)
    pairs[:, 0] = weights
    pairs[:, 1] = task.scale.astype(np.float64) ** 2
    state = _Descent(
        dual=np.zeros(len(task.cost)),
        curvature=np.zeros(len(task.cost)),
        order=order,
        active=np.array([len(order)]),
        bias=np.full(1, bias, np.float64),
        random=np.array([88172645463325252], np.uint64),
        pairs=pairs,
    )
    measure_curvature(rows, task, state)
    limit = np.inf
    for _ in range(MAX_PASSES):
        largest, smallest = run_pass(rows, task, state, limit)
        if largest - smallest > tolerance:
            limit = largest if largest > 0 else np.inf
        elif state.active[0] == len(order):
            break
        else:  # check again with all texts
            state.active[0], limit = len(order), np.inf
    return state


@compiled
def measure_curvature(
    rows: SparseRows, task: BinaryTask, state: _Descent
) -> None:  # pragma: no cover
    """Compute the curvature of the SVM's loss along each text's weight: 1 + ‖sxᵢ‖² + 1/(2Cᵢ)."""
    for i in state.order:
        total = 1 + 0.5 / task.cost[i]
        for k in range(rows.starts[i], rows.starts[i + 1]):
            total += rows.values[k] * rows.values[k] * state.pairs[rows.columns[k], 1]
        state.curvature[i] = total


@compiled
def run_pass(
    rows: SparseRows, task: BinaryTask, state: _Descent, limit: float
) -> tuple[float, float]:  # pragma: no cover
    """Run one pass of the SVM solver over the active texts, in random order.

    Return the largest and smallest projected gradient. A text whose αᵢ is 0 and whose gradient
    exceeds ``limit`` is far from the margin and is left out from now on (shrinking).
    """
    largest, smallest, place = -np.inf, np.inf, 0
    while place < state.active[0]:
        i = draw_text(state, place)
        sign = 1.0 if task.positive[i] else -1.0
        margin = dot_product(rows, i, state.pairs) + state.bias[0]
        gradient = sign * margin - 1 + state.dual[i] * 0.5 / task.cost[i]
        if state.dual[i] == 0 and gradient > limit:
            state.active[0] -= 1
            state.order[place], state.order[state.active[0]] = state.order[state.active[0]], i
            continue
        place += 1
        if state.dual[i] == 0 and gradient >= 0:
            largest, smallest = max(largest, 0.0), min(smallest, 0.0)
            continue
        largest, smallest = max(largest, gradient), min(smallest, gradient)
        new = max(state.dual[i] - gradient / state.curvature[i], 0.0)
        change = (new - state.dual[i]) * sign
        state.dual[i] = new
        state.bias[0] += change
        add_text(rows, i, state.pairs, np.float32(change))
    return largest, smallest


@compiled
def draw_text(state: _Descent, place: int) -> int:  # pragma: no cover
    """Move a random active text of the SVM solver to ``place`` and return it (xorshift)."""
    random = state.random[0]
    random ^= random << np.uint64(13)
    random ^= random >> np.uint64(7)
    random ^= random << np.uint64(17)
    state.random[0] = random
    other = place + np.int64(random >> np.uint64(33)) % (state.active[0] - place)
    text: int = state.order[other]
    state.order[other], state.order[place] = state.order[place], text
    return text


@compiled
def dot_product(
    rows: SparseRows, text: int, pairs: NDArray[np.float32]
) -> np.float32:  # pragma: no cover
    """Compute Σⱼ xⱼ vⱼ of one text for the SVM solver."""
    total = np.float32(0)
    for k in range(rows.starts[text], rows.starts[text + 1]):
        total += rows.values[k] * pairs[rows.columns[k], 0]
    return total


@compiled
def add_text(
    rows: SparseRows, text: int, pairs: NDArray[np.float32], step: np.float32
) -> None:  # pragma: no cover
    """Add a multiple of one text's features to the weights of the SVM solver: v += step·s²x."""
    for k in range(rows.starts[text], rows.starts[text + 1]):
        column = rows.columns[k]
        pairs[column, 0] += step * rows.values[k] * pairs[column, 1]
