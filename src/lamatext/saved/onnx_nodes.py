"""A small writer of ONNX graphs: every step names a value, and the next one takes that name."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from lamatext.errors import require
from lamatext.saved.quantization import SCALE, Array

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, IR_VERSION = 17, 9  # read by every ONNX Runtime since 1.15


class Nodes:
    """The nodes and tensors of a graph in the making.

    Steps that depend on tensors alone (joining the gates of a GRU, restoring float32) are nodes
    like all others: ONNX Runtime computes them once, when it loads the graph.
    """

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._onnx = require("onnx", extra="train", purpose="Writing model.onnx")
        self._tensors = tensors
        self._nodes: list[Any] = []
        self._stored: dict[str, Any] = {}
        self._optional: list[Any] = []
        self._numbers = count()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: object) -> str:
        """The value that ``op`` makes of other values."""
        name = name or self._fresh(op)
        self._nodes.append(self._onnx.helper.make_node(op, inputs, [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """Equal parts of a value along its first axis."""
        stem = self._fresh("Split")
        names = [f"{stem}.{part}" for part in range(parts)]
        self._nodes.append(self._onnx.helper.make_node("Split", [value], names, axis=0))
        return names

    def optional(self, name: str, shape: Sequence[str | int]) -> str:
        """A float32 input that may be left out; then it is empty."""
        empty = np.zeros([0 if isinstance(size, str) else size for size in shape], np.float32)
        self._stored[name] = self._onnx.numpy_helper.from_array(empty, name)
        self._optional.append(self._floats(name, shape))
        return name

    def either(
        self, condition: str, then: Callable[[], str], otherwise: Callable[[], str], *, name: str
    ) -> str:
        """The value that ``then`` makes if ``condition`` holds, else that of ``otherwise``."""
        branches = {"then_branch": self._branch(then), "else_branch": self._branch(otherwise)}
        return self.add("If", condition, name=name, **branches)

    def constant(self, value: Sequence[int] | Array) -> str:
        """A value that is written into the graph; sequences are shapes and axes."""
        array = np.asarray(value, np.int64) if isinstance(value, list | tuple) else value
        name = self._fresh("Constant")
        self._stored[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def number(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant(np.array(value, np.float32))

    def integer(self, value: int) -> str:
        """An int32 scalar."""
        return self.constant(np.array(value, np.int32))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor of the network."""
        return self._tensors[name].shape

    def tensor(self, name: str) -> str:
        """A tensor of the network, in float32 however it is stored."""
        stored = self._initializer(name)
        kind = self._tensors[name].dtype
        if kind == np.float32:
            return stored
        floats = self.add("Cast", stored, to=self._onnx.TensorProto.FLOAT)
        if kind != np.int8:
            return floats
        scale = self.add("Unsqueeze", self._initializer(name + SCALE), self.constant([1]))
        return self.add("Mul", floats, scale)

    def transposed(self, name: str) -> str:
        """A matrix of the network (out, in) as (in, out)."""
        return self.add("Transpose", self.tensor(name), perm=[1, 0])

    def rows(self, name: str, ids: str) -> str:
        """The rows of a matrix at ``ids`` (B, T): (B, T, width). Only these turn to float32."""
        kind = self._tensors[name].dtype
        rows = self.add("Gather", self._initializer(name), ids)
        if kind == np.float32:
            return rows
        floats = self.add("Cast", rows, to=self._onnx.TensorProto.FLOAT)
        if kind != np.int8:
            return floats
        scale = self.add("Gather", self._initializer(name + SCALE), ids)  # (B, T)
        return self.add("Mul", floats, self.add("Unsqueeze", scale, self.constant([2])))

    def model(self, outputs: Mapping[str, Sequence[str | int]]) -> "ModelProto":
        """The finished graph, from ``ids`` (B, T) and ``lengths`` (B,) to the named outputs."""
        helper, int32 = self._onnx.helper, self._onnx.TensorProto.INT32
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self._nodes,
            "lamatext",
            [value("ids", int32, ["B", "T"]), value("lengths", int32, ["B"]), *self._optional],
            [self._floats(name, shape) for name, shape in outputs.items()],
            list(self._stored.values()),
        )
        opset = helper.make_opsetid("", OPSET)
        model: ModelProto = helper.make_model(
            graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="lamatext"
        )
        return model

    def _branch(self, make: Callable[[], str]) -> Any:
        outer, self._nodes = self._nodes, []
        name = make()
        inner, self._nodes = self._nodes, outer
        return self._onnx.helper.make_graph(inner, name, [], [self._floats(name, None)])

    def _floats(self, name: str, shape: Sequence[str | int] | None) -> Any:
        kind = self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)

    def _initializer(self, name: str) -> str:
        if name not in self._stored:
            self._stored[name] = self._onnx.numpy_helper.from_array(self._tensors[name], name)
        return name

    def _fresh(self, stem: str) -> str:
        return f"{stem}_{next(self._numbers)}"
