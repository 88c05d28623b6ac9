"""ONNX protobuf writer: serializes a graph to the bytes of an ``.onnx`` file, without ``onnx``.

Prediction builds its graph from the validated settings and tensors of a saved model instead of
trusting a graph in the folder, and the core installation does not include the onnx package. Only
the message types that our graphs need are supported. Field numbers are those of ``onnx.proto``;
fields are written in ascending order, so the bytes equal those that the onnx package writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ELEMENT_TYPES = {  # TensorProto.DataType
    np.dtype(np.float32): 1,
    np.dtype(np.uint8): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.int32): 6,
    np.dtype(np.int64): 7,
    np.dtype(np.float16): 10,
    np.dtype(np.float64): 11,
    np.dtype(np.uint32): 12,
}
FLOAT, INT32, INT64, DOUBLE = 1, 6, 7, 11
_EXTERNAL = 1  # TensorProto.DataLocation
_ATTRIBUTE_TYPES = {int: 2, str: 3, bytes: 5, list: 7}  # AttributeProto.AttributeType


@dataclass(frozen=True, slots=True)
class ExternalData:
    """File and byte range in which an ONNX tensor is stored outside the protobuf message."""

    location: str
    offset: int
    length: int


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are written in two's complement
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def write_node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]
) -> bytes:
    """Serialize an ONNX node (operator, inputs, outputs, attributes) as a protobuf NodeProto."""
    parts = [_text(1, name) for name in inputs]
    parts += [_text(2, name) for name in outputs]
    parts.append(_text(4, op))
    parts += [_bytes(5, _attribute(name, attributes[name])) for name in sorted(attributes)]
    return b"".join(parts)


def _attribute(name: str, value: Any) -> bytes:
    head = _text(1, name)
    kind = _integer(20, _ATTRIBUTE_TYPES[type(value)])
    match value:
        case int():
            return head + _integer(3, value) + kind
        case str():
            return head + _text(4, value) + kind
        case bytes():  # a graph
            return head + _bytes(6, value) + kind
        case _:
            return head + b"".join(_integer(8, item) for item in value) + kind


def write_tensor(name: str, tensor: NDArray[Any], external: ExternalData | None = None) -> bytes:
    """Serialize a tensor as an ONNX TensorProto, with its values or a reference to a file."""
    dims = b"".join(_integer(1, size) for size in tensor.shape)
    head = dims + _integer(2, ELEMENT_TYPES[tensor.dtype]) + _text(8, name)
    if external is None:
        return head + _bytes(9, np.ascontiguousarray(tensor).tobytes())
    entries = {"location": external.location, "offset": external.offset, "length": external.length}
    pairs = (_text(1, key) + _text(2, str(value)) for key, value in entries.items())
    return head + b"".join(_bytes(13, pair) for pair in pairs) + _integer(14, _EXTERNAL)


def write_value(name: str, element_type: int, shape: Sequence[str | int] | None) -> bytes:
    """Serialize the name, type and shape of an ONNX graph input or output as a ValueInfoProto."""
    tensor = _integer(1, element_type)
    if shape is not None:
        sizes = (_text(2, size) if isinstance(size, str) else _integer(1, size) for size in shape)
        tensor += _bytes(2, b"".join(_bytes(1, size) for size in sizes))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def write_graph(
    name: str,
    *,
    nodes: Iterable[bytes],
    tensors: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
) -> bytes:
    """Combine serialized nodes, tensors, inputs and outputs into an ONNX protobuf GraphProto."""
    parts = [_bytes(1, node) for node in nodes]
    parts.append(_text(2, name))
    parts += [_bytes(5, tensor) for tensor in tensors]
    parts += [_bytes(11, value) for value in inputs]
    parts += [_bytes(12, value) for value in outputs]
    return b"".join(parts)


def write_model(
    graph: bytes,
    *,
    opset: int,
    ir_version: int,
    producer: str,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Serialize an ONNX model as a protobuf ModelProto, the content of an ``.onnx`` file."""
    opset_import = _text(1, "") + _integer(2, opset)
    head = _integer(1, ir_version) + _text(2, producer)
    entries = (_text(1, key) + _text(2, value) for key, value in (metadata or {}).items())
    properties = b"".join(_bytes(14, entry) for entry in entries)
    return head + _bytes(7, graph) + _bytes(8, opset_import) + properties
