"""The SVM solver, compared with scikit-learn's LinearSVC (LIBLINEAR)."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from lamatext.kernels.kernel_threads import kernel_threads
from lamatext.ngrams import svm
from lamatext.ngrams.svm import BinaryTask, SparseRows, StartWeights, fit_svms

TEXTS, NGRAMS = 400, 60


def problem(seed: int) -> tuple[NDArray[np.float32], SparseRows, BinaryTask]:
    """A sparse matrix, densely and in compressed rows, and noisy labels that depend on it."""
    random = np.random.default_rng(seed)
    dense = (random.random((TEXTS, NGRAMS)) * (random.random((TEXTS, NGRAMS)) < 0.1)).astype("f4")
    dense[7] = 0
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int64)
    at = dense.nonzero()
    rows = SparseRows(starts, at[1].astype(np.int32), dense[at], NGRAMS)
    positive = dense @ random.normal(size=NGRAMS) + 0.2 * random.normal(size=TEXTS) > 0.1
    cost = random.choice([0.0, 0.5, 2.0], TEXTS)
    return dense, rows, BinaryTask(positive, cost, random.random(NGRAMS).astype(np.float32) + 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_that_of_linear_svc_on_scaled_features(seed: int) -> None:
    dense, rows, task = problem(seed)
    reference = LinearSVC(tol=1e-8, max_iter=50_000, random_state=0)
    reference.fit(dense * task.scale, task.positive, sample_weight=task.cost)

    weights, bias = fit_svms(rows, lambda _: task, 1, tolerance=1e-5)

    np.testing.assert_allclose(weights[0], reference.coef_[0] * task.scale, atol=2e-4)
    np.testing.assert_allclose(bias, reference.intercept_, atol=2e-4)


def test_the_default_tolerance_changes_no_clear_decision() -> None:
    dense, rows, task = problem(0)

    (fast, exact) = (
        dense @ weights[0] + bias[0]
        for weights, bias in (fit_svms(rows, lambda _: task, 1, tolerance=t) for t in (0.1, 1e-5))
    )

    clear = np.abs(exact) > 0.1
    assert ((fast > 0) == (exact > 0))[clear].all()
    assert np.abs(fast - exact).max() < 0.1


@pytest.mark.parametrize("from_weights", [False, True])
def test_many_svms_on_working_sets_have_the_solution_that_each_has_on_all_texts(
    monkeypatch: pytest.MonkeyPatch, from_weights: bool
) -> None:
    _, rows, task = problem(0)
    random = np.random.default_rng(6)
    masks = random.random((20, TEXTS)) < np.linspace(0, 0.4, 20)[:, None]
    start = StartWeights(random.normal(size=(20, NGRAMS)).astype("f4"), np.ones(20, "f4"))
    monkeypatch.setattr(svm, "WORKING_SET", 10)
    steps: list[int] = []

    weights, bias = fit_svms(
        rows,
        lambda i: task._replace(positive=masks[i]),
        20,
        start=start if from_weights else None,
        tolerance=1e-4,
        advance=steps.append,
    )

    assert sum(steps) == 20 * svm.STEPS
    for number in range(20):
        own = StartWeights(start.weights[number : number + 1], start.biases[number : number + 1])
        tasks = [task._replace(positive=masks[number])]
        alone = fit_svms(
            rows,
            tasks.__getitem__,
            1,
            start=own if from_weights else None,
            tolerance=1e-5,
        )
        np.testing.assert_allclose(weights[number], alone[0][0], atol=1e-3)
        np.testing.assert_allclose(bias[number], alone[1][0], atol=1e-3)


def test_a_working_set_is_extended_by_the_worst_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows, task = problem(0)
    sizes: list[int] = []
    fit = svm._WorkingSet.fit

    def fit_and_count(self: svm._WorkingSet, *arguments: object) -> None:
        sizes.append(len(self.texts))
        fit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(svm, "WORKING_SET", 40)
    monkeypatch.setattr(svm._WorkingSet, "fit", fit_and_count)
    is_positive = np.arange(TEXTS) == np.flatnonzero(task.cost)[5]
    fit_svms(rows, lambda _: task._replace(positive=is_positive), svm.LANES)

    assert min(sizes) < 45
    assert max(sizes) < TEXTS / 2


def test_each_svm_reports_the_same_number_of_steps_whatever_its_passes() -> None:
    _, rows, task = problem(0)

    for tolerance in (1.0, 1e-5):
        steps: list[int] = []
        fit_svms(rows, lambda _: task, 3, tolerance=tolerance, advance=steps.append)
        assert sum(steps) == 3 * svm.STEPS


@pytest.mark.parametrize("svms", [9, 40])
def test_the_number_of_threads_changes_no_bit(svms: int) -> None:
    _, rows, task = problem(0)
    masks = np.random.default_rng(5).random((svms, TEXTS)) < 0.4
    results = []

    for threads in (1, 2, 4):
        with kernel_threads(threads):
            weights, bias = fit_svms(rows, lambda i: task._replace(positive=masks[i]), len(masks))
        results.append((weights.tobytes(), bias.tobytes()))

    assert results[0] == results[1] == results[2]


def test_a_fit_with_start_weights_minimizes_the_loss_plus_the_distance_from_them() -> None:
    dense, rows, task = problem(1)
    random = np.random.default_rng(2)
    start = StartWeights(random.normal(size=(1, NGRAMS)).astype("f4"), np.ones(1, "f4"))
    first = np.append(start.weights[0] / task.scale, start.biases)
    features = np.column_stack([dense * task.scale, np.ones(TEXTS)]).astype(np.float64)
    sign = np.where(task.positive, 1.0, -1.0)

    def objective(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slack = np.maximum(0, 1 - sign * (features @ values))
        loss = ((values - first) ** 2).sum() / 2 + (task.cost * slack**2).sum()
        return loss, values - first - 2 * features.T @ (task.cost * slack * sign)

    reference = minimize(objective, first, jac=True, method="L-BFGS-B", tol=1e-12).x
    weights, bias = fit_svms(rows, lambda _: task, 1, start=start, tolerance=1e-5)

    np.testing.assert_allclose(weights[0], reference[:-1] * task.scale, atol=5e-4)
    np.testing.assert_allclose(bias[0], reference[-1], atol=5e-4)
