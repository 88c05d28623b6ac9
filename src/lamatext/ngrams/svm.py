"""Linear SVM of the n-gram model: dual coordinate descent on sparse features.

For one class, with signs yᵢ = ±1, costs Cᵢ and features sⱼ·xᵢⱼ (s is the naive-Bayes scale), fit

    min over w, b    ‖(w, b)‖²/2 + Σᵢ Cᵢ max(0, 1 − yᵢ (b + Σⱼ wⱼ sⱼ xᵢⱼ))²

as LIBLINEAR does (Hsieh et al. 2008, algorithm 3 with shrinking). The scale is applied on the fly:
only vⱼ = sⱼ·wⱼ is stored, so all classes share one matrix and are fitted on several threads. The
result does not depend on the number of threads. Reference: scikit-learn's ``LinearSVC``.
A fit can start from weights w⁰, b⁰; the penalty is then the distance from them,
‖(w − w⁰, b − b⁰)‖²/2. The dual problem is the same, except that w and b are w⁰ and b⁰ instead of 0
while all its variables are 0.

With many classes, few texts are near the margin of each. Then an SVM is fitted to a working set of
texts, to which the texts that violate the optimality conditions most are added until no text does.
The margins of all texts are computed for ``LANES`` classes at once, in SIMD vectors.
Shapes: n texts, K n-grams, N values that are not zero, m texts of a working set.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.kernels.kernel_threads import run_on_threads, thread_count, usable_cores
from lamatext.kernels.numba_compat import compiled
from lamatext.kernels.simd import VECTOR_BYTES, at, load, store

TOLERANCE = 0.01  # of the optimality conditions; a stricter one takes longer and changes nothing
MAX_PASSES = 300
LANES = 16  # SVMs whose margins are computed at once; with fewer classes there are no working sets
VECTOR = VECTOR_BYTES // 4  # float32 numbers in a SIMD vector; LANES are one or two vectors
WORKING_SET = 500  # texts at first, besides the positive ones, and texts that are added at once
MAX_ROUNDS = 100  # of extending a working set
STEPS = 20  # of progress for each SVM
SLACK = 0.1  # distance beyond the margin at which a text leaves the working set


class SparseRows(NamedTuple):
    """Sparse feature matrix in CSR format, the input of the SVM solver."""

    starts: NDArray[np.int64]  # (n + 1,) where each text begins in the other two
    columns: NDArray[np.int32]  # (N,)
    values: NDArray[np.float32]  # (N,)
    width: int  # K


class BinaryTask(NamedTuple):
    """Labels, costs and feature scales of one binary SVM problem."""

    positive: NDArray[np.bool_]  # (n,)
    cost: NDArray[np.float64]  # (n,); a text of cost 0 is ignored
    scale: NDArray[np.float32]  # (K,)


class StartWeights(NamedTuple):
    """Initial weights of linear SVMs; the regularization penalizes the distance from them."""

    weights: NDArray[np.float32]  # (tasks, K), as returned by fit_svms
    biases: NDArray[np.float32]  # (tasks,)


def fit_svms(
    rows: SparseRows,
    task: Callable[[int], BinaryTask],
    tasks: int,
    *,
    start: StartWeights | None = None,
    tolerance: float = TOLERANCE,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Fit one linear SVM per class on several threads.

    Args:
        rows: the features that all classes share.
        task: returns the data of an SVM by its number.
        tasks: number of SVMs.
        start: weights to start from and to stay close to; None means zeros.
        tolerance: the largest violation of the optimality conditions at which to stop.
        advance: called with steps of progress, ``STEPS`` in all for each SVM.

    Returns:
        The weights sⱼ·wⱼ (tasks, K) and the biases (tasks,).
    """
    if start is None:
        start = StartWeights(np.zeros((tasks, rows.width), np.float32), np.zeros(tasks, np.float32))
    weights, biases = start.weights.copy(), start.biases.copy()
    blocks = np.array_split(np.arange(tasks), -(-tasks // LANES) if tasks >= LANES else tasks)
    fit = _fit_on_working_sets if tasks >= LANES else _fit_on_all_texts
    counter = itertools.count()

    def work() -> None:
        while (number := next(counter)) < len(blocks):
            block = blocks[number]
            own = StartWeights(weights[block], biases[block])
            fit(rows, list(map(task, block.tolist())), tolerance, own, advance)
            weights[block], biases[block] = own

    run_on_threads(work, min(len(blocks), thread_count(default=usable_cores())))
    return weights, biases


def _fit_on_all_texts(
    rows: SparseRows,
    tasks: Sequence[BinaryTask],
    tolerance: float,
    fitted: StartWeights,
    advance: Callable[[int], None],
) -> None:
    """Fit linear SVMs on all texts one after the other, updating ``fitted`` in place."""
    for number, task in enumerate(tasks):
        pairs = _pairs(task, fitted.weights[number])
        bias = fitted.biases[number : number + 1].astype(np.float64)
        unknowns = _Unknowns(np.zeros(len(task.cost)), bias, pairs)
        _descend(rows, task, tolerance, unknowns, advance)
        fitted.weights[number], fitted.biases[number] = pairs[:, 0], bias[0]


class _Unknowns(NamedTuple):
    """Variables that the coordinate descent of one SVM optimizes."""

    dual: NDArray[np.float64]  # (n,) αᵢ
    bias: NDArray[np.float64]  # (1,)
    pairs: NDArray[np.float32]  # (K, 2): v and s² of each n-gram, side by side


class _Descent(NamedTuple):
    """Internal state of the coordinate descent for one SVM."""

    dual: NDArray[np.float64]  # (n,) αᵢ
    curvature: NDArray[np.float64]  # (n,) second derivative of the dual problem by αᵢ
    order: NDArray[np.int64]  # texts in the order of the pass; those left out by shrinking last
    active: NDArray[np.int64]  # (1,) number of texts that are not left out
    bias: NDArray[np.float64]  # (1,)
    random: NDArray[np.uint64]  # (1,) state of the random number generator
    pairs: NDArray[np.float32]  # (K, 2): v and s² of each n-gram, side by side


def _pairs(task: BinaryTask, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Combine the weight and squared scale of each SVM feature into one array (K, 2)."""
    return np.stack([weights, (task.scale.astype(np.float64) ** 2).astype(np.float32)], axis=1)


def _descend(
    rows: SparseRows,
    task: BinaryTask,
    tolerance: float,
    unknowns: _Unknowns,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Fit one linear SVM by dual coordinate descent, updating ``unknowns`` in place.

    Each pass counts as a step of progress; the steps of passes that were not needed are reported at
    the end.
    """
    order = np.flatnonzero(task.cost > 0)
    state = _Descent(
        dual=unknowns.dual,
        curvature=np.zeros(len(task.cost)),
        order=order,
        active=np.array([len(order)]),
        bias=unknowns.bias,
        random=np.array([88172645463325252], np.uint64),
        pairs=unknowns.pairs,
    )
    measure_curvature(rows, task, state)
    limit, steps = np.inf, STEPS
    for _ in range(MAX_PASSES):
        largest, smallest = run_pass(rows, task, state, limit)
        if steps > 1:
            steps -= 1
            advance(1)
        if largest - smallest > tolerance:
            limit = largest if largest > 0 else np.inf
        elif state.active[0] == len(order):
            break
        else:  # check again with all texts
            state.active[0], limit = len(order), np.inf
    advance(steps)


@dataclass(slots=True)
class _WorkingSet:
    """Subset of texts that one SVM is fitted to, with its current solution."""

    texts: NDArray[np.int64]  # (m,)
    unknowns: _Unknowns  # with the dual variables of these texts only; those of others are 0

    def fit(self, rows: SparseRows, task: BinaryTask, tolerance: float) -> None:
        """Fit the SVM to its working set, starting from the current solution."""
        starts = np.concatenate([[0], np.cumsum(np.diff(rows.starts)[self.texts])])
        columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        copy_texts(rows, self.texts, columns, values)
        own = BinaryTask(task.positive[self.texts], task.cost[self.texts], task.scale)
        _descend(SparseRows(starts, columns, values, rows.width), own, tolerance, self.unknowns)

    def extend(self, task: BinaryTask, margins: NDArray[np.float32], tolerance: float) -> bool:
        """Add the worst-fitted texts to the SVM's working set; return False if there are none.

        These are the texts that violate the SVM's optimality conditions most. Texts far beyond the
        margin leave the working set. ``margins`` (n,) are without the bias.
        """
        bias = np.float32(self.unknowns.bias[0])
        gradient = np.where(task.positive, margins + bias, -margins - bias) - 1
        is_inside = gradient[self.texts] < SLACK
        violates = (gradient < -tolerance) & (task.cost > 0)
        violates[self.texts] = False
        added = np.flatnonzero(violates)
        if not len(added):
            return False
        limit = max(WORKING_SET, len(self.texts) // 2)
        if len(added) > limit:
            worst = np.argsort(gradient[added], kind="stable")[:limit]
            added = np.sort(added[worst])
        dual = self.unknowns.dual
        kept = (dual > 0) | is_inside
        self.texts = np.concatenate([self.texts[kept], added])
        dual = np.concatenate([dual[kept], np.zeros(len(added))])
        self.unknowns = self.unknowns._replace(dual=dual)
        return True


def _fit_on_working_sets(
    rows: SparseRows,
    tasks: Sequence[BinaryTask],
    tolerance: float,
    fitted: StartWeights,
    advance: Callable[[int], None],
) -> None:
    """Fit up to ``LANES`` linear SVMs on growing subsets of texts, updating ``fitted`` in place."""
    texts = len(rows.starts) - 1
    sets = []
    for task, weights, bias in zip(tasks, fitted.weights, fitted.biases, strict=True):
        is_first = task.positive.copy()
        is_first[:: max(1, texts // WORKING_SET)] = True
        first = np.flatnonzero(is_first & (task.cost > 0))
        unknowns = _Unknowns(np.zeros(len(first)), np.full(1, bias, float), _pairs(task, weights))
        sets.append(_WorkingSet(first, unknowns))
    weights = np.zeros((rows.width, LANES), np.float32)
    margins = np.empty((texts, LANES), np.float32)
    lanes = list(range(len(tasks)))  # of SVMs that are not optimal yet
    for _ in range(MAX_ROUNDS):
        for lane in lanes:
            sets[lane].fit(rows, tasks[lane], tolerance)
            weights[:, lane] = sets[lane].unknowns.pairs[:, 0]
        compute_margins(rows, weights.reshape(-1), margins.reshape(-1))
        before = len(lanes)
        lanes = [
            lane for lane in lanes if sets[lane].extend(tasks[lane], margins[:, lane], tolerance)
        ]
        advance(STEPS * (before - len(lanes)))
        if not lanes:
            break
    fitted.weights[:] = weights[:, : len(tasks)].T
    fitted.biases[:] = [own.unknowns.bias[0] for own in sets]


@compiled
def copy_texts(
    rows: SparseRows,
    texts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
) -> None:  # pragma: no cover
    """Copy the features of the texts in an SVM's working set into contiguous arrays."""
    size = 0
    for i in texts:
        for k in range(rows.starts[i], rows.starts[i + 1]):
            columns[size], values[size] = rows.columns[k], rows.values[k]
            size += 1


@compiled
def compute_margins(
    rows: SparseRows, weights: NDArray[np.float32], margins: NDArray[np.float32]
) -> None:  # pragma: no cover
    """Compute the margins (without bias) of all texts for ``LANES`` SVMs at once.

    ``weights`` (K, LANES) and ``margins`` (n, LANES) are given as flat arrays.
    """
    vectors, sums = at(weights, 0), at(margins, 0)
    for i in range(len(rows.starts) - 1):
        for j in range(LANES):
            margins[i * LANES + j] = 0
        left = right = load(sums, i * LANES)  # zeros
        for k in range(rows.starts[i], rows.starts[i + 1]):
            first, value = np.int64(rows.columns[k]) * LANES, rows.values[k]
            left = left + load(vectors, first) * value
            if VECTOR < LANES:
                right = right + load(vectors, first + VECTOR) * value
        store(sums, i * LANES, left)
        if VECTOR < LANES:
            store(sums, i * LANES + VECTOR, right)


@compiled
def measure_curvature(
    rows: SparseRows, task: BinaryTask, state: _Descent
) -> None:  # pragma: no cover
    """Compute the second derivative of the SVM's dual problem for each text."""
    for i in state.order:
        total = 1 + 0.5 / task.cost[i]
        for k in range(rows.starts[i], rows.starts[i + 1]):
            total += rows.values[k] * rows.values[k] * state.pairs[rows.columns[k], 1]
        state.curvature[i] = total


@compiled
def run_pass(
    rows: SparseRows, task: BinaryTask, state: _Descent, limit: float
) -> tuple[float, float]:  # pragma: no cover
    """Run one pass of SVM coordinate descent over the active texts in random order.

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
    """Draw a random active text for the SVM solver and move it to ``place``."""
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
    """Compute the dot product of one text's features and the SVM weights."""
    total = np.float32(0)
    for k in range(rows.starts[text], rows.starts[text + 1]):
        total += rows.values[k] * pairs[rows.columns[k], 0]
    return total


@compiled
def add_text(
    rows: SparseRows, text: int, pairs: NDArray[np.float32], step: np.float32
) -> None:  # pragma: no cover
    """Add a multiple of one text's scaled features to the weights of the SVM."""
    for k in range(rows.starts[text], rows.starts[text + 1]):
        column = rows.columns[k]
        pairs[column, 0] += step * rows.values[k] * pairs[column, 1]
