"""The bi-GRU of a saved model in compiled C, beside its plain twin, the GRU of the graph.

ONNX Runtime makes small products for a padded batch, step after step. This walks through each text
by itself, and has what the most frequent words put into the gates computed beforehand.

Shapes: B texts, T words, E embedding width, h hidden units of a direction, N = ⌈h / 8⌉.
"""

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from math import prod

import numpy as np

from lamatext.runtime.engine import Floats, Ids
from lamatext.saved.quantization import SCALE, Array, restored

KNOWN = 2048  # ids are by falling count: most words of a text are below it
LANES = 8  # units that go together; gru.c has the same
LINE = 64  # bytes
TABLE = "embedding.weight"


class _Layout(ctypes.Structure):
    """``gru`` of gru.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("inputs", "units", "trios", "known")),
        *((name, ctypes.c_void_p) for name in ("input_weights", "input_biases")),
        *((name, ctypes.c_void_p) for name in ("state_weights", "state_biases", "gates")),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """gru.c compiled; None where it was not, or where the CPU has not what it takes."""
    found = find_spec("lamatext.runtime._gru")
    if found is None or found.origin is None:
        return None
    code = ctypes.CDLL(found.origin)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    code.project.argtypes = [pointer, pointer, number, pointer]
    code.walk.argtypes = [pointer] * 4 + [number] * 2 + [pointer] * 2
    code.project.restype = code.walk.restype = None
    return code if code.can_run() else None


class CompiledGru:
    """The embedding and the bi-GRU of a network; several threads may use one at once."""

    def __init__(self, code: ctypes.CDLL, tensors: Mapping[str, Array]) -> None:
        self._code, self._tensors = code, tensors
        self._arrays = _laid_out(tensors)
        inputs, units = (tensors[f"encoder.gru.weight_{part}_l0"].shape[1] for part in ("ih", "hh"))
        self._units, self._trios = units, -(-units // LANES)
        pointers = (array.ctypes.data for array in self._arrays)
        self._layout = _Layout(inputs, units, self._trios, 0, *pointers)
        self._gates = self._project(np.arange(min(KNOWN, len(tensors[TABLE]))))
        self._layout.gates, self._layout.known = self._gates.ctypes.data, len(self._gates)

    def states(self, ids: Ids, lengths: Ids) -> Floats:
        """The states (B, T, 2h) of texts ``ids`` (B, T); zero in the padding."""
        places = np.array(ids, np.int32, order="C")
        others = places.view(np.uint32) >= len(self._gates)
        rare = places[others]
        places[others] = np.arange(len(self._gates), len(self._gates) + len(rare))
        gates = self._project(rare)
        lengths = np.ascontiguousarray(lengths, np.int32)
        room = _room(2, self._trios * LANES)
        states = np.empty((*ids.shape, 2 * self._units), np.float32)
        self._code.walk(
            ctypes.addressof(self._layout),
            *(array.ctypes.data for array in (places, lengths, gates)),
            *ids.shape,
            *(array.ctypes.data for array in (room, states)),
        )
        return states

    def _project(self, words: Array) -> Floats:
        """What some words put into the gates: (count, 2·N·3·8)."""
        rows = self._rows(words)
        gates = _room(len(words), 2 * self._trios * 3 * LANES)
        layout = ctypes.addressof(self._layout)
        self._code.project(layout, rows.ctypes.data, len(words), gates.ctypes.data)
        return gates

    def _rows(self, words: Array) -> Floats:
        """The embeddings (count, E) in float32, however they are stored."""
        rows = self._tensors[TABLE][words]
        if rows.dtype == np.int8:
            return rows * self._tensors[TABLE + SCALE][words, None].astype(np.float32)
        return rows.astype(np.float32, copy=False)


def _laid_out(tensors: Mapping[str, Array]) -> list[Floats]:
    """W_i, its biases, W_h and its biases, both directions of each: (2, N, ·, 3, 8)."""
    ways: list[list[Array]] = []
    for way in ("", "_reverse"):
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        names = [f"encoder.gru.{kind}_l0{way}" for kind in kinds]
        own = restored({name: tensors[name] for name in names})
        w_i, b_i, w_h, b_h = (own[name].reshape(3, len(own[name]) // 3, -1) for name in names)
        gates = np.array([1, 1, 0], np.float32).reshape(3, 1, 1)  # r and z need but one bias
        ways.append([_trios(part) for part in (w_i, b_i + gates * b_h, w_h, b_h - gates * b_h)])
    return [_in_room(np.stack(pair)) for pair in zip(*ways, strict=True)]


def _trios(gates: Array) -> Array:
    """(3, h, k) as (N, k, 3, 8), with zeros where there are no units."""
    whole = np.pad(gates, ((0, 0), (0, -gates.shape[1] % LANES), (0, 0)))
    return whole.reshape(3, -1, LANES, whole.shape[2]).transpose(1, 3, 0, 2)


def _in_room(array: Array) -> Floats:
    room = _room(*array.shape)
    room[...] = array
    return room


def _room(*shape: int) -> Floats:
    """Memory for float32 numbers that begins with a cache line, so that no vector lies in two."""
    size = 4 * prod(shape)
    whole = np.empty(size + LINE, np.uint8)
    start = -whole.ctypes.data % LINE
    return whole[start : start + size].view(np.float32).reshape(shape)
