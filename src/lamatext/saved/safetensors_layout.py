"""Byte layout of a safetensors file: a strict reader that checks every offset before use.

The file consists of the header length (8 bytes, little-endian), the JSON header and the tensors.
"""

import json
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import ModelError

_TYPES: dict[str, Any] = {
    "F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8, "U32": np.uint32,
}  # fmt: skip


class TensorLocation(NamedTuple):
    """Data type, shape and byte range of one tensor in a safetensors file."""

    dtype: str  # as safetensors names it: F32, F16, I8
    shape: tuple[int, ...]
    start: int  # from the beginning of the file
    end: int


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read all tensors of a safetensors file, or raise ModelError if the file is damaged."""
    try:
        data = path.read_bytes()
        return tensor_views(data)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error
    except MemoryError as error:
        raise ModelError(f"{path}: does not fit into memory.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{path}: not a valid safetensors file: {error}. Copy the folder again."
        ) from error


def tensor_views(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors in a safetensors byte string as NumPy views, without copying."""
    file = np.frombuffer(data, np.uint8)
    return {
        name: np.frombuffer(file[tensor.start : tensor.end].data, _TYPES[tensor.dtype]).reshape(
            tensor.shape
        )
        for name, tensor in tensor_locations(data).items()
    }


def tensor_locations(data: bytes) -> dict[str, TensorLocation]:
    """Parse the header of a safetensors file and return the location of each tensor.

    Raises:
        ValueError: the header is malformed, or a tensor is not within the file.
    """
    begin = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or begin > len(data):
        raise ValueError("the header is longer than the file")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: _location(name, entry, begin, len(data)) for name, entry in header.items()}


def _location(name: str, entry: dict[str, Any], begin: int, length: int) -> TensorLocation:
    dtype, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    numbers = (*shape, first, last)
    if dtype not in _TYPES or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"the entry of {name[:60]} is malformed")
    size = prod(shape) * np.dtype(_TYPES[dtype]).itemsize
    if last - first != size or begin + last > length:
        raise ValueError(f"the bytes of {name[:60]} are not within the file")
    return TensorLocation(dtype, shape, begin + first, begin + last)
