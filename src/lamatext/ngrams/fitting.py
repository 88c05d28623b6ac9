"""Fitting of the n-gram model: TF-IDF n-grams, weighted by naive Bayes ratios, in a linear SVM.

Wang & Manning (2012): let p count the texts of a class that contain an n-gram and q the other texts
that contain it (each plus one), and r = ln(p/‖p‖₁) − ln(q/‖q‖₁). The n-gram's values are multiplied
by |r|^power before the fit, and its fitted weight by the same factor afterwards.

The n-grams of tokenized texts are counted by the hash keys of ``ngrams/hashing.py`` in compiled
code, which hashes each distinct word only once.
Shapes: n texts, K n-grams, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.tokenizer import TokenizedTexts
from lamatext.kernels.numba_compat import compiled
from lamatext.ngrams.hashing import (
    BASE,
    KeyBuckets,
    NgramCounts,
    NgramSpec,
    WordHashes,
    count_ngrams,
    hash_words,
)
from lamatext.ngrams.model import ClassMixture, Floats, NgramModel, NgramTable, Words, ngram_specs
from lamatext.ngrams.svm import STEPS, BinaryTask, SparseRows, StartWeights, fit_svms
from lamatext.progress import SILENT, Progress
from lamatext.settings import NgramSettings

Labels = NDArray[Any]  # (n,) class indices, or (n, L) 0/1 for each label
Rows = NDArray[np.int64]
BLOCK = 50_000  # texts whose n-grams are counted at once for document frequencies
MAX_COUNT = 65_535  # of an n-gram in a text; larger counts are cut to it
FREQUENT = 100_000  # document frequencies are distinguished up to this value


class Frequencies(NamedTuple):
    """Document frequencies of n-grams in all texts, for fitting a model to a sample of texts."""

    tables: tuple[tuple[NDArray[np.uint32], Rows], ...]  # n-grams, ascending; number of texts
    texts: int


@dataclass(frozen=True, slots=True)
class CountedTexts:
    """N-gram counts of texts, the input for fitting n-gram models."""

    counts: tuple[tuple[NgramSpec, NgramCounts], ...]  # of each table, for all texts
    rows: Rows  # the selected texts
    frequencies: "Frequencies | None" = None  # in more texts; None counts in the selected ones

    @classmethod
    def from_tokens(cls, tokens: TokenizedTexts, settings: NgramSettings) -> "CountedTexts":
        """Count the n-grams of tokenized texts, in preparation for fitting."""
        counts = [(spec, count_tokens(tokens, spec)) for spec in ngram_specs(settings)]
        return cls(tuple(counts), np.arange(len(tokens.rows)))

    @classmethod
    def from_sample(
        cls, tokens: TokenizedTexts, sample: Rows, texts: int, settings: NgramSettings
    ) -> "CountedTexts":
        """Count the n-grams of a sample for fitting, and their document frequencies in all texts.

        The document frequencies are those of the first ``texts`` texts, in bounded memory, of the
        n-grams that occur in two texts of the sample.
        """
        counted = cls.from_tokens(TokenizedTexts(tokens.types, tokens.rows.take(sample)), settings)
        tokens.rows.release_pages()
        by_table = []
        for spec, counts in counted.counts:
            ascending = _sorted_keys(counts, counted.rows)
            known = np.unique(ascending[1:][ascending[1:] == ascending[:-1]])
            by_table.append((known, document_frequencies(tokens, texts, spec, known)))
        return replace(counted, frequencies=Frequencies(tuple(by_table), texts))

    @classmethod
    def from_words(cls, texts: Sequence[Words], settings: NgramSettings) -> "CountedTexts":
        """Count the n-grams of texts given as lists of words, in preparation for fitting."""
        counts = [(spec, count_ngrams(texts, spec)) for spec in ngram_specs(settings)]
        return cls(tuple(counts), np.arange(len(texts)))

    def take(self, rows: Rows) -> "CountedTexts":
        """Return the n-gram counts of a subset of the texts without copying them."""
        return replace(self, rows=self.rows[rows])


def count_tokens(
    tokens: TokenizedTexts, spec: NgramSpec, hashes: WordHashes | None = None
) -> NgramCounts:
    """Count the n-grams of each tokenized text by hash key.

    The counts are those of ``count_ngrams``, up to ``MAX_COUNT``. ``hashes`` are the hashes of the
    distinct words; None computes them.
    """
    rows, hashes = tokens.rows, hashes or hash_words(tokens.types, spec)
    ends = rows.offsets * spec.words  # upper bounds of the n-grams up to each text
    if spec.chars is not None:
        characters = np.diff(hashes.offsets)[rows.ids]
        ends = ends + np.concatenate([[0], np.cumsum(characters)])[rows.offsets]
    keys, counts = np.empty(ends[-1], np.uint32), np.empty(ends[-1], np.uint16)
    buffer = np.empty(np.diff(ends).max(initial=0), np.uint32)
    offsets = np.zeros(len(rows) + 1, np.int64)
    texts = (np.asarray(rows.ids), np.asarray(rows.offsets))
    size = count_keys(hashes, *texts, spec.words, buffer, NgramCounts(keys, counts, offsets))
    return NgramCounts(keys[:size], counts[:size], offsets)


@compiled
def count_keys(
    hashes: WordHashes,
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    longest: int,
    buffer: NDArray[np.uint32],
    counted: NgramCounts,
) -> int:  # pragma: no cover
    """Count the n-grams of tokenized texts per hash key and store the counts in ``counted``.

    ``buffer`` has room for all n-grams of any text.
    """
    size = 0
    for i in range(len(offsets) - 1):
        words = ids[offsets[i] : offsets[i + 1]]
        keys = buffer[: collect_keys(hashes, words, longest, buffer)]
        keys.sort()
        start = 0
        for k in range(1, len(keys) + 1):
            if k == len(keys) or keys[k] != keys[start]:
                counted.keys[size], counted.counts[size] = keys[start], min(k - start, MAX_COUNT)
                size += 1
                start = k
        counted.offsets[i + 1] = size
    return size


@compiled
def collect_keys(
    hashes: WordHashes, words: NDArray[np.int32], longest: int, buffer: NDArray[np.uint32]
) -> int:  # pragma: no cover
    """Write the hash key of every n-gram of a tokenized text to ``buffer`` and return the count."""
    size = 0
    for first in range(len(words)):
        rolled = np.uint32(0)
        for n in range(1, min(longest, len(words) - first) + 1):
            own = hashes.sums[words[first + n - 1]]
            rolled = np.uint32(rolled * BASE + mix_bits(own))
            buffer[size] = mix_bits(own if n == 1 else rolled)
            size += 1
        for k in range(hashes.offsets[words[first]], hashes.offsets[words[first] + 1]):
            buffer[size] = hashes.characters[k]
            size += 1
    return size


@compiled
def mix_bits(h: np.uint32) -> np.uint32:  # pragma: no cover
    """Mix the bits of an n-gram hash like ``ngrams.hashing.mix``, but in compiled code."""
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


def fit_ngrams(  # noqa: PLR0913 - data, its weights, and settings
    texts: Sequence[Words] | CountedTexts,
    labels: Labels,
    settings: NgramSettings,
    *,
    classes: int,
    class_weights: NDArray[np.float32] | None = None,
    sample_weight: NDArray[np.float32] | None = None,
    start: NgramModel | None = None,
    mixture: ClassMixture | None = None,
    progress: Progress = SILENT,
) -> NgramModel:
    """Fit an n-gram model to labelled texts.

    Args:
        texts: words of each text, or their counted n-grams.
        labels: class index of each text (n,), or 0/1 for each label (n, L).
        settings: which n-grams, and the strength of the fit.
        classes: number of classes.
        class_weights: weight of each class, or of the texts that have a label, in the SVM's loss.
        sample_weight: weight of each text; an integer weight equals repeating the text.
        start: a model fitted to other texts, with a row of weights for each SVM. Its n-grams and
            their idf are kept as far as the size limit allows, n-grams of the texts are added, and
            the penalty of the fit is the distance from its weights. If a text may have several
            labels, a label that no text has keeps its weights.
        mixture: map of the class logits that is applied to the fitted weights; None leaves them.
        progress: receives the steps of the fit.
    """
    if not isinstance(texts, CountedTexts):
        texts = CountedTexts.from_words(texts, settings)
    svms = 1 if classes == 2 and labels.ndim == 1 else classes
    progress.stage("fitting the n-grams", STEPS * svms)
    max_bytes = float(settings.max_megabytes) * 1e6
    tables = _select_tables(texts, sample_weight, svms, max_bytes, start)
    features = ngram_features(tables, texts)
    by_text = np.ones(len(labels)) if sample_weight is None else sample_weight.astype(np.float64)
    totals = weighted_frequencies(features, by_text)

    def task(number: int) -> BinaryTask:
        positive = _positive_texts(labels, number if svms > 1 else 1)
        cost = settings.svm_c * by_text * _class_weight(labels, number, class_weights)
        if start is not None and labels.ndim == 2 and not positive.any():
            cost[:] = 0
        ratio = naive_bayes_ratio(features, positive, totals, by_text)
        scale = np.abs(ratio) ** settings.naive_bayes_power  # the sign cancels out
        return BinaryTask(positive, cost, scale.astype(np.float32))

    old = None if start is None else _start_weights(start, tables)
    weights, bias = fit_svms(features, task, svms, start=old, advance=progress.advance)
    if mixture is not None:
        weights, bias = mixture.apply_to_weights(weights, bias)
    parts = np.split(weights, np.cumsum([len(table.keys) for table in tables])[:-1], axis=1)
    return NgramModel(
        tuple(_with_weights(table, part) for table, part in zip(tables, parts, strict=True)), bias
    )


class _Selected(NamedTuple):
    """N-grams selected for one table of the fitted model, with their document frequencies."""

    keys: NDArray[np.uint32]  # ascending
    frequency: NDArray[np.float64]


def _select_tables(
    texts: CountedTexts,
    sample_weight: NDArray[np.float32] | None,
    svms: int,
    max_bytes: float,
    start: NgramModel | None = None,
) -> list[NgramTable]:
    """Select the n-grams to fit, dropping the rarest ones to stay within the size limit.

    The limit for all tables together is ``max_bytes``.
    """
    if texts.frequencies is not None:
        return _tables_of_frequencies(texts, texts.frequencies, svms, max_bytes)
    total = len(texts.rows) if sample_weight is None else float(sample_weight.sum())
    used = texts.rows if sample_weight is None else texts.rows[sample_weight > 0]
    ascending = [_sorted_keys(counts, used) for _, counts in texts.counts]
    # (tables, FREQUENT + 1): the number of n-grams in at least 0, 1, 2, … texts
    at_least = np.stack([frequency_histogram(keys)[::-1].cumsum()[::-1] for keys in ascending])
    least = _least_frequency(at_least, svms, max_bytes)
    selected = []
    for (_, counts), keys, sizes in zip(texts.counts, ascending, at_least, strict=True):
        distinct, frequency = np.empty(sizes[least], np.uint32), np.empty(sizes[least])
        copy_frequent(keys, least, distinct, frequency)
        if sample_weight is not None:
            frequency = _weighted_frequency(distinct, counts, texts.rows, sample_weight)
        selected.append(_Selected(distinct, frequency))
    if start is not None:
        return _merge_tables(start, selected, total, int(max_bytes / (5 + svms)))
    return [
        _table_without_weights(spec, keys, _idf(frequency, total), svms)
        for (spec, _), (keys, frequency) in zip(texts.counts, selected, strict=True)
    ]


def _merge_tables(
    start: NgramModel, selected: Sequence[_Selected], texts: float, limit: int
) -> list[NgramTable]:
    """Merge the n-gram tables of a fitted model with the n-grams of new texts.

    An n-gram of the model keeps its idf. The idf of a new n-gram counts the model's texts as texts
    without it; their number follows from the largest idf, which is that of an n-gram seen once. If
    there are more than ``limit`` n-grams in all, the rarest are dropped.
    """
    merged = []
    for old, new in zip(start.tables, selected, strict=True):
        idf = old.idf * old.idf_step.astype(np.float64)
        old_texts = 2 * np.exp(idf.max(initial=1) - 1) - 1
        keys = np.union1d(old.keys, new.keys)
        is_old, from_new = np.searchsorted(keys, old.keys), np.searchsorted(keys, new.keys)
        frequency = np.zeros(len(keys))
        frequency[from_new] = new.frequency
        all_idf = _idf(frequency, old_texts + texts)
        all_idf[is_old] = idf
        frequency[is_old] += (1 + old_texts) * np.exp(1 - idf) - 1
        merged.append((old, keys, all_idf, frequency))
    by_frequency = np.sort(np.concatenate([frequency for *_, frequency in merged]))
    least = by_frequency[-limit] if 0 < limit < len(by_frequency) else -np.inf
    tables = []
    for old, keys, all_idf, frequency in merged:
        is_kept = frequency > least if least > -np.inf else np.ones(len(keys), bool)
        table = _table_without_weights(old.spec, keys[is_kept], all_idf[is_kept], len(old.weights))
        tables.append(table)
    return tables


def _start_weights(start: NgramModel, tables: Sequence[NgramTable]) -> StartWeights:
    """Look up the weights of an earlier n-gram model as initial weights for fitting."""
    parts = []
    for old, table in zip(start.tables, tables, strict=True):
        weights = np.zeros((len(old.weights), len(table.keys)), np.float32)
        _, place, source = np.intersect1d(
            table.keys, old.keys, assume_unique=True, return_indices=True
        )
        weights[:, place] = old.weights[:, source] * old.steps[:, None]
        parts.append(weights)
    return StartWeights(np.concatenate(parts, axis=1), start.bias)


def _least_frequency(at_least: NDArray[np.int64], svms: int, max_bytes: float) -> int:
    """Return the minimum document frequency of n-grams that keeps tables within ``max_bytes``.

    ``at_least`` has a row per table: its number of n-grams in at least 0, 1, 2, … texts.
    """
    fits = at_least.sum(axis=0) * (5 + svms) <= max_bytes
    return 1 + int(np.argmax(fits[1:])) if fits[1:].any() else FREQUENT


def _tables_of_frequencies(
    texts: CountedTexts, frequencies: Frequencies, svms: int, max_bytes: float
) -> list[NgramTable]:
    """Select the n-grams to fit by their document frequencies in all texts."""
    histograms = [
        np.bincount(np.minimum(counts, FREQUENT), minlength=FREQUENT + 1)
        for _, counts in frequencies.tables
    ]
    at_least = np.stack([histogram[::-1].cumsum()[::-1] for histogram in histograms])
    least = _least_frequency(at_least, svms, max_bytes)
    tables = []
    for (spec, _), (keys, counts) in zip(texts.counts, frequencies.tables, strict=True):
        kept = counts >= least
        idf = _idf(counts[kept].astype(np.float64), frequencies.texts)
        tables.append(_table_without_weights(spec, keys[kept], idf, svms))
    return tables


def document_frequencies(
    tokens: TokenizedTexts, texts: int, spec: NgramSpec, known: NDArray[np.uint32]
) -> Rows:
    """Count in how many of the first ``texts`` texts each known n-gram occurs.

    The texts are counted block by block, so memory does not grow with their number.
    """
    hashes, totals = hash_words(tokens.types, spec), np.zeros(len(known), np.int64)
    buckets, shift = KeyBuckets.of(known)
    for first in range(0, texts, BLOCK):
        rows = tokens.rows.take(np.arange(first, min(first + BLOCK, texts)))
        counted = count_tokens(TokenizedTexts(tokens.types, rows), spec, hashes)
        add_known(counted.keys, known, buckets, shift, totals)
        tokens.rows.release_pages()
    return totals


@compiled
def add_known(
    keys: NDArray[np.uint32],
    known: NDArray[np.uint32],
    buckets: NDArray[np.int32],
    shift: np.uint32,
    totals: NDArray[np.int64],
) -> None:  # pragma: no cover
    """Increment the document frequency of each known n-gram that occurs in ``keys``."""
    for k in range(len(keys)):
        place, end = buckets[keys[k] >> shift], buckets[(keys[k] >> shift) + 1]
        while place < end and known[place] < keys[k]:
            place += 1
        if place < end and known[place] == keys[k]:
            totals[place] += 1


def _sorted_keys(counts: NgramCounts, rows: Rows) -> NDArray[np.uint32]:
    """Return the n-gram keys of the given texts in sorted order, each key once per text."""
    ends = np.concatenate([[0], np.cumsum(np.diff(counts.offsets)[rows])])
    keys = np.empty(ends[-1], np.uint32)
    copy_rows(counts.keys, counts.offsets, rows, ends, keys)
    keys.sort()
    return keys


def _weighted_frequency(
    distinct: NDArray[np.uint32], counts: NgramCounts, rows: Rows, weight: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Compute weighted document frequencies of n-grams by summing sample weights."""
    frequency = np.zeros(len(distinct))
    buckets, shift = KeyBuckets.of(distinct)
    add_weights(counts.keys, counts.offsets, rows, weight, distinct, buckets, shift, frequency)
    return frequency


