"""Word vectors from co-occurrence counts: a truncated SVD of pointwise mutual information.

Levy, Goldberg & Dagan (2015): count how often a word w occurs near a word c (weight 1/distance)
and factorize the positive pointwise mutual information (PPMI), with smoothed contexts,

    M = max(0, ln P(w, c) − ½ ln P(w) P_α(c) P_α(w) P(c)),        P_α(c) ∝ count(c)^α

a symmetric matrix, by its largest singular values. This is much cheaper than word2vec and gives the
same vectors for any number of threads.  Shapes: V words, E vector width.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import coo_matrix, csr_matrix
from threadpoolctl import threadpool_limits

from lamatext.data.token_ids import TokenIds

SVD_WORDS = 4_000_000  # words that are counted; more would cost time and change little
WINDOW = 8  # words to each side, after frequent words are thinned out
SMOOTHING = 0.75  # α: frequent words are weaker evidence as context
SUBSAMPLE = 1e-4  # words with a higher relative frequency are skipped at random
CHUNK = 1 << 20  # words counted at once, to bound the memory
OVERSAMPLING, ITERATIONS = 10, 4  # of the randomized SVD (Halko, Martinsson & Tropp 2011)
NORM = 3.0  # Euclidean norm of each word vector


def train_svd_vectors(rows: TokenIds, size: int, width: int, seed: int) -> NDArray[np.float32]:
    """Train word vectors by an SVD of the word co-occurrence counts in the texts.

    The shape is (V, E), with V = ``size``. A word that occurs near no other word has a zero vector.
    """
    generator = np.random.default_rng(seed)
    matrix = positive_pmi(count_cooccurrences(_thin_out(rows, size, generator), size))
    vectors = np.zeros((size, width), np.float32)
    with threadpool_limits(1):  # the result must not depend on the number of threads
        largest = _largest_singular_vectors(matrix, min(width, size), generator)
    known = np.diff(matrix.indptr) > 0
    length = np.maximum(np.linalg.norm(largest, axis=1), 1e-12)
    vectors[known, : largest.shape[1]] = (NORM * largest / length[:, None])[known]
    return vectors


def count_cooccurrences(rows: TokenIds, size: int) -> csr_matrix:
    """Count word co-occurrences, weighted by 1/distance, as a symmetric matrix (V, V)."""
    total = csr_matrix((size, size), dtype=np.float32)
    first = 0
    while first < len(rows):
        last = int(np.searchsorted(rows.offsets, rows.offsets[first] + CHUNK, side="right")) - 1
        last = max(first + 1, last)
        ids = rows.ids[rows.offsets[first] : rows.offsets[last]]
        text = np.repeat(np.arange(last - first), rows.lengths[first:last])
        for distance in range(1, WINDOW + 1):
            same = text[distance:] == text[:-distance]
            pairs = ids[:-distance][same], ids[distance:][same]
            weights = np.full(len(pairs[0]), 1 / distance, np.float32)
            total += coo_matrix((weights, pairs), shape=(size, size)).tocsr()
        first = last
    return total + total.T


def positive_pmi(counts: csr_matrix) -> csr_matrix:
    """Compute the positive pointwise mutual information of co-occurrence counts (V, V)."""
    matrix = counts.tocoo()
    words = np.asarray(counts.sum(axis=1), np.float64).ravel()  # (V,)
    contexts = words**SMOOTHING
    share = np.sqrt(words * contexts / max(contexts.sum(), 1e-12))
    expected = share[matrix.row] * share[matrix.col]
    pmi = np.log(matrix.data / expected)
    keep = pmi > 0
    parts = (pmi[keep].astype(np.float32), (matrix.row[keep], matrix.col[keep]))
    return coo_matrix(parts, shape=counts.shape).tocsr()


def _thin_out(rows: TokenIds, size: int, generator: np.random.Generator) -> TokenIds:
    """Subsample texts and frequent words at random before training SVD word vectors."""
    if len(rows.ids) > SVD_WORDS:
        count = int(len(rows) * SVD_WORDS / len(rows.ids))
        rows = rows.take(np.sort(generator.permutation(len(rows))[:count]))
    frequency = np.bincount(rows.ids, minlength=size) / max(1, len(rows.ids))
    keep = np.sqrt(SUBSAMPLE / np.maximum(frequency, 1e-12))  # (V,) probabilities if below 1
    return rows.filter(generator.random(len(rows.ids), np.float32) < keep[rows.ids])


def _largest_singular_vectors(
    matrix: csr_matrix, width: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Return the word vectors U·√Σ (V, width) from a truncated SVD of a symmetric matrix."""
    columns = min(width + OVERSAMPLING, matrix.shape[0])
    basis = generator.standard_normal((matrix.shape[0], columns), np.float32)
    for _ in range(ITERATIONS):
        basis = linalg.qr(matrix @ basis, mode="economic", check_finite=False)[0]
    values, rotation = np.linalg.eigh(basis.T @ (matrix @ basis))
    order = np.argsort(-np.abs(values))[:width]
    scaled: NDArray[np.float32] = basis @ rotation[:, order] * np.sqrt(np.abs(values[order]))
    return scaled
