"""Export of a full model to one ONNX file: network, n-gram model and softmax; no tokenizer.

In addition to the inputs of the network's graph, each n-gram table t has three inputs, with one
entry per distinct n-gram of each text: ``ngram_keys_t`` (its hash key), ``ngram_counts_t`` (its
occurrences) and ``ngram_texts_t`` (the index of the text). The file contains all tensors; labels,
vocabulary and tokenizer settings are in its metadata.
Shapes: B texts, N n-grams of a batch, K n-grams in a table, C classes; two classes share one row.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from lamatext.ngrams.model import NgramModel, NgramTable
from lamatext.saved.onnx_export import OnnxGraphBuilder, add_network
from lamatext.saved.onnx_protobuf import DOUBLE, FLOAT, INT32, INT64
from lamatext.saved.quantization import Array
from lamatext.settings import ModelSettings

ABSENT = 1 << 33  # greater than every hash key


def build_full_graph(
    model: ModelSettings,
    tensors: Mapping[str, Array],
    ngrams: NgramModel | None,
    metadata: Mapping[str, object],
    *,
    multi_label: bool = False,
    label_noise: float = 0.0,
) -> bytes:
    """Build the ONNX graph of a full model (network and n-grams) and return it as bytes.

    Args:
        model: settings of the network.
        tensors: state dict of the network, quantized or not.
        ngrams: the n-gram model, if there is one.
        metadata: values to store in the file, each as JSON under its name.
        multi_label: whether each label has its own probability (sigmoid instead of softmax).
        label_noise: share of wrong training labels, for which class probabilities are adjusted.
    """
    graph = OnnxGraphBuilder(tensors, {})
    name = "logits" if ngrams is None else "network_logits"
    has_weights = add_network(graph, model, logits=name)
    if ngrams is not None:
        graph.add("Add", name, _add_ngrams(graph, ngrams), name="logits")
    if multi_label:
        graph.add("Sigmoid", "logits", name="probabilities")
    elif label_noise:
        last = max(name for name in tensors if name.startswith("classifier.") and ".bias" in name)
        wrong = label_noise / (len(tensors[last]) - 1)  # of each other class
        softmax = graph.add("Softmax", "logits", axis=-1)
        right = graph.add("Mul", softmax, graph.number(1 - label_noise - wrong))
        graph.add("Add", right, graph.number(wrong), name="probabilities")
    else:
        graph.add("Softmax", "logits", axis=-1, name="probabilities")
    outputs: dict[str, list[str | int]] = {
        "probabilities": ["B", "C"],
        "logits": ["B", "C"],
        "embedding": ["B", "M", "D"],
    }
    if has_weights:
        outputs["weights"] = ["B", "M", "T"]
    return graph.model(outputs, {key: json.dumps(value) for key, value in metadata.items()})


def _add_ngrams(graph: OnnxGraphBuilder, ngrams: NgramModel) -> str:
    """Add ONNX nodes that compute the logits (B, C) of the n-gram model in double precision."""
    shape = graph.add("Concat", graph.constant([len(ngrams.bias)]), _batch_size(graph), axis=0)
    total = graph.add("Expand", _double(graph, np.zeros(())), shape)  # (rows, B)
    for number, table in enumerate(ngrams.tables):
        total = graph.add("Add", total, _add_table(graph, table, number, shape))
    if ngrams.range_power:
        total = graph.add("Div", total, _add_range(graph, total, ngrams.range_power))
    total = graph.add("Add", total, _double(graph, ngrams.bias[:, None]))
    logits = graph.add("Cast", graph.add("Transpose", total, perm=[1, 0]), to=FLOAT)  # (B, rows)
    if len(ngrams.bias) > 1:
        return logits
    half = graph.add("Div", logits, graph.number(2))
    return graph.add("Concat", graph.add("Neg", half), half, axis=1)


def _add_range(graph: OnnxGraphBuilder, sums: str, power: float) -> str:
    """Add ONNX nodes that compute the per-text divisor of the n-gram logits: range ** ``power``.

    The range is the largest minus the mean logit of the text.
    """
    largest = graph.add("ReduceMax", sums, axes=[0], keepdims=1)
    distance = graph.add("Sub", largest, graph.add("ReduceMean", sums, axes=[0], keepdims=1))
    distance = graph.add("Max", distance, _double(graph, np.full((), 1e-12)))
    return graph.add("Pow", distance, _double(graph, np.full((), power)))


def _add_table(graph: OnnxGraphBuilder, table: NgramTable, number: int, shape: str) -> str:
    """Add ONNX nodes that compute the contribution of one n-gram table to the logits.

    The nodes compute the same as ``NgramTable.logits``: the TF-IDF values, divided by their norm in
    each text, times the weights. Return the name of the result (rows, B).
    """
    keys = graph.input(f"ngram_keys_{number}", INT64, [f"N{number}"])
    counts = graph.input(f"ngram_counts_{number}", INT32, [f"N{number}"])
    texts = graph.input(f"ngram_texts_{number}", INT64, [f"N{number}"])
    zeros = graph.add("Expand", _double(graph, np.zeros(())), shape)  # (rows, B)
    if not len(table.keys):
        return zeros
    place, is_known = _find_keys(graph, table, keys)
    idf = graph.add("Cast", graph.add("Gather", graph.constant(table.idf), place), to=DOUBLE)
    idf = graph.add("Mul", graph.add("Mul", idf, is_known), _double(graph, table.idf_step))
    frequency = graph.add("Log", graph.add("Cast", counts, to=DOUBLE))
    frequency = graph.add("Add", frequency, _double(graph, np.ones(())))
    values = graph.add("Mul", frequency, idf)  # (N,)
    none = graph.add("Expand", _double(graph, np.zeros(())), _batch_size(graph))  # (B,)
    squares = graph.add("Mul", values, values)
    squares = graph.add("ScatterElements", none, texts, squares, axis=0, reduction="add")
    norm = graph.add("Max", graph.add("Sqrt", squares), _double(graph, np.full((), 1e-12)))
    weights = graph.add("Gather", graph.constant(table.weights), place, axis=1)  # (rows, N)
    weights = graph.add("Mul", graph.add("Cast", weights, to=DOUBLE), values)
    owner = graph.add("Expand", texts, graph.add("Shape", weights))  # (rows, N)
    sums = graph.add("ScatterElements", zeros, owner, weights, axis=1, reduction="add")
    return graph.add("Mul", graph.add("Div", sums, norm), _double(graph, table.steps[:, None]))


def _find_keys(graph: OnnxGraphBuilder, table: NgramTable, keys: str) -> tuple[str, str]:
    """Add ONNX nodes that look up hash keys in an n-gram table by binary search.

    Returns:
        The index of each key (N,), and 1.0 if the table has the key, otherwise 0.0 (N,).
    """
    steps = max(1, int(len(table.keys) - 1).bit_length())
    absent = graph.constant(np.full(1, ABSENT, np.int64))
    padding = graph.add("Expand", absent, graph.constant([(1 << steps) - len(table.keys)]))
    known = graph.add("Cast", graph.constant(table.keys), to=INT64)
    known = graph.add("Concat", known, padding, axis=0)  # (2^steps,)
    place = graph.add("Sub", keys, keys)
    for step in reversed(range(steps)):
        candidate = graph.add("Add", place, graph.constant(np.array(1 << step, np.int64)))
        is_before = graph.add("LessOrEqual", graph.add("Gather", known, candidate), keys)
        place = graph.add("Where", is_before, candidate, place)
    is_known = graph.add("Equal", graph.add("Gather", known, place), keys)
    return place, graph.add("Cast", is_known, to=DOUBLE)


def _batch_size(graph: OnnxGraphBuilder) -> str:
    return graph.add("Shape", "lengths")  # (1,)


def _double(graph: OnnxGraphBuilder, value: Any) -> str:
    return graph.constant(np.asarray(value, np.float64))