@compiled
def add_weights(  # noqa: PLR0913 - texts, n-grams and their index
    keys: NDArray[np.uint32],
    offsets: Rows,
    rows: Rows,
    weight: NDArray[np.float32],
    known: NDArray[np.uint32],
    buckets: NDArray[np.int32],
    shift: np.uint32,
    totals: NDArray[np.float64],
) -> None:  # pragma: no cover
    """Add the weight of each text to the totals of the known n-grams that it contains."""
    for i in range(len(rows)):
        for k in range(offsets[rows[i]], offsets[rows[i] + 1]):
            place, end = buckets[keys[k] >> shift], buckets[(keys[k] >> shift) + 1]
            while place < end and known[place] < keys[k]:
                place += 1
            if place < end and known[place] == keys[k]:
                totals[place] += np.float64(weight[i])


@compiled
def frequency_histogram(keys: NDArray[np.uint32]) -> NDArray[np.int64]:  # pragma: no cover
    """Compute a histogram of document frequencies from the sorted n-gram keys of all texts.

    Entry f is the number of n-grams in f texts; the last entry also counts those in more texts.
    """
    histogram, start = np.zeros(FREQUENT + 1, np.int64), 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or keys[i] != keys[start]:
            histogram[min(i - start, FREQUENT)] += 1
            start = i
    return histogram


