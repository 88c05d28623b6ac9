"""Hostile model folders: copies of a saved model with mutated files and recomputed checksums."""

import contextlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hardening.mutation import UNUSUAL_TEXT, ByteSource, make_case

Header = dict[str, dict[str, Any]]
Files = dict[str, bytes]

VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 255, 1 << 31, 1 << 40, -(1 << 63), 10**400, 0.5, 1e308),
    *("", "x", "none", "auto", "\ud800", "\x1b[2J", "../../x", "/etc/passwd", "a" * 10_000),
    *([], {}, [[]], [1, 2], ["a", "a"], {"a": 1}, [None, None], [1.5, 2.5], [True, False], "spacy"),
    *("te", "bert", "cnn", "avg", "lama", "san", "float16", "int8", float("nan"), float("inf")),
)
NUMBERS = (0.0, -0.0, 1.0, 1e-45, 3e38, -3e38, 1e30, float("nan"), float("inf"), float("-inf"))
DTYPES = ("F32", "F16", "I8", "U8", "U32", "I64", "F64", "BF16", "BOOL", "F8_E4M3", "", "X")
NUMPY_TYPES = (np.float16, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint32, np.bool_)
OPERATORS = (
    *("Loop", "If", "Scan", "ConstantOfShape", "Gemm", "MatMul", "Tanh", "Neg", "Exp", "Identity"),
    *("Gather", "NonZero", "RandomNormal", "Expand", "Tile", "Pad", "Range", "Resize", "NoSuchOp"),
)
LOCATIONS = ("../../x", "/etc/passwd", "config.json", "", "model.safetensors\0", "./model.onnx")


@dataclass(frozen=True, slots=True)
class HostileFolder:
    """The plan of a hostile model folder: file contents, links and names to remove."""

    files: Files
    links: dict[str, str]
    folders: set[str]

    def write(self, destination: Path) -> None:
        """Write the hostile folder to disk, replacing what is there."""
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir(parents=True)
        for name, content in self.files.items():
            (destination / name).write_bytes(content)
        for name, target in self.links.items():
            (destination / name).unlink(missing_ok=True)
            (destination / name).symlink_to(target)
        for name in self.folders:
            (destination / name).unlink(missing_ok=True)
            (destination / name).mkdir()


def plan_hostile_folder(base: Files, source: ByteSource) -> HostileFolder:
    """Mutate one to three files of a base model as the input's bytes say."""
    folder = HostileFolder(dict(base), {}, set())
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        mutate = source.choice(FILE_MUTATIONS)
        with contextlib.suppress(Exception):  # the file is missing, or a mutation has damaged it
            mutate(folder, source)
    if source.number(16) != 15:  # otherwise the checksums reject the folder
        recompute_checksums(folder.files)
    return folder


def read_folder(folder: Path) -> Files:
    """Read all files of a saved model that hostile folders are derived from."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def recompute_checksums(files: Files) -> None:
    """Write the checksums of a hostile folder's files into its config, as an attacker would."""
    try:
        config = json.loads(files.get("config.json", b""))
        listed = config["files"]
        for name in list(listed):
            if name in files:
                listed[name] = crc32(files[name])
        files["config.json"] = json.dumps(config).encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError, RecursionError):
        return  # the mutated config no longer lists its files


# JSON files


def _mutate_json(content: bytes, source: ByteSource) -> bytes:
    """Replace, remove, add or rename one value in a JSON file."""
    tree = json.loads(content)
    node: Any = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = source.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and source.number(4):
            node = node[key]
            continue
        _change_value(node, key, source)
        break
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _change_value(node: Any, key: Any, source: ByteSource) -> None:
    kind = source.number(6)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[str(key) + "_"] = node.pop(key)
    elif kind == 2 and isinstance(node, list):
        node.append(source.choice(VALUES))
    else:
        node[key] = source.choice(VALUES)


def _json_file(name: str) -> Callable[[HostileFolder, ByteSource], None]:
    def mutate(folder: HostileFolder, source: ByteSource) -> None:
        folder.files[name] = _mutate_json(folder.files[name], source)

    return mutate


# Tensors


def _split_safetensors(content: bytes) -> tuple[Header, bytes]:
    size = struct.unpack("<Q", content[:8])[0]
    header: Header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    return header, content[8 + size :]


