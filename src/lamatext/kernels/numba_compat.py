"""Typed access to numba: compile CPU kernels, cache them on disk, or compile them ahead of use.

A kernel is compiled at its first call and cached on disk: next to the package or, if that folder is
not writable, in the user's cache folder.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.ir
import numba
import numba.core.cgutils
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])

# numba has partial type stubs and llvmlite has none, so their names are re-exported as Any.
ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils
models: Any = numba.extending.models
intrinsic = cast(Callable[[Callable[..., Any]], Any], numba.extending.intrinsic)
overload = cast(Callable[[Any], Callable[[Function], Function]], numba.extending.overload)
register_model = cast(Callable[[Any], Callable[[type], type]], numba.extending.register_model)

SOURCES = tuple(Path(__file__).parent.glob("*.py"))  # a change in any of them outdates the cache


def compiled(function: Function) -> Function:
    """Compile a kernel with numba, caching it on disk and releasing the GIL while it runs."""
    try:
        fast = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no writable cache folder: compile in every process
        fast = numba.njit(nogil=True, error_model="numpy")(function)
    _delete_outdated(fast)
    return cast(Function, fast)


def is_compiled(function: Any) -> bool:
    """Return whether numba has a compiled version of a kernel, in memory or in its disk cache."""
    return bool(function.signatures) or any(_cache_files(function))


def _cache_files(function: Any) -> list[Path]:
    folder = function.stats.cache_path
    name = function.py_func.__qualname__
    module = function.py_func.__module__.rpartition(".")[2]
    return list(Path(folder).glob(f"{module}.{name}-*.nbi")) if folder else []


def _delete_outdated(function: Any) -> None:
    """Delete cached numba files of a kernel that are older than the newest kernel source.

    numba itself checks only the file of the function, not those of the functions it calls.
    """
    for index in _cache_files(function):
        with suppress(OSError):
            if index.stat().st_mtime < max(source.stat().st_mtime for source in SOURCES):
                index.unlink()


def cpu_kernels_are_compiled() -> bool:
    """Return whether the CPU kernels (GRU, attention, AdamW) are already compiled."""
    from lamatext.kernels import adamw_rows_cpu, attention_cpu, gru_cpu  # they import this module

    modules = (gru_cpu, attention_cpu, adamw_rows_cpu)
    return all(is_compiled(kernel) for module in modules for kernel in module.KERNELS)


def compile_cpu_kernels() -> None:
    """Compile the CPU kernels before training needs them, which takes seconds on first use."""
    import torch

    from lamatext.kernels.adamw_rows_cpu import compile_adamw_rows
    from lamatext.kernels.attention_cpu import compile_attention
    from lamatext.kernels.gru_dispatch import cpu_gru

    dtype = torch.float32
    compile_attention(dtype)
    compile_adamw_rows(dtype)
    shapes = [(3, 1), (3, 1), (3,), (3,)] * 2
    parameters = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    inputs = torch.zeros(1, 1, 1, dtype=dtype, requires_grad=True)
    cpu_gru(inputs, torch.ones(1, dtype=torch.int64), parameters).sum().backward()  # type: ignore[no-untyped-call]
