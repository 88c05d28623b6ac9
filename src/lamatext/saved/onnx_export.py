"""Export of a network to ``model.onnx``: a hand-built ONNX graph, equivalent to ``lamatext.nn``.

The file takes only a few kB: it refers to the tensors in ``model.safetensors`` in the same folder.
Padding has no effect on any output: the GRU reads ``lengths``; the softmax, the mean, the maximum
and the convolutions use the mask computed from ``lengths``.
Shapes: B texts, T words, J phrases, E embedding width, D state width, M heads, k rank, C classes.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lamatext.errors import ModelError
from lamatext.saved.format import GRAPH, STATES_INPUT, WEIGHTS
from lamatext.saved.onnx_protobuf import (
    FLOAT,
    INT32,
    ExternalData,
    write_graph,
    write_model,
    write_node,
    write_tensor,
    write_value,
)
from lamatext.saved.quantization import SCALE, Array
from lamatext.saved.safetensors_layout import TensorLocation, tensor_locations
from lamatext.settings import ModelSettings

WITHOUT_GRAPH = ("te", "bert")  # models that run in PyTorch only
OPSET, IR_VERSION = 17, 9  # supported by every ONNX Runtime since 1.15
LOWEST_SCORE = -1e30  # of a phrase without words


def write_onnx(folder: Path, model: ModelSettings, tensors: Mapping[str, Array]) -> None:
    """Export a network to ``model.onnx``, which refers to the weights in ``model.safetensors``.

    ``model.safetensors`` must already exist in the folder.
    """
    locations = tensor_locations((folder / WEIGHTS).read_bytes())
    (folder / GRAPH).write_bytes(build_onnx_graph(model, tensors, locations))


def build_onnx_graph(
    model: ModelSettings,
    tensors: Mapping[str, Array],
    locations: Mapping[str, TensorLocation] | None = None,
) -> bytes:
    """Build the ONNX graph of a network and return the content of ``model.onnx``.

    Args:
        model: settings of the network.
        tensors: state dict of the network, quantized or not (``lamatext.saved.quantization``).
        locations: byte ranges of the tensors in ``model.safetensors``, which the graph then refers
            to as ONNX external data; None stores the tensors in the graph.

    Inputs: ``ids`` (B, T) and ``lengths`` (B,), int32, every length at least 1. A model with a GRU
    also accepts precomputed GRU states (B, T, D) as ``STATES_INPUT``. Outputs: ``logits`` (B, C),
    ``embedding`` (B, M, D), ``states`` (B, T, D); with attention also ``weights`` (B, M, T).
    """
    graph = OnnxGraphBuilder(tensors, locations or {})
    has_weights = add_network(graph, model)
    outputs: dict[str, list[str | int]] = {
        "logits": ["B", "C"],
        "embedding": ["B", "M", "D"],
        "states": ["B", "T", "D"],
    }
    if has_weights:
        outputs["weights"] = ["B", "M", "T"]
    return graph.model(outputs)


def add_network(graph: "OnnxGraphBuilder", model: ModelSettings, *, logits: str = "logits") -> bool:
    """Add a network to an ONNX graph and name its logits output ``logits``.

    Returns:
        Whether the network has attention and therefore an output ``weights``.
    """
    if model.name in WITHOUT_GRAPH:
        raise ModelError(
            f"{model.name} has no ONNX graph, it runs in PyTorch only. "
            "Use TextClassifier.load with torch installed, or train another system."
        )
    text = _embed(graph)
    _encode(graph, model, text)
    has_weights = _pool(graph, model, text)
    _classify(graph, logits)
    return has_weights


class OnnxGraphBuilder:
    """Builder of an ONNX graph, with methods that add nodes and return their output names.

    Nodes that depend on tensors only (reordering the gates of a GRU, dequantizing a matrix) are
    computed once, when ONNX Runtime loads the graph.
    """

    def __init__(
        self, tensors: Mapping[str, Array], locations: Mapping[str, TensorLocation]
    ) -> None:
        self._tensors = tensors
        self._locations = locations
        self._nodes: list[bytes] = []
        self._initializers: dict[str, bytes] = {}
        self._inputs: list[bytes] = []
        self._optional_inputs: list[bytes] = []
        self._numbers = count()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: object) -> str:
        """Add a node with the ONNX operator ``op`` and return the name of its output."""
        name = name or self._new_name(op)
        self._nodes.append(write_node(op, inputs, [name], attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """Add an ONNX Split node that divides a value into equal parts along its first axis."""
        stem = self._new_name("Split")
        names = [f"{stem}.{part}" for part in range(parts)]
        self._nodes.append(write_node("Split", [value], names, {"axis": 0}))
        return names

    def input(self, name: str, element_type: int, shape: Sequence[str | int]) -> str:
        """Declare an input of the ONNX graph, in addition to ``ids`` and ``lengths``."""
        self._inputs.append(write_value(name, element_type, shape))
        return name

    def optional_input(self, name: str, shape: Sequence[str | int]) -> str:
        """Declare an optional float32 input of the ONNX graph; its default is an empty tensor."""
        empty = np.zeros([0 if isinstance(size, str) else size for size in shape], np.float32)
        self._initializers[name] = write_tensor(name, empty)
        self._optional_inputs.append(self._float_info(name, shape))
        return name

    def conditional(
        self, condition: str, then: Callable[[], str], otherwise: Callable[[], str], *, name: str
    ) -> str:
        """Add an ONNX If node whose branches are built by ``then`` and ``otherwise``."""
        branches = {"then_branch": self._branch(then), "else_branch": self._branch(otherwise)}
        return self.add("If", condition, name=name, **branches)

    def scan(
        self, initial: Sequence[str], sequence: str, step: Callable[[list[str], str], list[str]]
    ) -> list[str]:
        """Add an ONNX Scan node that loops over the int32 numbers in ``sequence``.

        ``step`` builds the loop body: it receives the names of the float32 states and of the
        current number, and returns the names of the new states. Return the names of the final
        states.
        """
        stem = self._new_name("Scan")
        states, number = [f"{stem}.state{i}" for i in range(len(initial))], f"{stem}.number"
        outer, self._nodes = self._nodes, []
        new_states = step(states, number)
        body, self._nodes = self._nodes, outer
        graph = write_graph(
            stem,
            nodes=body,
            tensors=[],
            inputs=[
                *(self._float_info(state, None) for state in states),
                write_value(number, INT32, []),
            ],
            outputs=[self._float_info(state, None) for state in new_states],
        )
        names = [f"{stem}.{i}" for i in range(len(initial))]
        attributes: dict[str, object] = {"body": graph, "num_scan_inputs": 1}
        self._nodes.append(write_node("Scan", [*initial, sequence], names, attributes))
        return names

    def constant(self, value: Sequence[int] | Array) -> str:
        """Add a constant to the ONNX graph and return its name."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        name = self._new_name("Constant")
        self._initializers[name] = write_tensor(name, array)
        return name

    def number(self, value: float) -> str:
        """Add a float32 scalar to the ONNX graph and return its name."""
        return self.constant(np.array(value, np.float32))

    def integer(self, value: int) -> str:
        """Add an int32 scalar to the ONNX graph and return its name."""
        return self.constant(np.array(value, np.int32))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a network tensor that the ONNX graph uses."""
        return self._tensors[name].shape

    def tensor(self, name: str) -> str:
        """Add a network tensor to the ONNX graph, with nodes that dequantize it to float32."""
        return self._dequantized(name, self._initializer, axis=1)

    def transposed(self, name: str) -> str:
        """Add ONNX nodes that dequantize and transpose a weight matrix."""
        return self.add("Transpose", self.tensor(name), perm=[1, 0])

    def rows(self, name: str, ids: str) -> str:
        """Add ONNX nodes that look up rows of a matrix by token id and dequantize them.

        Only the rows at ``ids`` (B, T) are dequantized.
        """

        def gather(stored: str) -> str:  # (B, T, width), or (B, T) for the scales
            return self.add("Gather", self._initializer(stored), ids)

        return self._dequantized(name, gather, axis=2)

    def _dequantized(self, name: str, load: Callable[[str], str], *, axis: int) -> str:
        """Add ONNX nodes that load a tensor and, if it is quantized, convert it to float32."""
        stored, kind = load(name), self._tensors[name].dtype
        if kind == np.float32:
            return stored
        floats = self.add("Cast", stored, to=FLOAT)
        if kind != np.int8:
            return floats
        scale = self.add("Unsqueeze", load(name + SCALE), self.constant([axis]))
        return self.add("Mul", floats, scale)

    def model(
        self,
        outputs: Mapping[str, Sequence[str | int]],
        metadata: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the finished ONNX model as bytes, with the given outputs and metadata.

        Its inputs are ``ids``, ``lengths`` and those declared with ``input`` and
        ``optional_input``.
        """
        ids = write_value("ids", INT32, ["B", "T"])
        lengths = write_value("lengths", INT32, ["B"])
        graph = write_graph(
            "lamatext",
            nodes=self._nodes,
            tensors=self._initializers.values(),
            inputs=[ids, lengths, *self._inputs, *self._optional_inputs],
            outputs=[self._float_info(name, shape) for name, shape in outputs.items()],
        )
        return write_model(
            graph, opset=OPSET, ir_version=IR_VERSION, producer="lamatext", metadata=metadata
        )

    def _branch(self, add_nodes: Callable[[], str]) -> bytes:
        outer, self._nodes = self._nodes, []
        name = add_nodes()
        inner, self._nodes = self._nodes, outer
        output = self._float_info(name, None)
        return write_graph(name, nodes=inner, tensors=[], inputs=[], outputs=[output])

    def _float_info(self, name: str, shape: Sequence[str | int] | None) -> bytes:
        return write_value(name, FLOAT, shape)

    def _initializer(self, name: str) -> str:
        if name not in self._initializers:
            place = self._locations.get(name)
            external = place and ExternalData(WEIGHTS, place.start, place.end - place.start)
            self._initializers[name] = write_tensor(name, self._tensors[name], external)
        return name

    def _new_name(self, stem: str) -> str:
        return f"{stem}_{next(self._numbers)}"


