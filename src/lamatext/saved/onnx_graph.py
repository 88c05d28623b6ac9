"""A network as an ONNX graph, written by hand: the same sums as ``lamatext.nn``, without torch.

Padding cannot leak: the GRU goes by ``lengths``, and the softmax, the mean, the maximum and the
convolutions by the mask made of them.
Shapes: B texts, T words, E embedding width, D state width, M heads, k rank, C classes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lamatext.errors import ModelError
from lamatext.runtime.engine import GIVEN
from lamatext.saved.onnx_nodes import Nodes
from lamatext.saved.quantization import Array
from lamatext.settings import ModelSettings

if TYPE_CHECKING:
    from onnx import ModelProto

NOT_HELD = ("te", "bert")
FLOAT, INT32 = 1, 6  # onnx.TensorProto's numbers for these types


class Text(NamedTuple):
    """The values that a pooling may read, beside ``states`` (B, T, D)."""

    embedded: str  # (B, T, E)
    mask: str  # (B, 1, T) bool: true for words
    lengths: str  # (B, 1, 1) int32


def build_graph(model: ModelSettings, tensors: Mapping[str, Array]) -> "ModelProto":
    """The graph of the system that ``model`` names, with all its tensors inside.

    Args:
        model: the settings that the network was built with.
        tensors: its state dict, in any storage of ``lamatext.saved.quantization``.

    Inputs: ``ids`` (B, T) and ``lengths`` (B,), int32, every length at least 1; of systems with a
    GRU, if someone else has walked it, its states (B, T, D) as ``GIVEN``. Outputs: ``logits``
    (B, C), ``embedding`` (B, M, D), ``weights`` (B, M, T) of systems with attention, ``states``.
    """
    if model.name in NOT_HELD:
        raise ModelError(
            f"{model.name} has no ONNX graph, it runs in PyTorch alone. "
            "Use TextClassifier.load with torch installed, or train another system."
        )
    nodes = Nodes(tensors)
    text = _read(nodes)
    _encode(nodes, text)
    weights = _pool(nodes, model, text)
    _classify(nodes)
    outputs: dict[str, list[str | int]] = {
        "logits": ["B", "C"],
        "embedding": ["B", "M", "D"],
        "states": ["B", "T", "D"],
    }
    if weights:
        outputs["weights"] = ["B", "M", "T"]
    return nodes.model(outputs)


def _read(nodes: Nodes) -> Text:
    """The words' embeddings, and which of them are words."""
    words = nodes.add("Cast", nodes.add("Shape", "ids", start=1, end=2), to=INT32)  # (1,)
    words = nodes.add("Squeeze", words)
    place = nodes.add("Range", nodes.integer(0), words, nodes.integer(1))  # (T,)
    lengths = nodes.add("Unsqueeze", "lengths", nodes.constant([1, 2]))  # (B, 1, 1)
    mask = nodes.add("Less", place, lengths)  # (B, 1, T)
    return Text(nodes.rows("embedding.weight", "ids"), mask, lengths)


def _encode(nodes: Nodes, text: Text) -> None:
    """``states`` (B, T, D), by the encoder that the tensors belong to."""
    if "encoder.gru.weight_hh_l0" in nodes:
        _recur(nodes, text.embedded)
    elif "encoder.windows.0.weight" in nodes:
        _convolve(nodes, text)
    else:
        nodes.add("Identity", text.embedded, name="states")


def _recur(nodes: Nodes, embedded: str) -> None:
    """``states`` (B, T, 2h) of the bi-GRU, unless they are given."""
    hidden = nodes.shape("encoder.gru.weight_hh_l0")[1]
    parameters = _gates(nodes, "weight_ih"), _gates(nodes, "weight_hh"), _gate_biases(nodes)

    def walk() -> str:
        steps = nodes.add("Transpose", embedded, perm=[1, 0, 2])  # (T, B, E)
        states = nodes.add(
            "GRU",
            *(steps, *parameters, "lengths"),
            hidden_size=hidden,
            direction="bidirectional",
            linear_before_reset=1,  # n = tanh(W x + b + r ∘ (U h + c)), as torch has it
        )  # (T, 2, B, h)
        states = nodes.add("Transpose", states, perm=[2, 0, 1, 3])  # (B, T, 2, h)
        return nodes.add("Reshape", states, nodes.constant([0, 0, 2 * hidden]))

    given = nodes.optional(GIVEN, ["B", "T", 2 * hidden])
    none = nodes.constant(np.array(0, np.int64))
    missing = nodes.add("Equal", nodes.add("Size", given), none)
    nodes.either(missing, walk, lambda: nodes.add("Identity", given), name="states")