def _join_safetensors(header: dict[str, Any], content: bytes) -> bytes:
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content


def _pack(arrays: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header: Header = {}
    content = b""
    for name, (dtype, shape, data) in arrays.items():
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        content += data
    return _join_safetensors(header, content)


_CODES = {
    "float32": "F32", "float16": "F16", "float64": "F64", "int8": "I8", "uint8": "U8",
    "int32": "I32", "int64": "I64", "uint32": "U32", "bool": "BOOL",
}  # fmt: skip
_TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8, "U32": np.uint32}


def _resize(array: NDArray[Any], source: ByteSource) -> NDArray[Any]:
    """Return a valid tensor of another shape, type or order."""
    kind = source.number(6)
    if kind == 0:
        return array.T.copy()
    if kind == 1:
        return array.astype(source.choice(NUMPY_TYPES))
    if kind == 2:
        return array.reshape(-1)[: source.number(9)]
    shape = list(array.shape) or [1]
    axis = source.number(len(shape))
    if kind == 3:
        shape[axis] = source.number(12)
    elif kind == 4:
        shape[axis] += 1 + source.number(64)
    else:
        shape.insert(axis, 1 + source.number(3))
    return np.resize(array, shape)


def _mutate_tensors(content: bytes, source: ByteSource) -> bytes:
    """Change one tensor of a safetensors file, which stays valid, or damage its header."""
    header, data = _split_safetensors(content)
    if source.number(5) == 0:
        return _mutate_header(header, data, source)
    arrays = {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }
    name = source.choice(sorted(arrays))
    dtype, shape, raw = arrays[name]
    array = np.frombuffer(raw, _TYPES[dtype]).reshape(shape).copy()
    kind = source.number(5)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[source.choice((*sorted(arrays), "x", "\ud800", name + ".scale"))] = arrays.pop(name)
    elif kind == 2 and array.size:
        with np.errstate(all="ignore"):
            value = np.array(source.choice(NUMBERS)).astype(array.dtype)
        array.reshape(-1)[source.number(array.size) if source.number(2) else slice(None)] = value
        arrays[name] = (dtype, shape, array.tobytes())
    else:
        changed = _resize(array, source)
        arrays[name] = (_CODES[changed.dtype.name], list(changed.shape), changed.tobytes())
    return _pack(arrays)


def _mutate_header(header: Header, data: bytes, source: ByteSource) -> bytes:
    name = source.choice(sorted(header))
    entry = header[name]
    kind = source.number(6)
    if kind == 0:
        entry["dtype"] = source.choice(DTYPES)
    elif kind == 1:
        entry["shape"] = source.choice(
            ([], [0], [-1], [1 << 62, 4], [1.5], None, [1 << 31, 1 << 31])
        )
    elif kind == 2:
        entry["data_offsets"] = source.choice(([0, 0], [-4, 4], [8, 4], [0, 1 << 62], [0], None))
    elif kind == 3:
        metadata: tuple[Any, ...] = ({}, {"a": 1}, [], None, {"a": "b"})
        header["__metadata__"] = source.choice(metadata)
    elif kind == 4:
        return struct.pack("<Q", source.choice((0, 1, 1 << 20, 1 << 32, (1 << 64) - 1))) + data
    else:
        return _join_safetensors(header, data[: source.number(max(1, len(data)))])
    return _join_safetensors(header, data)


def _tensor_file(*names: str) -> Callable[[HostileFolder, ByteSource], None]:
    def mutate(folder: HostileFolder, source: ByteSource) -> None:
        name = source.choice([name for name in names if name in folder.files])
        folder.files[name] = _mutate_tensors(folder.files[name], source)

    return mutate


# The ONNX graph


def _mutate_graph(folder: HostileFolder, source: ByteSource) -> None:
    """Change a node, an initializer or an input of the ONNX graph; needs the package onnx."""
    if find_spec("onnx") is None:
        _mutate_bytes_of("model.onnx")(folder, source)
        return
    import onnx

    model = onnx.ModelProto.FromString(folder.files["model.onnx"])
    source.choice(
        (
            _mutate_node,
            _mutate_node,
            _mutate_initializer,
            _mutate_initializer,
            _insert_large_node,
            _remove_value,
        )
    )(model.graph, source)
    folder.files["model.onnx"] = model.SerializeToString()


