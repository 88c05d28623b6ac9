"""Quantization of network tensors for storage as float32 (unchanged), float16 or int8.

An int8 matrix has one float32 scale per row, so that row = int8 row * scale. The scales are stored
under the name of the matrix plus ``.scale``. All computation is in float32, for every storage.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lamatext.errors import ConfigError

Array = NDArray[Any]
Storage = Literal["float32", "float16", "int8"]

INT8_TENSORS = ("embedding.", "classifier.")  # int8 storage keeps other matrices in float16
SCALE = ".scale"


def quantize(tensors: Mapping[str, Array], storage: Storage) -> dict[str, Array]:
    """Quantize the weight matrices of a network to float16 or int8, keeping vectors as float32.

    The storage ``float32`` leaves all tensors unchanged.
    """
    if storage not in get_args(Storage):
        raise ConfigError(f"weights ({storage!r}) must be one of {', '.join(get_args(Storage))}.")
    stored: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if storage == "float32" or tensor.ndim < 2:
            stored[name] = tensor
        elif storage == "int8" and tensor.ndim == 2 and name.startswith(INT8_TENSORS):
            stored[name], stored[name + SCALE] = _quantize_rows(tensor)
        else:
            stored[name] = tensor.astype(np.float16)
    return stored


def dequantize(stored: Mapping[str, Array]) -> dict[str, Array]:
    """Convert quantized tensors back to float32."""
    return {
        name: tensor * stored[name + SCALE][:, None]
        if tensor.dtype == np.int8
        else tensor.astype(np.float32, copy=False)
        for name, tensor in stored.items()
        if not name.endswith(SCALE)
    }


def _quantize_rows(matrix: Array) -> tuple[Array, Array]:
    scale = np.abs(matrix).max(axis=1) / np.float32(127)  # (rows,)
    scale = np.where(scale == 0, np.float32(1), scale).astype(np.float32)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale
