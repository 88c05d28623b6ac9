"""Compiled lookup of n-grams: hashes, counts and weights in C (``ngram_lookup.c``).

``NgramTable.logits`` computes the same with NumPy where no C compiler was available.
Shapes: n texts, W words, K n-grams in a table, R rows of weights.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamatext.data.token_ids import FramedTexts
from lamatext.ngrams.hashing import NgramSpec

SPACING = 1.5  # home slots per key, so that a key is seldom found in the home slot of another
MOST_SLOTS = 2**31 - 1  # the C code numbers them in 32 bits

_ARRAYS = ("keys", "idf", "weights", "idf_step", "steps")


class _Table(ctypes.Structure):
    """ctypes mirror of the C struct for an n-gram table."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("max_words", "shortest", "longest", "size", "rows")),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int64) for name in ("homes", "used")),
        *((name, ctypes.c_void_p) for name in ("slots", "values")),
    ]


class _Texts(ctypes.Structure):
    """ctypes mirror of the C struct for texts whose n-grams are looked up."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("points", "lengths", "bounds")),
        ("texts", ctypes.c_int64),
    ]


@cache
def compiled_lookup() -> ctypes.CDLL | None:
    """Load the compiled n-gram lookup (C library); return None if it was not built."""
    spec = find_spec("lamatext.ngrams._lookup")
    if spec is None or spec.origin is None:
        return None
    code = ctypes.CDLL(spec.origin)
    code.fill_slots.argtypes = [ctypes.c_void_p]
    code.fill_slots.restype = None
    code.sum_ngrams.argtypes = [ctypes.c_void_p] * 3
    return code


class CompiledTable:
    """N-gram table for the compiled lookup, which several threads may share.

    Args:
        code: from ``compiled_lookup``.
        spec: lengths of the n-grams.
        arrays: keys (K,) in ascending order, idf (K,), weights (R, K), idf_step (1,), steps (R,).
    """

    def __init__(self, code: ctypes.CDLL, spec: NgramSpec, arrays: Sequence[NDArray[Any]]) -> None:
        types = (np.uint32, np.uint8, np.int8, np.float32, np.float32)
        pairs = zip(arrays, types, strict=True)
        keys, idf, weights, idf_step, steps = (np.require(a, t, ["C", "A"]) for a, t in pairs)
        size, rows = len(keys), len(steps)
        if idf.shape != (size,) or weights.shape != (rows, size) or idf_step.size != 1:
            raise ValueError(f"the arrays of an n-gram table differ in size: {size} n-grams")
        homes = 1 + int(SPACING * size)
        slots = homes + size + 1
        if slots > MOST_SLOTS:
            raise ValueError(
                f"an n-gram table of {size} n-grams is too large for the compiled code"
            )
        self._code, self._rows = code, rows
        used = (np.empty(slots, np.uint32), np.empty((slots, 1 + rows), np.int8))
        self._arrays = (keys, idf, weights, idf_step, steps, *used)  # kept alive
        *pointers, slot_pointer, value_pointer = (array.ctypes.data for array in self._arrays)
        lengths = (spec.words, *(spec.chars or (0, 0)))
        self._layout = _Table(
            *lengths, size, rows, *pointers, homes, 0, slot_pointer, value_pointer
        )
        code.fill_slots(ctypes.addressof(self._layout))

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle the compiled n-gram table as None, because it is recreated on demand."""
        return type(None), ()

    def logits(self, texts: FramedTexts) -> NDArray[np.float32]:
        """Compute the logits of texts from their n-grams in this table with the compiled code."""
        logits = np.empty((len(texts.bounds) - 1, self._rows), np.float32)
        arrays = (np.ascontiguousarray(texts.points, np.uint32), texts.lengths, texts.bounds)
        if texts.bounds[-1] != len(texts.lengths) or texts.lengths.sum() != len(texts.points):
            raise ValueError("the words of the texts to look up have other lengths than given")
        layout = _Texts(*(array.ctypes.data for array in arrays), len(logits))
        table, rows = ctypes.addressof(self._layout), logits.ctypes.data
        if self._code.sum_ngrams(table, ctypes.addressof(layout), rows):
            raise MemoryError("not enough memory to look up the n-grams of a text")
        return logits
