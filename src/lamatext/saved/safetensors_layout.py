"""Byte layout of a safetensors file: where each tensor is stored, and views on the bytes.

The file is the header's length (8 bytes, little-endian), the header (JSON), then the tensors.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from lamatext.errors import ModelError


class TensorLocation(NamedTuple):
    """Data type, shape and byte range of one tensor in a safetensors file."""

    dtype: str  # as safetensors names it: F32, F16, I8
    shape: list[int]
    start: int  # from the beginning of the file
    end: int


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in a safetensors file, reading only the header."""
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read: {error}.") from error


def tensor_locations(data: bytes) -> dict[str, TensorLocation]:
    """Parse a safetensors header and return the location of each tensor in the file."""
    begin = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        name: TensorLocation(
            entry["dtype"], entry["shape"], *(begin + byte for byte in entry["data_offsets"])
        )
        for name, entry in header.items()
    }


_TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8}


def tensor_views(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors in the bytes of a safetensors file as NumPy views, without copying."""
    file = np.frombuffer(data, np.uint8)
    return {
        name: file[tensor.start : tensor.end].view(_TYPES[tensor.dtype]).reshape(tensor.shape)
        for name, tensor in tensor_locations(data).items()
    }
