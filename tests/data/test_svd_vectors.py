"""Word vectors by SVD, compared with loops and a full eigendecomposition."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from lamatext.data import svd_vectors
from lamatext.data.svd_vectors import count_cooccurrences, positive_pmi, train_svd_vectors
from lamatext.data.token_ids import TokenIds

WORDS = 40


def texts(count: int = 300) -> TokenIds:
    """Texts on two topics: words 2 to 19 or words 20 to 37; word 39 never occurs."""
    random = np.random.default_rng(0)
    return TokenIds.from_lists(
        2 + 18 * (number % 2) + random.integers(0, 18, random.integers(0, 30), dtype=np.int32)
        for number in range(count)
    )


def counts_by_loops(rows: TokenIds) -> NDArray[np.float64]:
    total = np.zeros((WORDS, WORDS))
    for row in range(len(rows)):
        for i, one in enumerate(rows[row]):
            for j, other in enumerate(rows[row]):
                if 0 < abs(i - j) <= svd_vectors.WINDOW:
                    total[one, other] += 1 / abs(i - j)
    return total


@pytest.mark.parametrize("chunk", [1 << 20, 50])
def test_cooccurrences_are_those_of_the_loops_for_any_chunk(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svd_vectors, "CHUNK", chunk)

    counts = count_cooccurrences(texts(60), WORDS).toarray()

    np.testing.assert_allclose(counts, counts_by_loops(texts(60)), rtol=1e-5)


def test_positive_pmi_equals_the_formula_written_out() -> None:
    counts = np.array([[4.0, 1, 0], [1, 0, 3], [0, 3, 1]])
    words = counts.sum(axis=1)
    smooth = words**0.75 / (words**0.75).sum()
    with np.errstate(divide="ignore"):
        expected = np.log(counts / words.sum())
    for share in (words / words.sum(), smooth):
        expected -= (np.log(share)[:, None] + np.log(share)) / 2
    expected = np.maximum(expected, 0)

    np.testing.assert_allclose(positive_pmi(csr_matrix(counts)).toarray(), expected, rtol=1e-6)


def test_inner_products_of_vectors_are_the_best_approximation_of_pmi() -> None:
    rows, width = texts(), 30
    matrix = positive_pmi(count_cooccurrences(rows, WORDS)).toarray().astype(np.float64)
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argsort(-np.abs(values))[:width]
    expected = vectors[:, largest] * np.abs(values[largest]) @ vectors[:, largest].T

    found = svd_vectors._largest_singular_vectors(
        csr_matrix(matrix.astype(np.float32)), width, np.random.default_rng(0)
    )

    np.testing.assert_allclose(found @ found.T, expected, atol=1e-4)


def test_words_of_one_topic_are_nearer_to_each_other() -> None:
    vectors = train_svd_vectors(texts(), WORDS, 10, seed=0)

    unit = vectors[2:38] / np.linalg.norm(vectors[2:38], axis=1, keepdims=True)
    similar = unit @ unit.T
    assert similar[:18, :18].mean() > similar[:18, 18:].mean() + 0.2
    assert not vectors[39].any()
    np.testing.assert_allclose(np.linalg.norm(vectors[2:38], axis=1), svd_vectors.NORM, rtol=1e-5)


def test_vectors_do_not_depend_on_the_number_of_threads() -> None:
    results = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            results.append(train_svd_vectors(texts(), WORDS, 10, seed=3).tobytes())

    assert results[0] == results[1] == results[2]


def test_many_words_are_thinned_out_and_no_words_give_no_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(svd_vectors, "SVD_WORDS", 500)

    thinned = svd_vectors._thin_out(texts(), WORDS, np.random.default_rng(0))

    assert 0 < len(thinned.ids) <= 700
    for rows in (TokenIds.from_lists([]), TokenIds.from_lists([[2], []])):
        assert not train_svd_vectors(rows, WORDS, 10, seed=0).any()
    assert train_svd_vectors(texts(), WORDS, 100, seed=0).shape == (WORDS, 100)
