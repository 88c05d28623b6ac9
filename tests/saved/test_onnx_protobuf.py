"""The ONNX protobuf writer against the package onnx."""

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

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

ATTRIBUTES: list[dict[str, Any]] = [
    {},
    {"axis": -1},
    {"perm": [1, 0, 2], "direction": "bidirectional", "hidden_size": 300},
]


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_a_node_has_the_bytes_that_onnx_writes(attributes: dict[str, Any]) -> None:
    expected = helper.make_node("GRU", ["x", "", "w"], ["y"], **attributes)

    written = write_node("GRU", ["x", "", "w"], ["y"], attributes)

    assert written == expected.SerializeToString()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(300, dtype=np.float32).reshape(3, 100),
        np.array(-7, np.int64),
        np.zeros((0, 2), np.float16),
        np.array([-128, 127], np.int8),
        np.arange(6, dtype=np.int32).reshape(2, 3).T,
    ],
)
def test_a_tensor_has_the_bytes_that_onnx_writes(array: NDArray[Any]) -> None:
    assert write_tensor("w", array) == numpy_helper.from_array(array, "w").SerializeToString()


def test_an_external_tensor_has_the_bytes_that_onnx_writes() -> None:
    array = np.zeros((2, 3), np.float32)
    expected = TensorProto(
        name="w", dims=[2, 3], data_type=FLOAT, data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "a.bin"), ("offset", "8"), ("length", "24")):
        expected.external_data.add(key=key, value=value)

    assert write_tensor("w", array, ExternalData("a.bin", 8, 24)) == expected.SerializeToString()


def test_a_model_with_a_branch_has_the_bytes_that_onnx_writes() -> None:
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["B", 4])]
    values = [helper.make_tensor_value_info("x", INT32, ["B"]), condition]
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])],
        "z",
        [],
        [helper.make_tensor_value_info("z", FLOAT, None)],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    model = helper.make_model(
        helper.make_graph([node], "g", values, outputs, []),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
        producer_name="lamatext",
    )

    inner = write_graph(
        "z",
        nodes=[write_node("Identity", ["x"], ["z"], {})],
        tensors=[],
        inputs=[],
        outputs=[write_value("z", FLOAT, None)],
    )
    graph = write_graph(
        "g",
        nodes=[write_node("If", ["c"], ["y"], {"then_branch": inner, "else_branch": inner})],
        tensors=[],
        inputs=[write_value("x", INT32, ["B"]), write_value("c", TensorProto.BOOL, [])],
        outputs=[write_value("y", FLOAT, ["B", 4])],
    )

    written = write_model(graph, opset=17, ir_version=9, producer="lamatext")
    assert written == model.SerializeToString()
    assert onnx.load_from_string(written) == model