@compiled
def copy_frequent(
    keys: NDArray[np.uint32],
    least: int,
    distinct: NDArray[np.uint32],
    frequency: NDArray[np.float64],
) -> None:  # pragma: no cover
    """Copy the n-grams whose document frequency is at least ``least``."""
    size, start = 0, 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or keys[i] != keys[start]:
            if i - start >= least:
                distinct[size], frequency[size] = keys[start], i - start
                size += 1
            start = i


@compiled
def copy_rows(
    values: NDArray[np.uint32], offsets: Rows, rows: Rows, ends: Rows, target: NDArray[np.uint32]
) -> None:  # pragma: no cover
    """Copy the n-gram keys of the given texts into a contiguous array."""
    for i in range(len(rows)):
        start = offsets[rows[i]]
        for k in range(ends[i + 1] - ends[i]):
            target[ends[i] + k] = values[start + k]


def _idf(frequency: NDArray[np.float64], texts: float) -> NDArray[np.float64]:
    """Compute the smoothed inverse document frequency of n-grams, ln((1 + n) / (1 + df)) + 1."""
    return np.asarray(np.log((1 + texts) / (1 + frequency)) + 1, np.float64)


def _table_without_weights(
    spec: NgramSpec, keys: NDArray[np.uint32], idf: NDArray[np.float64], rows: int
) -> NgramTable:
    """Create an n-gram table with inverse document frequencies and zero weights, for fitting."""
    step = np.float32(idf.max(initial=1) / 255)
    return NgramTable(
        spec=spec,
        keys=keys,
        idf=np.maximum(np.rint(idf / step), 1).astype(np.uint8),
        weights=np.zeros((rows, len(keys)), np.int8),
        idf_step=np.asarray(step),
        steps=np.ones(rows, np.float32),
    )