class _Text(NamedTuple):
    """Names of the ONNX values that describe a batch of texts."""

    embedded: str  # (B, T, E)
    mask: str  # (B, 1, T) bool: true for words
    lengths: str  # (B, 1, 1) int32
    positions: str  # (T,) int32: 0, 1, …


def _embed(graph: OnnxGraphBuilder) -> _Text:
    words = graph.add("Cast", graph.add("Shape", "ids", start=1, end=2), to=INT32)  # (1,)
    words = graph.add("Squeeze", words)
    position = graph.add("Range", graph.integer(0), words, graph.integer(1))  # (T,)
    lengths = graph.add("Unsqueeze", "lengths", graph.constant([1, 2]))  # (B, 1, 1)
    mask = graph.add("Less", position, lengths)  # (B, 1, T)
    return _Text(graph.rows("embedding.weight", "ids"), mask, lengths, position)


def _encode(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> None:
    """Add the encoder (GRU, CNN, LAMA blocks or none) to the ONNX graph."""
    if "encoder.gru.weight_hh_l0" in graph:
        _add_gru(graph, text.embedded)
    elif "encoder.windows.0.weight" in graph:
        _add_convolutions(graph, text)
    elif model.name == "lama-blocks":
        graph.add("Identity", _add_blocks(graph, model, text), name="states")
    else:
        graph.add("Identity", text.embedded, name="states")


def _add_gru(graph: OnnxGraphBuilder, embedded: str) -> None:
    """Add a bidirectional GRU to the ONNX graph that is skipped if its states are passed in."""
    hidden = graph.shape("encoder.gru.weight_hh_l0")[1]
    parameters = _gates(graph, "weight_ih"), _gates(graph, "weight_hh"), _gate_biases(graph)

    def run_gru() -> str:
        steps = graph.add("Transpose", embedded, perm=[1, 0, 2])  # (T, B, E)
        states = graph.add(
            "GRU",
            *(steps, *parameters, "lengths"),
            hidden_size=hidden,
            direction="bidirectional",
            linear_before_reset=1,  # n = tanh(W x + b + r ∘ (U h + c)), as in torch
        )  # (T, 2, B, h)
        states = graph.add("Transpose", states, perm=[2, 0, 1, 3])  # (B, T, 2, h)
        return graph.add("Reshape", states, graph.constant([0, 0, 2 * hidden]))

    given = graph.optional_input(STATES_INPUT, ["B", "T", 2 * hidden])
    zero = graph.constant(np.array(0, np.int64))
    is_empty = graph.add("Equal", graph.add("Size", given), zero)
    graph.conditional(is_empty, run_gru, lambda: graph.add("Identity", given), name="states")


def _gates(graph: OnnxGraphBuilder, part: str) -> str:
    """Add ONNX nodes that reorder the GRU gate weights from PyTorch's to ONNX's gate order.

    The order changes from r, z, n to z, r, n; the result is (2, 3h, ·) for the two directions.
    """
    rows = []
    for direction in ("", "_reverse"):
        r, z, n = graph.split(graph.tensor(f"encoder.gru.{part}_l0{direction}"), 3)
        rows += [z, r, n]
    width = graph.shape(f"encoder.gru.{part}_l0")[1]
    joined = graph.add("Concat", *rows, axis=0)  # (6h, ·)
    return graph.add("Reshape", joined, graph.constant([2, -1, width]))


def _gate_biases(graph: OnnxGraphBuilder) -> str:
    """Add ONNX nodes that arrange the GRU biases in the order that ONNX expects.

    For each direction, the input biases come before the recurrent ones: (2, 6h).
    """
    rows = []
    for direction in ("", "_reverse"):
        for part in ("bias_ih", "bias_hh"):
            r, z, n = graph.split(graph.tensor(f"encoder.gru.{part}_l0{direction}"), 3)
            rows += [z, r, n]
    return graph.add("Reshape", graph.add("Concat", *rows, axis=0), graph.constant([2, -1]))


def _add_convolutions(graph: OnnxGraphBuilder, text: _Text) -> None:
    """Add the convolutional encoder and its ReLU to the ONNX graph."""
    words = graph.add("Transpose", text.embedded, perm=[0, 2, 1])  # (B, E, T)
    words = graph.add("Where", text.mask, words, graph.number(0))
    maps: list[str] = []
    while f"encoder.windows.{len(maps)}.weight" in graph:
        window = f"encoder.windows.{len(maps)}"
        weight, bias = graph.tensor(f"{window}.weight"), graph.tensor(f"{window}.bias")
        size = graph.shape(f"{window}.weight")[2]
        pads = [(size - 1) // 2, size // 2]  # an even window has one more on the right
        maps.append(graph.add("Conv", words, weight, bias, pads=pads))  # (B, filters, T)
    joined = graph.add("Relu", graph.add("Concat", *maps, axis=1))
    graph.add("Transpose", joined, perm=[0, 2, 1], name="states")


def _add_blocks(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> str:
    """Add the lama-blocks encoder to the ONNX graph."""
    states = text.embedded
    last = graph.add("Sub", text.lengths, graph.integer(1))  # (B, 1, 1)
    from_end = graph.add("Max", graph.add("Sub", last, text.positions), graph.integer(0))
    from_end = graph.add("Squeeze", from_end, graph.constant([1]))  # (B, T)
    for name, numbers in (("positions", text.positions), ("end_positions", from_end)):
        if f"encoder.{name}.weight" in graph:
            states = graph.add("Add", states, graph.rows(f"encoder.{name}.weight", numbers))
        elif f"encoder.{name}.gain" in graph:
            states = graph.add("Add", states, _sinusoids(graph, f"encoder.{name}.gain", numbers))
    if "encoder.window.weight" in graph:
        states = graph.add("Add", states, _add_window(graph, text, states))
    context = _add_mean(graph, text)
    block = 0
    while f"encoder.blocks.{block}.output.weight" in graph:
        states = _add_block(graph, model, text, states, f"encoder.blocks.{block}", context)
        block += 1
    return states


def _sinusoids(graph: OnnxGraphBuilder, gain: str, numbers: str) -> str:
    """Add ONNX nodes that compute sinusoidal position embeddings (…, T, D)."""
    (width,) = graph.shape(gain)
    half = (width + 1) // 2
    frequencies = np.array([10_000.0 ** (-i / half) for i in range(half)], np.float32)
    numbers = graph.add("Cast", numbers, to=FLOAT)
    numbers = graph.add("Unsqueeze", numbers, graph.constant([-1]))
    angles = graph.add("Mul", numbers, graph.constant(frequencies))  # (…, T, ⌈D/2⌉)
    waves = graph.add("Concat", graph.add("Sin", angles), graph.add("Cos", angles), axis=-1)
    zero, end, axis = graph.constant([0]), graph.constant([width]), graph.constant([-1])
    return graph.add("Mul", graph.add("Slice", waves, zero, end, axis), graph.tensor(gain))


def _add_window(graph: OnnxGraphBuilder, text: _Text, states: str) -> str:
    """Add ONNX nodes that compute the depthwise convolution of lama-blocks."""
    width, _, size = graph.shape("encoder.window.weight")
    words = graph.add("Transpose", states, perm=[0, 2, 1])  # (B, D, T)
    words = graph.add("Where", text.mask, words, graph.number(0))
    weight, bias = (graph.tensor(f"encoder.window.{part}") for part in ("weight", "bias"))
    window = graph.add("Conv", words, weight, bias, pads=[size // 2, size // 2], group=width)
    return graph.add("Transpose", graph.add("Relu", window), perm=[0, 2, 1])


def _add_block(
    graph: OnnxGraphBuilder,
    model: ModelSettings,
    text: _Text,
    states: str,
    block: str,
    context: str,
) -> str:
    """Add the ONNX nodes of one lama-blocks attention block."""
    query = graph.add("MatMul", context, graph.transposed(f"{block}.attention.p.weight"))
    keys = _low_rank_keys(graph, model, f"{block}.attention", states)
    scores = _low_rank_scores(graph, model, f"{block}.attention", query, keys)  # (B, T, M)
    summaries = graph.add("MatMul", _word_weights(graph, scores, text.mask), states)  # (B, M, D)
    summaries = graph.add("MatMul", summaries, graph.transposed(f"{block}.output.weight"))
    read = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), summaries)  # (B, T, D)
    states = _layer_norm(graph, graph.add("Add", states, read), f"{block}.norm1")
    inner = graph.add("Relu", _linear(graph, states, f"{block}.linear1"))
    update = _linear(graph, inner, f"{block}.linear2")
    return _layer_norm(graph, graph.add("Add", states, update), f"{block}.norm2")


def _layer_norm(graph: OnnxGraphBuilder, states: str, layer: str) -> str:
    scale, bias = graph.tensor(f"{layer}.weight"), graph.tensor(f"{layer}.bias")
    return graph.add("LayerNormalization", states, scale, bias, axis=-1)  # its epsilon is torch's


def _linear(graph: OnnxGraphBuilder, states: str, layer: str) -> str:
    product = graph.add("MatMul", states, graph.transposed(f"{layer}.weight"))
    return graph.add("Add", product, graph.tensor(f"{layer}.bias"))


def _pool(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> bool:
    """Add ONNX nodes that pool the word states into a text embedding.

    The output is ``embedding`` (B, M, D).

    Returns:
        Whether the network has attention and therefore an output ``weights`` (B, M, T).
    """
    match model.name:
        case "bigru" | "cnn":
            _add_max(graph, text.mask)
            return False
        case "avg":
            _add_mean(graph, text, name="embedding")
            return False
        case "bilinear":
            scores = _bilinear_scores(graph, model, text)
        case "san":
            inner = graph.add("MatMul", "states", graph.transposed("pooling.w1.weight"))
            inner = graph.add("Tanh", inner)
            scores = graph.add("MatMul", inner, graph.transposed("pooling.w2.weight"))
        case "lama-phrases":
            _add_phrase_weights(graph, model, text)
            graph.add("MatMul", "weights", "states", name="embedding")
            return True
        case _:
            learned = "pooling.context"  # (D,), the same for all texts; otherwise (B, 1, E)
            context = graph.tensor(learned) if learned in graph else _add_mean(graph, text)
            query = graph.add("MatMul", context, graph.transposed("pooling.p.weight"))  # (…, M*k)
            keys = _low_rank_keys(graph, model, "pooling", "states")
            scores = _low_rank_scores(graph, model, "pooling", query, keys)
    _word_weights(graph, scores, text.mask, name="weights")
    graph.add("MatMul", "weights", "states", name="embedding")
    return True


def _word_weights(graph: OnnxGraphBuilder, scores: str, mask: str, name: str | None = None) -> str:
    """Add ONNX nodes that compute attention weights (B, M, T) from scores (B, T, M)."""
    scores = graph.add("Transpose", scores, perm=[0, 2, 1])  # (B, M, T)
    scores = graph.add("Where", mask, scores, graph.number(-np.inf))
    weights = graph.add("Softmax", scores, axis=-1)
    # Exactly zero on padding, however a platform's softmax rounds exp(-inf).
    return graph.add("Where", mask, weights, graph.number(0), name=name)


class _PhraseInputs(NamedTuple):
    """Names of the ONNX values that the phrase attention loop reads."""

    keys: str  # (B, T, M*k): Qᵀu
    values: str  # (B, M, T, k): Q′ᵀh
    projection: str  # (E, M*k): P
    context: str  # (B, 1, M*k): P′ᵀc
    numbers: str  # (T,) or (B, 1, T): the phrase of each word


def _add_phrase_weights(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> None:
    """Add an ONNX loop over phrases that computes the word weights of phrase attention.

    Like ``lamatext.nn.phrase_attention``, the loop keeps running sums, so that its memory usage
    does not grow with the number of phrases. The output is ``weights`` (B, M, T).
    """
    second = model.model_copy(update={"score_input": "states"})
    values = _low_rank_keys(graph, second, "pooling.phrases", "states")  # (B, T, M*k)
    values = graph.add("Reshape", values, graph.constant([0, 0, model.heads, model.rank]))
    query = graph.transposed("pooling.phrases.p.weight")
    numbers, phrases = _phrase_numbers(graph, model, text)
    inputs = _PhraseInputs(
        _low_rank_keys(graph, model, "pooling.words", "states"),
        graph.add("Transpose", values, perm=[0, 2, 1, 3]),
        graph.transposed("pooling.words.p.weight"),
        graph.add("MatMul", _add_mean(graph, text), query),
        numbers,
    )

    def add_phrase(sums: list[str], number: str) -> list[str]:
        maximum, total, weighted = sums
        weights, score = _add_phrase(graph, model, text, inputs, number)
        new_maximum = graph.add("Max", maximum, score)
        rescale = graph.add("Exp", graph.add("Sub", maximum, new_maximum))
        share = graph.add("Exp", graph.add("Sub", score, new_maximum))  # (B, M, 1)
        total = graph.add("Add", graph.add("Mul", total, rescale), share)
        weighted = graph.add("Mul", weighted, rescale)
        return [new_maximum, total, graph.add("Add", weighted, graph.add("Mul", share, weights))]

    texts, words = (graph.add("Shape", "ids", start=axis, end=axis + 1) for axis in (0, 1))
    column = graph.add("Concat", texts, graph.constant([model.heads, 1]), axis=0)  # (B, M, 1)
    rows = graph.add("Concat", texts, graph.constant([model.heads]), words, axis=0)  # (B, M, T)
    initial = [graph.add("Expand", graph.number(LOWEST_SCORE), column)]
    initial += [graph.add("Expand", graph.number(0), shape) for shape in (column, rows)]
    _, total, weighted = graph.scan(initial, phrases, add_phrase)
    graph.add("Div", weighted, total, name="weights")


def _add_phrase(
    graph: OnnxGraphBuilder, model: ModelSettings, text: _Text, inputs: _PhraseInputs, number: str
) -> tuple[str, str]:
    """Add ONNX nodes that compute the word weights and the score of one phrase."""
    member = graph.add("And", graph.add("Equal", inputs.numbers, number), text.mask)  # (B, 1, T)
    member = graph.add("Cast", member, to=FLOAT)
    count = graph.add("ReduceSum", member, graph.constant([2]), keepdims=1)  # (B, 1, 1)
    mean = graph.add("MatMul", member, text.embedded)  # (B, 1, E)
    mean = graph.add("Div", mean, graph.add("Max", count, graph.number(1)))
    query = graph.add("MatMul", mean, inputs.projection)  # (B, 1, M*k)
    scores = _low_rank_scores(graph, model, "pooling.words", query, inputs.keys)
    weights = _word_weights(graph, scores, text.mask)  # (B, M, T)
    rows = graph.add("Unsqueeze", weights, graph.constant([2]))
    summary = graph.add("MatMul", rows, inputs.values)  # (B, M, 1, k): Q′ᵢᵀS_ij
    summary = graph.add("Reshape", summary, graph.constant([0, 1, model.heads * model.rank]))
    score = _low_rank_scores(graph, model, "pooling.phrases", inputs.context, summary)
    score = graph.add("Transpose", score, perm=[0, 2, 1])  # (B, M, 1)
    has_words = graph.add("Greater", count, graph.number(0))
    return weights, graph.add("Where", has_words, score, graph.number(LOWEST_SCORE))


def _phrase_numbers(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> tuple[str, str]:
    """Add ONNX nodes that compute which phrase each word belongs to.

    Returns:
        The phrase number of each word, (T,) or (B, 1, T), and all phrase numbers (J,).
    """
    if model.phrases == "punctuation":
        ends = graph.add("Gather", graph.tensor("phrases.ends"), "ids")  # (B, T)
        ends = graph.add("Greater", ends, graph.number(0.5))
        ends = graph.add("Unsqueeze", ends, graph.constant([1]))  # (B, 1, T)
        ends = graph.add("Cast", graph.add("And", ends, text.mask), to=INT32)
        axis = graph.integer(2)
        numbers = graph.add("Sub", graph.add("CumSum", ends, axis), ends)  # marks before the word
    else:
        words = graph.integer(model.phrases or np.iinfo(np.int32).max)
        numbers = graph.add("Div", text.positions, words)
    last = graph.add("ReduceMax", numbers, keepdims=0)
    count = graph.add("Add", last, graph.integer(1))
    return numbers, graph.add("Range", graph.integer(0), count, graph.integer(1))


def _low_rank_keys(graph: OnnxGraphBuilder, model: ModelSettings, layer: str, states: str) -> str:
    """Add ONNX nodes that compute the keys (B, T, M*k) of a LAMA attention layer."""
    words = _scored_words(graph, model, layer, states)
    return graph.add("MatMul", words, graph.transposed(f"{layer}.q.weight"))


def _low_rank_scores(
    graph: OnnxGraphBuilder, model: ModelSettings, layer: str, query: str, keys: str
) -> str:
    """Add ONNX nodes that compute the scores of LAMA's low-rank attention.

    The scores are 1ᵀ(Pᵀc ∘ Qᵀu), then optionally tanh, l2 and temperature: (B, T, M).
    """
    scores = graph.add("Mul", query, keys)
    if model.rank > 1:
        shape = graph.constant([0, 0, model.heads, model.rank])
        scores = graph.add("Reshape", scores, shape)  # (B, T, M, k)
        scores = graph.add("ReduceSum", scores, graph.constant([3]), keepdims=0)
    if model.score_tanh:
        scores = graph.add("Tanh", scores)
    if model.score_l2:
        norm = graph.add("ReduceL2", scores, axes=[2], keepdims=1)  # (B, T, 1)
        scores = graph.add("Div", scores, graph.add("Max", norm, graph.number(1e-12)))
    if model.initial_temperature is not None:
        factor = graph.add("Exp", graph.tensor(f"{layer}.log_temperature"))  # (M,)
        scores = graph.add("Mul", scores, factor)
    return scores


def _bilinear_scores(graph: OnnxGraphBuilder, model: ModelSettings, text: _Text) -> str:
    """Add ONNX nodes that compute the scores (B, T, 1) of full-rank bilinear attention."""
    words = _scored_words(graph, model, "pooling", "states")
    query = graph.add("MatMul", _add_mean(graph, text), graph.tensor("pooling.weight"))  # (B, 1, D)
    return graph.add("MatMul", words, graph.add("Transpose", query, perm=[0, 2, 1]))


def _scored_words(graph: OnnxGraphBuilder, model: ModelSettings, layer: str, states: str) -> str:
    """Add ONNX nodes for the attention layer's scored vectors: the states or their projection."""
    if model.score_input == "states":
        return states
    return graph.add("Tanh", _linear(graph, states, f"{layer}.project"))


def _add_mean(graph: OnnxGraphBuilder, text: _Text, name: str | None = None) -> str:
    """Add ONNX nodes that compute the mean word embedding (B, 1, E) of each text."""
    total = graph.add("MatMul", graph.add("Cast", text.mask, to=FLOAT), text.embedded)
    return graph.add("Div", total, graph.add("Cast", text.lengths, to=FLOAT), name=name)


def _add_max(graph: OnnxGraphBuilder, mask: str) -> None:
    """Add ONNX nodes that max-pool the states over the words into ``embedding``."""
    penalty = graph.add("Where", mask, graph.number(0), graph.number(-np.inf))  # (B, 1, T)
    states = graph.add("Transpose", "states", perm=[0, 2, 1])  # (B, D, T)
    maximum = graph.add("GlobalMaxPool", graph.add("Add", states, penalty))  # (B, D, 1)
    graph.add("Transpose", maximum, perm=[0, 2, 1], name="embedding")


def _classify(graph: OnnxGraphBuilder, logits: str) -> None:
    values = graph.add("Flatten", "embedding", axis=1)  # (B, M*D)
    last = 1
    if "classifier.0.weight" in graph:
        weight, bias = graph.tensor("classifier.0.weight"), graph.tensor("classifier.0.bias")
        values = graph.add("Relu", graph.add("Gemm", values, weight, bias, transB=1))
        last = 3
    weight, bias = (graph.tensor(f"classifier.{last}.{part}") for part in ("weight", "bias"))
    graph.add("Gemm", values, weight, bias, transB=1, name=logits)
