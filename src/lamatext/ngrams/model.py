"""The n-gram model: a linear model on n-grams whose logits are added to the network's.

An n-gram table holds the n-grams of one kind, of words or of characters. An n-gram g that occurs tf
times in a text has the value (1 + ln tf) · idf_g; a table's values are divided by their norm, and

    s_c = Σ_g value_g · w_cg        logit_c = b_c + s_c / (max s − mean s)^γ

so the contribution of each n-gram to a logit is known; the words it covers share it equally. The
range power γ is 0 unless held-out texts are clearly better calibrated with it
(``training/cross_fitting.py``).
Shapes: n texts, T words, K n-grams in a table, C classes; two classes share one row of w, labels of
which a text may have several do not.
"""

from collections.abc import Mapping, Sequence
from ctypes import CDLL
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import FramedTexts
from lamatext.ngrams.compiled_lookup import CompiledTable, compiled_lookup
from lamatext.ngrams.hashing import NgramSpec, count_ngrams, hash_ngrams
from lamatext.settings import NgramSettings

Floats = NDArray[np.float32]
Words = Sequence[str]

CHARACTERS = (2, 5)  # lengths of character n-grams


@dataclass(frozen=True, slots=True)
class NgramTable:
    """Word or character n-grams known to an n-gram model, with their idf and weights."""

    spec: NgramSpec
    keys: NDArray[np.uint32]  # (K,) ascending
    idf: NDArray[np.uint8]  # (K,) in units of idf_step
    weights: NDArray[np.int8]  # (rows, K) in units of steps
    idf_step: Floats  # () or (1,)
    steps: Floats  # (rows,)
    # Created at the first lookup:
    compiled: CompiledTable | None = field(init=False, repr=False, compare=False, default=None)

    def tfidf(
        self, keys: NDArray[np.uint32], counts: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the table index and TF-IDF value (0 if unknown) of each n-gram.

        The table must not be empty.
        """
        place = self._places(keys)
        idf = self.idf[place] * self.idf_step * (self.keys[place] == keys)
        return place, ((1 + np.log(counts)) * idf).astype(np.float32)

    def _places(self, keys: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the table index of each n-gram, which is arbitrary for an unknown n-gram."""
        return np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)

    def compiled_logits(self, code: CDLL, texts: FramedTexts) -> Floats:
        """Compute the n-gram logits (n, rows) of texts in C, much faster than ``logits``."""
        if self.compiled is None:
            arrays = [getattr(self, name) for name in _TABLE_ARRAYS]
            object.__setattr__(self, "compiled", CompiledTable(code, self.spec, arrays))
        assert self.compiled is not None
        return self.compiled.logits(texts)

    def idf_steps(self, keys: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the quantized idf of each n-gram, or 0 for an unknown n-gram."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        place = self._places(keys)
        return np.where(self.keys[place] == keys, self.idf[place], 0).astype(np.int64)

    def logits(self, texts: Sequence[Words]) -> Floats:
        """Compute the contribution of this n-gram table to the logits of each text, (n, rows)."""
        if not len(self.keys):
            return np.zeros((len(texts), len(self.steps)), np.float32)
        counted = count_ngrams(texts, self.spec)
        owner = np.repeat(np.arange(len(texts)), np.diff(counted.offsets))
        place, values = self.tfidf(counted.keys, counted.counts)
        norm = np.sqrt(np.bincount(owner, values.astype(np.float64) ** 2, len(texts)))
        norm = np.maximum(norm, 1e-12)
        sums = [
            np.bincount(owner, values * row[place], len(texts)) / norm * step
            for row, step in zip(self.weights, self.steps, strict=True)
        ]
        return np.stack(sums, axis=1).astype(np.float32)

    def contributions(self, words: Words) -> Floats:
        """Compute the contribution of each word to the n-gram logits of this table.

        The words of an n-gram share its value equally. The shape is (rows, T).
        """
        if not len(self.keys):
            return np.zeros((len(self.steps), len(words)), np.float32)
        ngrams = hash_ngrams(words, self.spec)
        keys, which, counts = np.unique(ngrams.keys, return_inverse=True, return_counts=True)
        place, values = self.tfidf(keys, counts)
        norm = max(float(np.sqrt((values.astype(np.float64) ** 2).sum())), 1e-12)
        each = self.weights[:, place] * self.steps[:, None] * values / norm / counts  # (rows, keys)
        share = each[:, which] / ngrams.width  # (rows, occurrences)
        total = np.zeros((len(self.weights), len(words)), np.float64)
        for offset in range(int(ngrams.width.max(initial=0))):
            covers = ngrams.width > offset
            for row in range(len(total)):
                total[row] += np.bincount(
                    ngrams.first[covers] + offset, share[row, covers], len(words)
                )
        return total.astype(np.float32)


class ClassMixture(NamedTuple):
    """Linear map applied to n-gram logits to calibrate them across classes.

    It is fitted by ``training/calibration.py`` and becomes part of the weights.
    """

    matrix: NDArray[np.float32]  # (C, C), near the identity
    shift: NDArray[np.float32]  # (C,)

    def apply(self, ngram_logits: Floats) -> Floats:
        """Apply the linear map to n-gram logits (…, C)."""
        mixed: Floats = np.einsum("ij,...j->...i", self.matrix, ngram_logits) + self.shift
        return mixed

    def apply_to_weights(self, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Return the weights and biases of the model whose logits are the mapped logits.

        The weights are (C, K), the biases (C,). The sums of einsum, unlike those of BLAS, do not
        depend on the number of threads.
        """
        return np.einsum("ij,jk->ik", self.matrix, weights), self.apply(bias)

    def for_all_classes(self, seen: NDArray[np.int64], classes: int) -> "ClassMixture":
        """Extend the map of n-gram logits to all classes, leaving unseen classes unchanged."""
        matrix, shift = np.eye(classes, dtype=np.float32), np.zeros(classes, np.float32)
        matrix[np.ix_(seen, seen)] = self.matrix
        shift[seen] = self.shift
        return ClassMixture(matrix, shift)


@dataclass(frozen=True, slots=True)
class NgramModel:
    """Linear n-gram model that consists of n-gram tables and biases."""

    tables: tuple[NgramTable, ...]
    bias: Floats  # (rows,)
    range_power: float = 0.0  # γ, below 1; 0 for two classes and for several labels

    def logits(self, texts: Sequence[Words] | FramedTexts) -> Floats:
        """Compute the n-gram model's logits for texts given as lists of words.

        The texts may also be given as code points if the lookup is compiled. The shape is (n, C).
        """
        code = compiled_lookup()
        if code is None:
            assert not isinstance(texts, FramedTexts)
            parts = [table.logits(texts) for table in self.tables]
        else:
            framed = texts if isinstance(texts, FramedTexts) else FramedTexts.of(texts)
            parts = [table.compiled_logits(code, framed) for table in self.tables]
        sums = sum(parts, start=np.float32(0))
        total = divide_by_range(np.asarray(sums), self.range_power) + self.bias
        return _both_classes(np.asarray(total, np.float32).T).T

    def contributions(self, words: Words) -> Floats:
        """Compute the contribution of each word to the logits of the n-gram model.

        The shape is (C, T). The contributions and ``base`` sum to the logits.
        """
        parts = [table.contributions(words) for table in self.tables]
        by_word: Floats = np.sum(parts, axis=0, dtype=np.float32)  # (rows, T)
        if self.range_power:
            by_word /= _range(by_word.sum(axis=1)) ** np.float32(self.range_power)
        return _both_classes(by_word)

    @property
    def base(self) -> Floats:
        """Logits (C,) of the n-gram model for a text without known n-grams."""
        return _both_classes(self.bias)

    @property
    def size(self) -> int:
        """Number of weights in the n-gram model."""
        return sum(table.weights.size for table in self.tables) + self.bias.size

    def scaled(self, factor: float | Floats, shift: NDArray[Any] | None = None) -> "NgramModel":
        """Return a copy of this n-gram model with all logits multiplied by ``factor``.

        ``factor`` is one number, or one for each row of weights. ``shift`` (C,) is added to the
        logits.
        """
        small = np.asarray(factor, np.float32)
        by_table = small ** np.float32(1 / (1 - self.range_power)) if self.range_power else small
        bias = self.bias * small
        if shift is not None:
            by_row = shift if len(bias) > 1 else shift[1:] - shift[:-1]  # one row for two classes
            bias = (bias + by_row).astype(np.float32)
        tables = tuple(replace(table, steps=table.steps * by_table) for table in self.tables)
        return replace(self, tables=tables, bias=bias)

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the parameters of the n-gram model as named arrays for saving."""
        tensors: dict[str, NDArray[Any]] = {"bias": self.bias}
        if self.range_power:
            tensors[RANGE_POWER] = np.full(1, self.range_power, np.float32)
        for number, table in enumerate(self.tables):
            for name in _TABLE_ARRAYS:
                tensors[f"{number}.{name}"] = np.ascontiguousarray(getattr(table, name))
        return tensors

    @classmethod
    def from_tensors(
        cls, settings: NgramSettings, tensors: Mapping[str, NDArray[Any]], *, rows: int
    ) -> "NgramModel":
        """Create an n-gram model from the arrays that ``to_tensors`` returned.

        ``settings`` define the n-grams of each table. The model has ``rows`` rows of weights: 1 for
        two classes, otherwise one per class or label.

        Raises:
            ValueError: if an array is missing, or has the wrong type, shape or values.
        """
        specs = ngram_specs(settings)
        _check_array(tensors, "bias", np.float32, (rows,))
        for number in range(len(specs)):
            _check_table(tensors, number, rows)
        tables = tuple(
            NgramTable(spec, **{name: tensors[f"{number}.{name}"] for name in _TABLE_ARRAYS})
            for number, spec in enumerate(specs)
        )
        return cls(tables, tensors["bias"], _read_range_power(tensors, rows))


MAX_WEIGHT = 100_000  # of a usable model; the logits of larger weights could overflow
RANGE_POWER = "range_power"
_TABLE_ARRAYS = ("keys", "idf", "weights", "idf_step", "steps")


def _check_table(tensors: Mapping[str, NDArray[Any]], number: int, rows: int) -> None:
    keys = tensors.get(f"{number}.keys", np.zeros(0, np.uint32))
    size = len(keys) if keys.ndim else 0
    _check_array(tensors, f"{number}.keys", np.uint32, (size,), limit=np.inf)
    _check_array(tensors, f"{number}.idf", np.uint8, (size,))
    _check_array(tensors, f"{number}.weights", np.int8, (rows, size))
    _check_array(tensors, f"{number}.idf_step", np.float32, (1,))
    _check_array(tensors, f"{number}.steps", np.float32, (rows,))
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError(f"the n-gram keys of table {number} are not in ascending order")


def _read_range_power(tensors: Mapping[str, NDArray[Any]], rows: int) -> float:
    if RANGE_POWER not in tensors:
        return 0.0
    _check_array(tensors, RANGE_POWER, np.float32, (1,))
    power = float(tensors[RANGE_POWER][0])
    if not 0 <= power < 1 or (power and rows == 1):
        raise ValueError(
            f"the n-gram array {RANGE_POWER} must be at least 0 and below 1, and 0 for two classes"
        )
    return power


def _check_array(
    tensors: Mapping[str, NDArray[Any]],
    name: str,
    dtype: type,
    shape: tuple[int, ...],
    limit: float = MAX_WEIGHT,
) -> None:
    array = tensors.get(name)
    if array is None or array.dtype != dtype or array.shape != shape:
        raise ValueError(f"the n-gram array {name} must be {dtype.__name__} of shape {shape}")
    if not is_within(array, limit):
        raise ValueError(f"the n-gram array {name} must hold numbers of at most {MAX_WEIGHT:,}")


def is_within(array: NDArray[Any], limit: float) -> bool:
    """Return whether all n-gram weights are between -limit and limit, and none is NaN."""
    return bool(float(array.max(initial=0)) <= limit and float(array.min(initial=0)) >= -limit)


def ngram_specs(settings: NgramSettings) -> list[NgramSpec]:
    """Return the lengths of the n-grams in each table of the n-gram model."""
    words = [NgramSpec(settings.max_words, None)]
    return [*words, NgramSpec(0, CHARACTERS)] if settings.characters is True else words


def divide_by_range(sums: Floats, power: float) -> Floats:
    """Divide the n-gram logits of each text by a power of their range over the classes.

    A text with many known n-grams gets large sums, but is not classified correctly as often as
    their softmax says.
    """
    if not power:
        return sums
    divided: Floats = sums / _range(sums)[:, None] ** np.float32(power)
    return divided


def _range(sums: Floats) -> Floats:
    """Return the maximum minus the mean of n-gram logits over the last axis, but at least 1e-12."""
    distance: Floats = sums.max(axis=-1) - sums.mean(axis=-1)
    return np.maximum(distance, np.float32(1e-12))


def _both_classes(rows: Floats) -> Floats:
    """Expand the single output row of a two-class n-gram model into one row per class.

    The two rows are opposite: (1, …) → (2, …). Other models already have one row per class.
    """
    if len(rows) > 1:
        return rows
    return np.concatenate([-rows / 2, rows / 2])