class _Lookup(NamedTuple):
    """N-gram counts of all texts and one n-gram table, the input for computing TF-IDF features."""

    counted: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    keys: NDArray[np.uint32]  # (K,) of the table, ascending
    buckets: NDArray[np.int32]  # where the keys with the same leading bits begin
    shift: np.uint32  # a key's bucket is key >> shift
    idf: Floats  # (K,)
    first_column: int  # of this table in the feature matrix


def ngram_features(tables: Sequence[NgramTable], texts: CountedTexts) -> SparseRows:
    """Compute normalized TF-IDF features of the texts for fitting the n-gram model.

    The values of each table are divided by their norm. The shape is (n, K).
    """
    lookups, width, size = [], 0, 0
    for table, (_, counted) in zip(tables, texts.counts, strict=True):
        buckets, shift = KeyBuckets.of(table.keys)
        lookups.append(
            _Lookup(
                counted.keys,
                counted.counts.astype(np.uint16, copy=False),
                counted.offsets,
                table.keys,
                buckets,
                shift,
                table.idf * table.idf_step,
                width,
            )
        )
        width += len(table.keys)
        size += int(np.diff(counted.offsets)[texts.rows].sum())
    starts = np.zeros(len(texts.rows) + 1, np.int64)
    columns, values = np.empty(size, np.int32), np.empty(size, np.float32)
    size = write_features(tuple(lookups), texts.rows, starts, columns, values)
    return SparseRows(starts, columns[:size], values[:size], width)


