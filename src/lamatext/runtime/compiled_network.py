"""Compiled network: runs a saved model in C (``vector_network.c``) instead of ONNX Runtime.

The compiled code processes several texts at a time without padding, with the gate inputs of the
most frequent words computed in advance. It computes the bidirectional GRU of every recurrent
network. For LAMA models with a single context it also computes the attention and the classifier,
so that ONNX Runtime is not needed.

Shapes: B texts, T words, E embedding width, h hidden units per direction, D = 2h, M heads,
C classes, L floats per SIMD vector, N = ⌈h / L⌉.
"""

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from math import prod

import numpy as np

from lamatext.data.token_ids import Indices, TokenIds
from lamatext.runtime.engine import EngineOutput, Floats, Ids
from lamatext.saved.quantization import SCALE, Array, dequantize
from lamatext.settings import ModelSettings

PRECOMPUTED = 4096  # ids are sorted by descending frequency: most words have a lower id
CACHE_LINE = 64  # bytes
EMBEDDING = "embedding.weight"
POOLED = ("lama", "lama-ctx", "lama-ctx-dp", "lama-ctx-de")  # models that run entirely in C

_Fields = list[tuple[str, type]]


def _fields(kind: type, names: str) -> _Fields:
    return [(name, kind) for name in names.split()]


class _Dense(ctypes.Structure):
    """ctypes mirror of the C struct for a dense layer of the compiled network."""

    _fields_ = [
        *_fields(ctypes.c_int64, "inputs vectors"),
        *_fields(ctypes.c_void_p, "weights biases"),
    ]


class _Network(ctypes.Structure):
    """ctypes mirror of the C struct for the compiled network."""

    _fields_ = [
        *_fields(ctypes.c_int64, "units trios known"),
        *_fields(ctypes.c_void_p, "bytes scales floats"),
        ("input", _Dense),
        *_fields(ctypes.c_void_p, "state_weights state_biases gates"),
        *_fields(ctypes.c_int64, "heads classes score_tanh score_l2"),
        *_fields(ctypes.c_void_p, "context temperature"),
        *_fields(_Dense, "project p q hidden output"),
    ]


class _Batch(ctypes.Structure):
    """ctypes mirror of the C struct for the compiled network's inputs and outputs of a batch."""

    _fields_ = [
        *_fields(ctypes.c_void_p, "ids starts lengths"),
        *_fields(ctypes.c_int64, "texts words"),
        *_fields(ctypes.c_void_p, "states weights embedding logits"),
    ]


@cache
def compiled_library() -> ctypes.CDLL | None:
    """Load the C library of the compiled network, or return None if it is unavailable.

    The CPU must support AVX2 and FMA; AVX-512 is used if available.
    """
    spec = find_spec("lamatext.runtime._network")
    if spec is None or spec.origin is None:
        return None
    code = ctypes.CDLL(spec.origin)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    code.multiply.argtypes = [ctypes.c_int, pointer, pointer, number, pointer]
    code.multiply.restype = None
    code.run.argtypes = [ctypes.c_int, pointer, pointer]
    return code if code.lanes() else None


