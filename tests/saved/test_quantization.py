import numpy as np
import pytest

from lamatext.errors import ConfigError
from lamatext.saved.quantization import dequantize, quantize

TENSORS = {
    "embedding.weight": np.array([[0, 0, 0], [1, -127, 3], [0.5, 0.25, -0.1]], np.float32),
    "encoder.gru.weight_ih_l0": np.array([[0.1, 2.0]], np.float32),
    "classifier.0.bias": np.array([0.1, 1e-8], np.float32),
}


def test_float32_storage_changes_nothing() -> None:
    assert quantize(TENSORS, "float32") == TENSORS


def test_float16_halves_the_matrices_and_leaves_the_vectors() -> None:
    stored = quantize(TENSORS, "float16")

    assert {name: tensor.dtype.name for name, tensor in stored.items()} == {
        "embedding.weight": "float16",
        "encoder.gru.weight_ih_l0": "float16",
        "classifier.0.bias": "float32",
    }


def test_int8_storage_is_used_for_embedding_and_classifier_only() -> None:
    stored = quantize(TENSORS, "int8")

    assert {name: tensor.dtype.name for name, tensor in stored.items()} == {
        "embedding.weight": "int8",
        "embedding.weight.scale": "float32",
        "encoder.gru.weight_ih_l0": "float16",
        "classifier.0.bias": "float32",
    }
    np.testing.assert_array_equal(stored["embedding.weight"][:2], [[0, 0, 0], [1, -127, 3]])


def test_int8_is_within_half_a_step_of_each_row() -> None:
    matrix = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)

    back = dequantize(quantize({"classifier.0.weight": matrix}, "int8"))["classifier.0.weight"]

    steps = np.abs(matrix).max(axis=1, keepdims=True) / 127
    assert (np.abs(back - matrix) <= 0.501 * steps).all()


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_dequantized_tensors_are_float32_under_their_names(storage: str) -> None:
    back = dequantize(quantize(TENSORS, storage))  # type: ignore[arg-type]

    assert back.keys() == TENSORS.keys()
    assert all(tensor.dtype == np.float32 for tensor in back.values())


def test_an_unknown_storage_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"weights \('int4'\) must be one of float32, float16"):
        quantize(TENSORS, "int4")  # type: ignore[arg-type]