@compiled
def write_features(
    lookups: tuple[_Lookup, ...],
    rows: Rows,
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
) -> int:  # pragma: no cover
    """Write the TF-IDF features of each text into the arrays of a sparse matrix.

    Return the number of values that are not zero.
    """
    size = 0
    for i in range(len(rows)):
        for lookup in lookups:
            begin, norm = size, 0.0
            for k in range(lookup.offsets[rows[i]], lookup.offsets[rows[i] + 1]):
                key = lookup.counted[k]
                bucket = key >> lookup.shift
                place, end = lookup.buckets[bucket], lookup.buckets[bucket + 1]
                while place < end and lookup.keys[place] < key:
                    place += 1
                if place < end and lookup.keys[place] == key:
                    count = lookup.counts[k]
                    value = lookup.idf[place]
                    if count > 1:
                        value *= np.float32(1 + np.log(count))
                    columns[size], values[size] = lookup.first_column + place, value
                    norm += value * value
                    size += 1
            factor = np.float32(1 / np.sqrt(norm)) if norm > 0 else np.float32(0)
            for k in range(begin, size):
                values[k] *= factor
        starts[i + 1] = size
    return size


def _positive_texts(labels: Labels, number: int) -> NDArray[np.bool_]:
    positive: NDArray[np.bool_] = labels == number if labels.ndim == 1 else labels[:, number] > 0.5
    return positive


