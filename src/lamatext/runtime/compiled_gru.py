"""The compiled GRU: runs the bi-GRU of a saved model in C (``gru.c``) instead of ONNX Runtime.

ONNX Runtime multiplies small matrices for a padded batch, step by step. The compiled code processes
texts without padding, four at a time, with the gate inputs of the most frequent words computed in
advance.

Shapes: B texts, T words, E embedding width, h hidden units per direction, N = ⌈h / 8⌉.
"""

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from math import prod

import numpy as np

from lamatext.runtime.engine import Floats, Ids
from lamatext.saved.quantization import SCALE, Array, dequantize

PRECOMPUTED = 2048  # ids are sorted by falling frequency: most words of a text are below this
LANES = 8  # hidden units per SIMD vector, as in gru.c
TEXTS = 4  # texts that are processed together, as in gru.c
CACHE_LINE = 64  # bytes
EMBEDDING = "embedding.weight"


class _GruLayout(ctypes.Structure):
    """ctypes mirror of the C struct of the compiled GRU, with its sizes and array pointers."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("inputs", "units", "trios", "known")),
        *((name, ctypes.c_void_p) for name in ("input_weights", "input_biases")),
        *((name, ctypes.c_void_p) for name in ("state_weights", "state_biases", "gates")),
    ]


@cache
def compiled_library() -> ctypes.CDLL | None:
    """Load the compiled GRU library; return None if it is not built or the CPU cannot run it.

    The CPU must support AVX2 and FMA.
    """
    spec = find_spec("lamatext.runtime._gru")
    if spec is None or spec.origin is None:
        return None
    code = ctypes.CDLL(spec.origin)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    code.project.argtypes = [pointer, pointer, number, pointer]
    code.walk.argtypes = [pointer] * 4 + [number] * 2 + [pointer] * 2
    code.project.restype = code.walk.restype = None
    return code if code.can_run() else None


class CompiledGru:
    """Compiled C implementation of the embedding lookup and the bidirectional GRU.

    Several threads may use one instance.
    """

    def __init__(self, code: ctypes.CDLL, tensors: Mapping[str, Array]) -> None:
        self._code, self._tensors = code, tensors
        self._arrays = _gru_arrays(tensors)
        inputs, units = (tensors[f"encoder.gru.weight_{part}_l0"].shape[1] for part in ("ih", "hh"))
        self._units, self._trios = units, -(-units // LANES)
        pointers = (array.ctypes.data for array in self._arrays)
        self._layout = _GruLayout(inputs, units, self._trios, 0, *pointers)
        self._gates = self._gate_inputs(np.arange(min(PRECOMPUTED, len(tensors[EMBEDDING]))))
        self._layout.gates, self._layout.known = self._gates.ctypes.data, len(self._gates)

    def states(self, ids: Ids, lengths: Ids) -> Floats:
        """Run the compiled GRU on a padded batch of texts and return its hidden states.

        ``ids`` is (B, T); the states are (B, T, 2h), zero in the padding.
        """
        gate_rows = np.array(ids, np.int32, order="C")
        is_rare = gate_rows.view(np.uint32) >= len(self._gates)
        rare = gate_rows[is_rare]
        gate_rows[is_rare] = np.arange(len(self._gates), len(self._gates) + len(rare))
        rare_gates = self._gate_inputs(rare)
        lengths = np.ascontiguousarray(lengths, np.int32)
        scratch = _aligned_empty(TEXTS, 5, self._trios * LANES)
        states = np.empty((*ids.shape, 2 * self._units), np.float32)
        self._code.walk(
            ctypes.addressof(self._layout),
            *(array.ctypes.data for array in (gate_rows, lengths, rare_gates)),
            *ids.shape,
            *(array.ctypes.data for array in (scratch, states)),
        )
        return states

    def _gate_inputs(self, words: Array) -> Floats:
        """Compute the input part of the compiled GRU's gates for each word of the batch.

        For the embedding x of a word this is W_i x + b; the result is (count, 2·N·3·8).
        """
        rows = self._embeddings(words)
        gates = _aligned_empty(len(words), 2 * self._trios * 3 * LANES)
        layout = ctypes.addressof(self._layout)
        self._code.project(layout, rows.ctypes.data, len(words), gates.ctypes.data)
        return gates

    def _embeddings(self, words: Array) -> Floats:
        rows = self._tensors[EMBEDDING][words]  # (count, E)
        if rows.dtype == np.int8:
            return rows * self._tensors[EMBEDDING + SCALE][words, None].astype(np.float32)
        return rows.astype(np.float32, copy=False)


def _gru_arrays(tensors: Mapping[str, Array]) -> list[Floats]:
    """Arrange the weights and biases in the memory layout that the compiled GRU expects.

    The arrays are W_i, its biases, W_h and its biases, each (2, N, ·, 3, 8).
    """
    directions: list[list[Array]] = []
    for suffix in ("", "_reverse"):
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        names = [f"encoder.gru.{kind}_l0{suffix}" for kind in kinds]
        floats = dequantize({name: tensors[name] for name in names})
        w_i, b_i, w_h, b_h = (floats[name].reshape(3, len(floats[name]) // 3, -1) for name in names)
        r_and_z = np.array([1, 1, 0], np.float32).reshape(3, 1, 1)  # their two biases are added
        directions.append(
            [_by_lanes(part) for part in (w_i, b_i + r_and_z * b_h, w_h, b_h - r_and_z * b_h)]
        )
    return [_aligned_copy(np.stack(pair)) for pair in zip(*directions, strict=True)]


def _by_lanes(gates: Array) -> Array:
    """Regroup gate weights into zero-padded SIMD vectors for the compiled GRU.

    The shape changes from (3, h, k) to (N, k, 3, 8).
    """
    padded = np.pad(gates, ((0, 0), (0, -gates.shape[1] % LANES), (0, 0)))
    return padded.reshape(3, -1, LANES, padded.shape[2]).transpose(1, 3, 0, 2)


def _aligned_copy(array: Array) -> Floats:
    copy = _aligned_empty(*array.shape)
    copy[...] = array
    return copy


def _aligned_empty(*shape: int) -> Floats:
    """Allocate a float32 array for the compiled GRU, aligned to the CPU's cache lines.

    No SIMD vector then spans two cache lines.
    """
    size = 4 * prod(shape)
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + size].view(np.float32).reshape(shape)