class CompiledNetwork:
    """Compiled C implementation of a recurrent network; safe to share between threads.

    Args:
        code: the C library, from ``compiled_library``.
        model: settings of the network.
        tensors: tensors of the network, quantized or not, validated by ``saved.network_tensors``.
        lanes: floats per SIMD vector, 8 or 16; None chooses the best value for this CPU.

    Raises:
        ValueError: the shapes of the tensors do not fit together.
    """

    def __init__(
        self,
        code: ctypes.CDLL,
        model: ModelSettings,
        tensors: Mapping[str, Array],
        *,
        lanes: int | None = None,
    ) -> None:
        self._code, self._lanes = code, lanes or code.lanes()
        self._arrays: list[Array] = []  # keeps the arrays alive that the C struct points to
        self._layout = _Network()
        self.pools = model.name in POOLED and model.rank == 1
        self._set_embedding(tensors)
        self._set_gru(tensors)
        if self.pools:
            self._set_pooling(model, tensors)
            self._set_classifier(tensors)
        known = min(PRECOMPUTED, self._words)
        self._layout.gates = self._pointer(self._gate_inputs(tensors, known))
        self._layout.known = known

    def states(self, ids: Ids, lengths: Ids) -> Floats:
        """Run only the bidirectional GRU of the compiled network and return its states.

        ``ids`` is (B, T); the states are (B, T, 2h), zero in the padding.
        """
        states = np.empty((*ids.shape, 2 * self._layout.units), np.float32)
        self._run_padded(ids, lengths, states=states, logits=self._empty_logits(len(ids)))
        return states

    def logits(self, ids: Ids, lengths: Ids) -> Floats:
        """Run the compiled network on a padded batch and return the logits (B, C)."""
        logits = self._empty_logits(len(ids))
        self._run_padded(ids, lengths, logits=logits)
        return logits

    def text_logits(self, rows: TokenIds) -> Floats:
        """Run the compiled network on any number of texts and return the logits (B, C).

        The texts are processed in order of length; the logits keep the order of ``rows``.
        """
        if len(rows) == 1:
            ids = rows[0]
            return self.logits(ids[None, :], np.array([len(ids)], np.int32))
        offsets = rows.offsets
        lengths = offsets[1:] - offsets[:-1]
        if offsets[0] < 0 or offsets[-1] > len(rows.ids) or (lengths < 0).any():
            raise ValueError("the offsets of the texts do not fit their token ids")
        order = np.argsort(lengths, kind="stable")
        sorted_logits = self._empty_logits(len(rows))
        starts = offsets[order]
        self._run(
            rows.ids, starts, lengths[order], int(lengths.max(initial=0)), logits=sorted_logits
        )
        logits = np.empty_like(sorted_logits)
        logits[order] = sorted_logits
        return logits

    def outputs(self, ids: Ids, lengths: Ids) -> EngineOutput:
        """Run the compiled network on a padded batch and return all its outputs."""
        texts, words = ids.shape
        layout, width = self._layout, 2 * self._layout.units
        states = np.empty((texts, words, width), np.float32)
        weights = np.empty((texts, layout.heads, words), np.float32)
        embedding = np.empty((texts, layout.heads, width), np.float32)
        outputs = {"states": states, "weights": weights, "embedding": embedding}
        logits = self._empty_logits(texts)
        self._run_padded(ids, lengths, logits=logits, **outputs)
        return EngineOutput(logits=logits, **outputs)

    def _empty_logits(self, texts: int) -> Floats:
        """Allocate an output array (B, C) for the logits of the compiled network."""
        return np.empty((texts, self._layout.classes), np.float32)

    def _run_padded(self, ids: Ids, lengths: Ids, **outputs: Floats) -> None:
        if ids.ndim != 2 or lengths.shape != ids.shape[:1]:
            raise ValueError(
                f"expected ids (B, T) and lengths (B,), got {ids.shape}, {lengths.shape}"
            )
        texts, words = ids.shape
        self._run(ids, np.arange(texts) * words, lengths, words, **outputs)

    def _run(
        self, ids: Ids, starts: Indices, lengths: Ids | Indices, words: int, **outputs: Floats
    ) -> None:
        """Run the compiled network on the texts that begin at the offsets ``starts`` in ``ids``."""
        ids, lengths = (np.ascontiguousarray(array, np.int32) for array in (ids, lengths))
        starts = np.ascontiguousarray(starts, np.int64)
        if ids.size and int(ids.view(np.uint32).max()) >= self._words:
            raise IndexError(f"token ids must be at least 0 and below {self._words}")
        pointers = (array.ctypes.data for array in (ids, starts, lengths))
        batch = _Batch(*pointers, len(lengths), words)
        for name, array in outputs.items():
            setattr(batch, name, array.ctypes.data)
        if self._code.run(self._lanes, ctypes.addressof(self._layout), ctypes.addressof(batch)):
            raise MemoryError("not enough memory to run the network on a batch of texts")

    def _set_embedding(self, tensors: Mapping[str, Array]) -> None:
        """Pass the word vectors to the compiled network as int8 or float32 values."""
        vectors = tensors[EMBEDDING]
        self._words = len(vectors)
        if vectors.dtype == np.int8:
            self._layout.bytes = self._pointer(np.ascontiguousarray(vectors))
            self._layout.scales = self._pointer(tensors[EMBEDDING + SCALE])
        else:
            self._arrays.append(np.ascontiguousarray(vectors, np.float32))  # not copied again
            self._layout.floats = self._arrays[-1].ctypes.data

    def _set_gru(self, tensors: Mapping[str, Array]) -> None:
        """Pass the GRU weights to the compiled network, regrouped into SIMD vectors."""
        units = tensors["encoder.gru.weight_hh_l0"].shape[1]
        self._layout.units, self._layout.trios = units, -(-units // self._lanes)
        w_i, b_i, w_h, b_h = _gru_arrays(tensors, self._lanes)
        vectors = np.moveaxis(w_i, 2, 3).reshape(-1, w_i.shape[2], self._lanes)  # (2·N·3, E, L)
        self._layout.input = self._dense(vectors, b_i, inputs=tensors[EMBEDDING].shape[1])
        self._layout.state_weights = self._pointer(w_h)
        self._layout.state_biases = self._pointer(b_h)

    def _set_pooling(self, model: ModelSettings, tensors: Mapping[str, Array]) -> None:
        """Pass the weights of the attention layer to the compiled network."""
        layout, width = self._layout, 2 * self._layout.units
        small = dequantize({k: v for k, v in tensors.items() if k.startswith("pooling.")})
        p, q = small["pooling.p.weight"], small["pooling.q.weight"]
        layout.heads, layout.score_tanh, layout.score_l2 = len(q), model.score_tanh, model.score_l2
        context = small.get("pooling.context")  # None: the mean of the word vectors
        if context is not None:
            layout.context = self._pointer(context)
        factors = np.zeros(len(q) + -len(q) % self._lanes, np.float32)
        has_temperature = model.initial_temperature is not None
        factors[: len(q)] = np.exp(small["pooling.log_temperature"]) if has_temperature else 1
        layout.temperature = self._pointer(factors)
        inner = width
        if model.score_input == "projected":
            w, b = small["pooling.project.weight"], small["pooling.project.bias"]
            layout.project = self._layer(w, b, inputs=width, outputs=width)
            inner = layout.project.vectors * self._lanes  # u is padded
            q = np.pad(q, ((0, 0), (0, inner - width)))
        layout.q = self._layer(q, inputs=inner)
        context_width = layout.input.inputs if context is None else len(context)
        layout.p = self._layer(p, inputs=context_width, outputs=len(q))

    def _set_classifier(self, tensors: Mapping[str, Array]) -> None:
        """Pass the weights of the classifier layers to the compiled network."""
        small = dequantize({k: v for k, v in tensors.items() if k.startswith("classifier.")})
        inputs = self._layout.heads * 2 * self._layout.units
        last = 3 if "classifier.0.weight" in small else 1
        weight, bias = (small[f"classifier.{last}.{part}"] for part in ("weight", "bias"))
        if last == 3:
            hidden, hidden_bias = small["classifier.0.weight"], small["classifier.0.bias"]
            self._layout.hidden = self._layer(
                hidden, hidden_bias, inputs=inputs, outputs=weight.shape[1]
            )
            inputs = self._layout.hidden.vectors * self._lanes  # its outputs are padded
            weight = np.pad(weight, ((0, 0), (0, inputs - weight.shape[1])))
        self._layout.output = self._layer(weight, bias, inputs=inputs)
        self._layout.classes = len(weight)

    def _gate_inputs(self, tensors: Mapping[str, Array], known: int) -> Floats:
        """Precompute the GRU gate inputs of frequent words for the compiled network.

        For the embedding x of a word this is W_i x + b; the result is (known, 2·N·3·L).
        """
        rows = tensors[EMBEDDING][:known].astype(np.float32)
        if tensors[EMBEDDING].dtype == np.int8:
            rows *= tensors[EMBEDDING + SCALE][:known, None]
        return self._multiply(self._layout.input, rows)

    def _multiply(self, layer: _Dense, rows: Floats) -> Floats:
        """Apply a dense layer of the compiled network to each row and return the padded outputs."""
        rows = np.ascontiguousarray(rows, np.float32)
        out = _aligned_empty(len(rows), layer.vectors * self._lanes)
        data = rows.ctypes.data, len(rows), out.ctypes.data
        self._code.multiply(self._lanes, ctypes.addressof(layer), *data)
        return out

    def _layer(
        self, weight: Floats, bias: Floats | None = None, *, inputs: int, outputs: int | None = None
    ) -> _Dense:
        """Create a dense layer of the compiled network from weights (outputs, inputs)."""
        count = len(weight)
        if outputs not in (None, count):
            raise ValueError(f"expected a layer of {outputs} outputs, got {count}")
        rows = np.pad(weight, ((0, -count % self._lanes), (0, 0)))
        vectors = rows.reshape(-1, self._lanes, rows.shape[1]).transpose(0, 2, 1)
        biases = np.zeros(len(rows), np.float32)
        biases[:count] = 0 if bias is None else bias
        return self._dense(vectors, biases, inputs=inputs)

    def _dense(self, vectors: Floats, biases: Floats, *, inputs: int) -> _Dense:
        """Create the C struct of a dense layer from weights (vectors, inputs, L)."""
        if vectors.shape[1] != inputs:
            raise ValueError(f"expected a layer of {inputs} inputs, got {vectors.shape[1]}")
        return _Dense(inputs, len(vectors), self._pointer(vectors), self._pointer(biases))

    def _pointer(self, array: Array) -> int:
        """Return the address of an array for the C code and keep the array alive."""
        if array.dtype == np.float32:
            array = _aligned_copy(array)
        self._arrays.append(array)
        address: int = array.ctypes.data
        return address


def _gru_arrays(tensors: Mapping[str, Array], lanes: int) -> list[Floats]:
    """Regroup the GRU weights and biases into zero-padded SIMD vectors for the C code.

    The arrays are W_i, its biases, W_h and its biases, each (2, N, ·, 3, L).
    """
    directions: list[list[Array]] = []
    for suffix in ("", "_reverse"):
        kinds = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        names = [f"encoder.gru.{kind}_l0{suffix}" for kind in kinds]
        stored = (*names, *(name + SCALE for name in names))
        floats = dequantize({name: tensors[name] for name in stored if name in tensors})
        w_i, b_i, w_h, b_h = (floats[name].reshape(3, len(floats[name]) // 3, -1) for name in names)
        r_and_z = np.array([1, 1, 0], np.float32).reshape(3, 1, 1)  # their two biases are added
        parts = (w_i, b_i + r_and_z * b_h, w_h, b_h - r_and_z * b_h)
        directions.append([_by_lanes(part, lanes) for part in parts])
    return [np.stack(pair) for pair in zip(*directions, strict=True)]


def _by_lanes(gates: Array, lanes: int) -> Array:
    """Regroup GRU gate weights (3, h, k) into SIMD vectors (N, k, 3, L) for the C code."""
    padded = np.pad(gates, ((0, 0), (0, -gates.shape[1] % lanes), (0, 0)))
    return padded.reshape(3, -1, lanes, padded.shape[2]).transpose(1, 3, 0, 2)


def _aligned_copy(array: Array) -> Floats:
    copy = _aligned_empty(*array.shape)
    copy[...] = array
    return copy


def _aligned_empty(*shape: int) -> Floats:
    """Allocate a float32 array for the compiled network, aligned to cache lines.

    The alignment prevents SIMD vectors from spanning two cache lines.
    """
    size = 4 * prod(shape)
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + size].view(np.float32).reshape(shape)
