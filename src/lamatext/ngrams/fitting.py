"""Fitting the n-gram model: TF-IDF n-grams, weighted by naive Bayes, into a linear SVM.

Wang & Manning (2012): with p the counts of the texts of a class that have an n-gram and q those of
the other texts (each plus one), r = ln(p/‖p‖₁) − ln(q/‖q‖₁); the n-gram's values are multiplied by
sign(r)·|r|^power before the fit, and the fitted weight by the same after it.
Shapes: n texts, K n-grams, C classes.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from lamatext.ngrams.hashing import Counts, NgramSpec, count_ngrams
from lamatext.ngrams.model import Block, Floats, NgramModel, Words, specs
from lamatext.progress import SILENT, Progress
from lamatext.settings import NgramSettings

Labels = NDArray[np.int64]


def fit_ngrams(
    texts: Sequence[Words],
    labels: Labels,
    settings: NgramSettings,
    *,
    classes: int,
    class_weights: NDArray[np.float32] | None = None,
    progress: Progress = SILENT,
) -> NgramModel:
    """The linear model on the n-grams of ``texts`` (n), each given as its words."""
    rows = 1 if classes == 2 else classes
    counted = [(spec, count_ngrams(texts, spec)) for spec in specs(settings)]
    tables = _tables(counted, bytes_each=5 + rows, limit=settings.max_megabytes * 1e6)
    blocks = [
        _blank(spec, keys, df, len(texts), rows)
        for (spec, _), (keys, df) in zip(counted, tables, strict=True)
    ]
    features = [_matrix(block, counts) for block, (_, counts) in zip(blocks, counted, strict=True)]
    values = hstack(features, format="csr")
    weights, bias = np.zeros((rows, values.shape[1])), np.zeros(rows, np.float32)
    progress.stage("fitting the n-grams", rows)
    for row in range(rows):
        positive = labels == (row if rows > 1 else 1)
        weights[row], bias[row] = _fit_row(values, positive, labels, settings, class_weights)
        progress.advance()
    ends = np.cumsum([len(block.keys) for block in blocks])[:-1]
    parts = np.split(weights, ends, axis=1)
    return NgramModel(
        tuple(_filled(block, part) for block, part in zip(blocks, parts, strict=True)), bias
    )


def _tables(
    counted: Sequence[tuple[NgramSpec, Counts]], *, bytes_each: int, limit: float
) -> list[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Each block's n-grams and how many texts have them, by the least frequency that fits."""
    found = [np.unique(counts.keys, return_counts=True) for _, counts in counted]
    least = 1
    while sum(int((df >= least).sum()) for _, df in found) * bytes_each > limit:
        least += 1
    return [(keys[df >= least], df[df >= least]) for keys, df in found]


def _blank(
    spec: NgramSpec, keys: NDArray[np.uint32], df: NDArray[np.int64], texts: int, rows: int
) -> Block:
    """A block that knows its n-grams and their idf = ln((1 + n) / (1 + df)) + 1, not weights."""
    idf = np.log((1 + texts) / (1 + df)) + 1
    step = np.float32(idf.max(initial=1) / 255)
    return Block(
        spec=spec,
        keys=keys,
        idf=np.maximum(np.rint(idf / step), 1).astype(np.uint8),
        weights=np.zeros((rows, len(keys)), np.int8),
        idf_step=np.asarray(step),
        steps=np.ones(rows, np.float32),
    )


def _matrix(block: Block, counts: Counts) -> csr_matrix:
    """The texts' values, divided by their norms: (n, K)."""
    place, values = block.values(counts.keys, counts.counts)
    owner = np.repeat(np.arange(len(counts.offsets) - 1), np.diff(counts.offsets))
    known = values > 0
    shape = (len(counts.offsets) - 1, len(block.keys))
    norm = np.sqrt(np.bincount(owner, values.astype(np.float64) ** 2, shape[0]))
    scaled = (values / np.maximum(norm, 1e-12)[owner])[known]
    return csr_matrix((scaled, (owner[known], place[known])), shape=shape)


def _fit_row(
    values: csr_matrix,
    positive: NDArray[np.bool_],
    labels: Labels,
    settings: NgramSettings,
    class_weights: NDArray[np.float32] | None,
) -> tuple[NDArray[np.float64], float]:
    """The weights (K,) and the constant that tell one class from the rest."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    ratio = naive_bayes_ratio(values, positive)
    scale = np.sign(ratio) * np.abs(ratio) ** settings.naive_bayes_power
    scaled = values.copy()
    scaled.data *= scale[scaled.indices]
    machine = LinearSVC(C=settings.svm_c, max_iter=300, random_state=0)
    each = None if class_weights is None else class_weights[labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(scaled, positive, sample_weight=each)
    return machine.coef_[0] * scale, float(machine.intercept_[0])


def naive_bayes_ratio(values: csr_matrix, positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """R = ln(p/‖p‖₁) − ln(q/‖q‖₁), on whether a text has the n-gram, plus one: (K,)."""
    has = values.sign()
    p = 1 + np.asarray(has[positive].sum(axis=0)).ravel()
    q = 1 + np.asarray(has[~positive].sum(axis=0)).ravel()
    ratio: NDArray[np.float64] = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratio


def _filled(block: Block, weights: NDArray[np.float64]) -> Block:
    """The block with its weights in int8, each row in steps of its largest over 127."""
    steps = np.abs(weights).max(axis=1, initial=1e-12) / 127
    rounded = np.rint(weights / steps[:, None]).astype(np.int8)
    small: Floats = steps.astype(np.float32)
    return Block(block.spec, block.keys, block.idf, rounded, block.idf_step, small)