def _mutate_node(graph: Any, source: ByteSource) -> None:
    node = source.choice(graph.node)
    kind = source.number(3)
    if kind == 0:
        node.op_type = source.choice(OPERATORS)
    elif kind == 1:
        node.input[source.number(len(node.input))] = source.choice(graph.node).output[0]
    else:
        graph.node.remove(node)


def _mutate_initializer(graph: Any, source: ByteSource) -> None:
    """Change where an initializer of the ONNX graph is stored, or its shape."""
    tensor = source.choice(graph.initializer)
    if tensor.external_data and source.number(2):
        entry = source.choice(tensor.external_data)
        entry.value = source.choice((*LOCATIONS, "0", "-1", "999999999999"))
    else:
        tensor.dims[:] = source.choice(([], [0], [-1], [1 << 40], [1, 1, 1]))


def _remove_value(graph: Any, source: ByteSource) -> None:
    values = source.choice((graph.input, graph.output))
    values.remove(source.choice(values))


def _insert_large_node(graph: Any, source: ByteSource) -> None:
    """Add a node that would allocate gigabytes to the ONNX graph."""
    import onnx

    helper, tensor_type = onnx.helper, onnx.TensorProto
    size = source.choice((1 << 20, 1 << 28, 600_000_000, 1 << 40))
    shape = helper.make_tensor("hostile_shape", tensor_type.INT64, [1], [size])
    graph.initializer.append(shape)
    large = helper.make_node("ConstantOfShape", ["hostile_shape"], ["hostile_zeros"])
    total = helper.make_node("ReduceMax", ["hostile_zeros"], ["hostile_max"], keepdims=0)
    last = next(node for node in graph.node if "logits" in node.output)
    last.output[list(last.output).index("logits")] = "honest_logits"
    added = helper.make_node("Add", ["honest_logits", "hostile_max"], ["logits"])
    for node in (large, total):
        graph.node.insert(0, node)
    graph.node.append(added)


# Any file


def _mutate_bytes_of(*names: str) -> Callable[[HostileFolder, ByteSource], None]:
    def mutate(folder: HostileFolder, source: ByteSource) -> None:
        name = source.choice([name for name in names if name in folder.files] or ["vocab.txt"])
        number = 1 + source.number(1 << 30)
        content = folder.files.get(name, b"")
        folder.files[name] = make_case([content], UNUSUAL_TEXT, 0, number)

    return mutate


def _mutate_vocabulary(folder: HostileFolder, source: ByteSource) -> None:
    lines = folder.files["vocab.txt"].split(b"\n")
    at = source.number(len(lines))
    kind = source.number(5)
    if kind == 0:
        lines.insert(at, source.choice(lines))
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        lines[at] = source.choice((*UNUSUAL_TEXT, b"\xff", b"", b"\r", b"a" * 70_000))
    elif kind == 3:
        lines = lines[:at]
    else:
        lines += [b"word%d" % number for number in range(source.number(300))]
    folder.files["vocab.txt"] = b"\n".join(lines)


def _replace_file(folder: HostileFolder, source: ByteSource) -> None:
    """Remove a file, or put a link or a folder in its place, or a file of another size."""
    name = source.choice(sorted(folder.files))
    kind = source.number(5)
    if kind == 0:
        del folder.files[name]
    elif kind == 1:
        folder.files.pop(name)
        folder.folders.add(name)
    elif kind == 2:
        folder.links[name] = source.choice(("/etc/hostname", "missing", name, os.devnull, "/"))
    elif kind == 3:
        folder.files[name] = b""
    else:
        folder.files[source.choice(("wide.safetensors", "checkpoint.safetensors", "x"))] = b"x"


FILE_MUTATIONS: tuple[Callable[[HostileFolder, ByteSource], None], ...] = (
    _json_file("config.json"),
    _json_file("config.json"),
    _json_file("tokenizer.json"),
    _json_file("metrics.json"),
    _tensor_file("model.safetensors"),
    _tensor_file("model.safetensors"),
    _tensor_file("ngrams.safetensors", "model.safetensors"),
    _mutate_graph,
    _mutate_graph,
    _mutate_vocabulary,
    _mutate_bytes_of("model.onnx"),
    _mutate_bytes_of("model.safetensors", "ngrams.safetensors"),
    _mutate_bytes_of("config.json", "tokenizer.json", "metrics.json", "vocab.txt", "README.md"),
    _replace_file,
)