def _gates(nodes: Nodes, part: str) -> str:
    """Both directions' matrices, their rows ordered z, r, n where torch has r, z, n: (2, 3h, ·)."""
    rows = []
    for direction in ("", "_reverse"):
        r, z, n = nodes.split(nodes.tensor(f"encoder.gru.{part}_l0{direction}"), 3)
        rows += [z, r, n]
    width = nodes.shape(f"encoder.gru.{part}_l0")[1]
    joined = nodes.add("Concat", *rows, axis=0)  # (6h, ·)
    return nodes.add("Reshape", joined, nodes.constant([2, -1, width]))


def _gate_biases(nodes: Nodes) -> str:
    """Both directions' biases, of the input and then of the recurrence: (2, 6h)."""
    rows = []
    for direction in ("", "_reverse"):
        for part in ("bias_ih", "bias_hh"):
            r, z, n = nodes.split(nodes.tensor(f"encoder.gru.{part}_l0{direction}"), 3)
            rows += [z, r, n]
    return nodes.add("Reshape", nodes.add("Concat", *rows, axis=0), nodes.constant([2, -1]))


def _convolve(nodes: Nodes, text: Text) -> None:
    """``states`` (B, T, windows * filters): the ReLU of filters over windows of words."""
    words = nodes.add("Transpose", text.embedded, perm=[0, 2, 1])  # (B, E, T)
    words = nodes.add("Where", text.mask, words, nodes.number(0))
    maps: list[str] = []
    while f"encoder.windows.{len(maps)}.weight" in nodes:
        place = f"encoder.windows.{len(maps)}"
        weight, bias = nodes.tensor(f"{place}.weight"), nodes.tensor(f"{place}.bias")
        size = nodes.shape(f"{place}.weight")[2]
        pads = [(size - 1) // 2, size // 2]  # the odd one to the right
        maps.append(nodes.add("Conv", words, weight, bias, pads=pads))  # (B, filters, T)
    joined = nodes.add("Relu", nodes.add("Concat", *maps, axis=1))
    nodes.add("Transpose", joined, perm=[0, 2, 1], name="states")


def _pool(nodes: Nodes, model: ModelSettings, text: Text) -> bool:
    """``embedding`` (B, M, D) and, of systems with attention (then True), ``weights`` (B, M, T)."""
    match model.name:
        case "bigru" | "cnn":
            _maximum(nodes, text.mask, name="embedding")
            return False
        case "avg":
            _mean(nodes, text, name="embedding")
            return False
    place = "pooling"
    match model.name:
        case "bilinear":
            scores = _bilinear_scores(nodes, model, text, place)
        case "san":
            inner = nodes.add("MatMul", "states", nodes.transposed(f"{place}.w1.weight"))
            inner = nodes.add("Tanh", inner)
            scores = nodes.add("MatMul", inner, nodes.transposed(f"{place}.w2.weight"))
        case _:
            scores = _low_rank_scores(nodes, model, text, place)
    _attend(nodes, scores, text.mask)
    return True


def _attend(nodes: Nodes, scores: str, mask: str) -> None:
    """``weights``, the softmax of scores (B, T, M) over the words, and ``embedding``, S = A H."""
    scores = nodes.add("Transpose", scores, perm=[0, 2, 1])  # (B, M, T)
    scores = nodes.add("Where", mask, scores, nodes.number(-np.inf))
    weights = nodes.add("Softmax", scores, axis=-1)
    # Exactly zero on padding, however a platform's softmax rounds exp(-inf).
    nodes.add("Where", mask, weights, nodes.number(0), name="weights")
    nodes.add("MatMul", "weights", "states", name="embedding")


def _low_rank_scores(nodes: Nodes, model: ModelSettings, text: Text, place: str) -> str:
    """LAMA's scores (B, T, M): 1ᵀ(Pᵀc ∘ Qᵀu), then tanh, l2 over the heads, temperature."""
    words = _scored_words(nodes, model, place)
    learned = f"{place}.context"  # (D,), the same for all texts
    context = nodes.tensor(learned) if learned in nodes else _mean(nodes, text)  # or (B, 1, E)
    query = nodes.add("MatMul", context, nodes.transposed(f"{place}.p.weight"))  # (…, M*k)
    keys = nodes.add("MatMul", words, nodes.transposed(f"{place}.q.weight"))  # (B, T, M*k)
    scores = nodes.add("Mul", query, keys)
    if model.rank > 1:
        shape = nodes.constant([0, 0, model.heads, model.rank])
        scores = nodes.add("Reshape", scores, shape)  # (B, T, M, k)
        scores = nodes.add("ReduceSum", scores, nodes.constant([3]), keepdims=0)
    if model.score_tanh:
        scores = nodes.add("Tanh", scores)
    if model.score_l2:
        norm = nodes.add("ReduceL2", scores, axes=[2], keepdims=1)  # (B, T, 1)
        scores = nodes.add("Div", scores, nodes.add("Max", norm, nodes.number(1e-12)))
    if model.initial_temperature is not None:
        factor = nodes.add("Exp", nodes.tensor(f"{place}.log_temperature"))  # (M,)
        scores = nodes.add("Mul", scores, factor)
    return scores


def _bilinear_scores(nodes: Nodes, model: ModelSettings, text: Text, place: str) -> str:
    """The full-rank head's scores uᵀ Wᵀ c: (B, T, 1)."""
    words = _scored_words(nodes, model, place)
    query = nodes.add("MatMul", _mean(nodes, text), nodes.tensor(f"{place}.weight"))  # (B, 1, D)
    return nodes.add("MatMul", words, nodes.add("Transpose", query, perm=[0, 2, 1]))


def _scored_words(nodes: Nodes, model: ModelSettings, place: str) -> str:
    """What the heads score (B, T, D): u = tanh(W h + b), or the states themselves."""
    if model.score_input == "states":
        return "states"
    product = nodes.add("MatMul", "states", nodes.transposed(f"{place}.project.weight"))
    return nodes.add("Tanh", nodes.add("Add", product, nodes.tensor(f"{place}.project.bias")))


def _mean(nodes: Nodes, text: Text, name: str | None = None) -> str:
    """The mean of the words' embeddings: (B, 1, E)."""
    total = nodes.add("MatMul", nodes.add("Cast", text.mask, to=FLOAT), text.embedded)
    return nodes.add("Div", total, nodes.add("Cast", text.lengths, to=FLOAT), name=name)


def _maximum(nodes: Nodes, mask: str, name: str | None = None) -> str:
    """The maximum of the words' states: (B, 1, D)."""
    nothing = nodes.add("Where", mask, nodes.number(0), nodes.number(-np.inf))  # (B, 1, T)
    turned = nodes.add("Transpose", "states", perm=[0, 2, 1])  # (B, D, T)
    most = nodes.add("GlobalMaxPool", nodes.add("Add", turned, nothing))  # (B, D, 1)
    return nodes.add("Transpose", most, perm=[0, 2, 1], name=name)


def _classify(nodes: Nodes) -> None:
    """``logits`` (B, C): Linear → ReLU → Linear over the flattened embedding, or one Linear."""
    values = nodes.add("Flatten", "embedding", axis=1)  # (B, M*D)
    last = 1
    if "classifier.0.weight" in nodes:
        weight, bias = nodes.tensor("classifier.0.weight"), nodes.tensor("classifier.0.bias")
        values = nodes.add("Relu", nodes.add("Gemm", values, weight, bias, transB=1))
        last = 3
    weight, bias = (nodes.tensor(f"classifier.{last}.{part}") for part in ("weight", "bias"))
    nodes.add("Gemm", values, weight, bias, transB=1, name="logits")
