"""``model.onnx``: a graph of a few kB whose tensors lie in ``model.safetensors`` beside it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lamatext.saved.onnx_graph import build_graph
from lamatext.saved.quantization import Array, places
from lamatext.settings import ModelSettings

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

GRAPH_FILE, TENSOR_FILE = "model.onnx", "model.safetensors"


def write_onnx(folder: Path, model: ModelSettings, tensors: Mapping[str, Array]) -> None:
    """Write the graph of a network whose ``tensors`` already lie in the folder's safetensors file.

    A reader sees the old file or the new one, never a part of one.
    """
    graph = build_graph(model, tensors)
    _point_into(graph, folder / TENSOR_FILE)
    unfinished = folder / f"{GRAPH_FILE}.{os.getpid()}.tmp"
    try:
        unfinished.write_bytes(graph.SerializeToString())
        unfinished.replace(folder / GRAPH_FILE)
    finally:
        unfinished.unlink(missing_ok=True)


def _point_into(graph: "ModelProto", file: Path) -> None:
    """Replace the tensors of a graph that the file holds by their places in it."""
    held = places(file.read_bytes())
    for tensor in graph.graph.initializer:
        if tensor.name in held:
            _, _, start, end = held[tensor.name]
            _make_external(tensor, location=file.name, offset=start, length=end - start)


def _make_external(tensor: "TensorProto", **place: object) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = type(tensor).EXTERNAL
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