def _class_weight(
    labels: Labels, number: int, class_weights: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """Return the class weight of each text for fitting one SVM of the n-gram model.

    If a text may have several labels, a label's weight applies to the texts that have it.
    """
    if class_weights is None:
        return np.ones(len(labels))
    if labels.ndim == 1:
        return class_weights[labels].astype(np.float64)
    return np.where(labels[:, number] > 0.5, class_weights[number].astype(np.float64), 1.0)


def naive_bayes_ratio(
    features: SparseRows,
    positive: NDArray[np.bool_],
    totals: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute the naive Bayes log-count ratio of each n-gram, used to scale its feature.

    It is r = ln(p/‖p‖₁) − ln(q/‖q‖₁), of shape (K,). ``totals`` is the result of
    ``weighted_frequencies`` for all texts.
    """
    p = weighted_frequencies(features, np.where(positive, weight, 0))
    q = np.maximum(totals - p, 0)
    p, q = p + 1, q + 1
    ratio: NDArray[np.float64] = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratio


@compiled
def weighted_frequencies(
    features: SparseRows, weight: NDArray[np.float64]
) -> NDArray[np.float64]:  # pragma: no cover
    """Compute weighted document frequencies (K,) of n-grams from the feature matrix."""
    totals = np.zeros(features.width)
    for i in range(len(weight)):
        if weight[i] != 0:
            for k in range(features.starts[i], features.starts[i + 1]):
                totals[features.columns[k]] += weight[i]
    return totals


def _with_weights(table: NgramTable, weights: NDArray[np.float32]) -> NgramTable:
    """Return a copy of an n-gram table with the fitted weights, quantized to int8.

    The largest weight of a row is 127 steps.
    """
    steps = np.abs(weights).max(axis=1, initial=1e-12) / 127
    rounded = np.rint(weights / steps[:, None]).astype(np.int8)
    small: Floats = steps.astype(np.float32)
    return NgramTable(table.spec, table.keys, table.idf, rounded, table.idf_step, small)
