"""How a network's numbers lie on disk: as they are, in half the bytes, or in a quarter of them.

A matrix in int8 has a scale for each row: row = int8 row * scale. The scales stand beside it, under
its name with ``.scale`` added. All is computed in float32, whatever the storage.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import ConfigError

Array = NDArray[Any]
Storage = Literal["float32", "float16", "int8"]

LARGE = ("embedding.", "classifier.")  # what int8 is for; other matrices then lie in float16
SCALE = ".scale"


def stored_as(tensors: Mapping[str, Array], storage: Storage) -> dict[str, Array]:
    """The tensors of a network (float32) as they are to lie on disk; vectors stay as they are."""
    if storage not in get_args(Storage):
        raise ConfigError(f"weights ({storage!r}) must be one of {', '.join(get_args(Storage))}.")
    stored: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if storage == "float32" or tensor.ndim < 2:
            stored[name] = tensor
        elif storage == "int8" and tensor.ndim == 2 and name.startswith(LARGE):
            stored[name], stored[name + SCALE] = _to_int8(tensor)
        else:
            stored[name] = tensor.astype(np.float16)
    return stored


def restored(stored: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors in float32 again, under the names that the network knows."""
    return {
        name: tensor * stored[name + SCALE][:, None]
        if tensor.dtype == np.int8
        else tensor.astype(np.float32, copy=False)
        for name, tensor in stored.items()
        if not name.endswith(SCALE)
    }


def places(data: bytes) -> dict[str, tuple[str, list[int], int, int]]:
    """Type, shape, and first and last byte of each tensor in the bytes of a safetensors file.

    They are the header's length (8 bytes, little-endian), the header (JSON), the tensors.
    """
    begin = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], *(begin + byte for byte in entry["data_offsets"]))
        for name, entry in header.items()
    }


_TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8}


def tensors_in(data: bytes) -> dict[str, Array]:
    """The tensors as they lie in the bytes of a safetensors file; nothing is copied."""
    whole = np.frombuffer(data, np.uint8)
    return {
        name: whole[start:end].view(_TYPES[kind]).reshape(shape)
        for name, (kind, shape, start, end) in places(data).items()
    }


def _to_int8(matrix: Array) -> tuple[Array, Array]:
    scale = np.abs(matrix).max(axis=1) / np.float32(127)  # (rows,)
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale
