"""Fitting of the n-gram model: TF-IDF n-grams, weighted by naive Bayes ratios, in a linear SVM.

Wang & Manning (2012): let p count the texts of a class that contain an n-gram and q the other texts
that contain it (each plus one), and r = ln(p/‖p‖₁) − ln(q/‖q‖₁). The n-gram's values are multiplied
by sign(r)·|r|^power before the fit, and its fitted weight by the same factor afterwards.
Shapes: n texts, K n-grams, C classes.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from lamatext.ngrams.hashing import NgramCounts, NgramSpec, count_ngrams
from lamatext.ngrams.model import Floats, NgramModel, NgramTable, Words, ngram_specs
from lamatext.progress import SILENT, Progress
from lamatext.settings import NgramSettings

Labels = NDArray[np.int64]


def fit_ngrams(  # noqa: PLR0913 - data, its weights, and settings
    texts: Sequence[Words],
    labels: Labels,
    settings: NgramSettings,
    *,
    classes: int,
    class_weights: NDArray[np.float32] | None = None,
    sample_weight: NDArray[np.float32] | None = None,
    progress: Progress = SILENT,
) -> NgramModel:
    """Fit an n-gram model to labelled texts, each given as a list of words.

    Args:
        texts: words of each text.
        labels: class index of each text.
        settings: which n-grams, and the strength of the fit.
        classes: number of classes.
        class_weights: weight of each class in the SVM's loss.
        sample_weight: weight of each text; an integer weight equals repeating the text.
        progress: receives one step per fitted class.
    """
    rows = 1 if classes == 2 else classes
    counted = [(spec, count_ngrams(texts, spec)) for spec in ngram_specs(settings)]
    selected = _select_ngrams(
        [counts for _, counts in counted],
        sample_weight,
        bytes_per_ngram=5 + rows,
        max_bytes=settings.max_megabytes * 1e6,
    )
    total = len(texts) if sample_weight is None else float(sample_weight.sum())
    tables = [
        _table_without_weights(spec, keys, frequency, total, rows)
        for (spec, _), (keys, frequency) in zip(counted, selected, strict=True)
    ]
    features = [
        _features(table, counts) for table, (_, counts) in zip(tables, counted, strict=True)
    ]
    values = hstack(features, format="csr")
    svm_weight = _svm_weight(labels, class_weights, sample_weight)
    weights, bias = np.zeros((rows, values.shape[1])), np.zeros(rows, np.float32)
    progress.stage("fitting the n-grams", rows)
    for row in range(rows):
        positive = labels == (row if rows > 1 else 1)
        ratio = naive_bayes_ratio(values, positive, sample_weight)
        weights[row], bias[row] = _fit_svm(values, positive, ratio, svm_weight, settings)
        progress.advance()
    ends = np.cumsum([len(table.keys) for table in tables])[:-1]
    parts = np.split(weights, ends, axis=1)
    return NgramModel(
        tuple(_with_weights(table, part) for table, part in zip(tables, parts, strict=True)), bias
    )


def _select_ngrams(
    counted: Sequence[NgramCounts],
    sample_weight: NDArray[np.float32] | None,
    *,
    bytes_per_ngram: int,
    max_bytes: float,
) -> list[tuple[NDArray[np.uint32], NDArray[np.float64]]]:
    """Select the n-grams to fit, dropping the rarest until the n-gram tables fit their size limit.

    The limit for all tables together is ``max_bytes``.

    Returns:
        For each table the keys and their (weighted) document frequencies.
    """
    found = [_document_frequencies(counts, sample_weight) for counts in counted]
    least = 1
    while sum(int((texts >= least).sum()) for _, texts, _ in found) * bytes_per_ngram > max_bytes:
        least += 1
    return [(keys[texts >= least], frequency[texts >= least]) for keys, texts, frequency in found]


def _document_frequencies(
    counts: NgramCounts, sample_weight: NDArray[np.float32] | None
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.float64]]:
    """Count in how many training texts each n-gram occurs, with and without sample weights.

    Return the distinct n-grams, the counts and the weighted counts.
    """
    if sample_weight is None:
        keys, texts = np.unique(counts.keys, return_counts=True)
        return keys, texts, texts.astype(np.float64)
    weights = np.repeat(sample_weight.astype(np.float64), np.diff(counts.offsets))  # of each n-gram
    keys, place = np.unique(counts.keys, return_inverse=True)
    texts = np.bincount(place[weights > 0], minlength=len(keys))
    frequency = np.bincount(place, weights, len(keys)).astype(np.float64)
    return keys, texts, frequency


def _table_without_weights(
    spec: NgramSpec,
    keys: NDArray[np.uint32],
    frequency: NDArray[np.float64],
    texts: float,
    rows: int,
) -> NgramTable:
    """Create an n-gram table for fitting, with inverse document frequencies but no weights.

    The idf of an n-gram is ln((1 + n) / (1 + df)) + 1.
    """
    idf = np.log((1 + texts) / (1 + frequency)) + 1
    step = np.float32(idf.max(initial=1) / 255)
    return NgramTable(
        spec=spec,
        keys=keys,
        idf=np.maximum(np.rint(idf / step), 1).astype(np.uint8),
        weights=np.zeros((rows, len(keys)), np.int8),
        idf_step=np.asarray(step),
        steps=np.ones(rows, np.float32),
    )


def _features(table: NgramTable, counts: NgramCounts) -> csr_matrix:
    """Compute the normalized TF-IDF features of the texts for fitting the n-gram model.

    The shape is (n, K).
    """
    place, values = table.tfidf(counts.keys, counts.counts)
    owner = np.repeat(np.arange(len(counts.offsets) - 1), np.diff(counts.offsets))
    known = values > 0
    shape = (len(counts.offsets) - 1, len(table.keys))
    norm = np.sqrt(np.bincount(owner, values.astype(np.float64) ** 2, shape[0]))
    scaled = (values / np.maximum(norm, 1e-12)[owner])[known]
    return csr_matrix((scaled, (owner[known], place[known])), shape=shape)


def _svm_weight(
    labels: Labels,
    class_weights: NDArray[np.float32] | None,
    sample_weight: NDArray[np.float32] | None,
) -> NDArray[np.float32] | None:
    if class_weights is None:
        return sample_weight
    by_class: NDArray[np.float32] = class_weights[labels]
    return by_class if sample_weight is None else by_class * sample_weight


def _fit_svm(
    values: csr_matrix,
    positive: NDArray[np.bool_],
    ratio: NDArray[np.float64],
    weight: NDArray[np.float32] | None,
    settings: NgramSettings,
) -> tuple[NDArray[np.float64], float]:
    """Fit a linear SVM on n-gram features to separate one class from the rest.

    Return the weights (K,) and the bias.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    scale = np.sign(ratio) * np.abs(ratio) ** settings.naive_bayes_power
    scaled = values.copy()
    scaled.data *= scale[scaled.indices]
    svm = LinearSVC(C=settings.svm_c, max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(scaled, positive, sample_weight=weight)
    return svm.coef_[0] * scale, float(svm.intercept_[0])


def naive_bayes_ratio(
    values: csr_matrix,
    positive: NDArray[np.bool_],
    sample_weight: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """Compute the naive Bayes log-count ratio of each n-gram, which scales the features to fit.

    It is r = ln(p/‖p‖₁) − ln(q/‖q‖₁), of shape (K,).
    """
    present = values.sign()
    if sample_weight is not None:
        present = present.multiply(sample_weight[:, None]).tocsr()
    p = 1 + np.asarray(present[positive].sum(axis=0)).ravel()
    q = 1 + np.asarray(present[~positive].sum(axis=0)).ravel()
    ratio: NDArray[np.float64] = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratio


def _with_weights(table: NgramTable, weights: NDArray[np.float64]) -> NgramTable:
    """Return an n-gram table with its fitted weights quantized to int8.

    The largest weight of a row is 127 steps.
    """
    steps = np.abs(weights).max(axis=1, initial=1e-12) / 127
    rounded = np.rint(weights / steps[:, None]).astype(np.int8)
    small: Floats = steps.astype(np.float32)
    return NgramTable(table.spec, table.keys, table.idf, rounded, table.idf_step, small)
