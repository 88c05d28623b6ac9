"""numba's compiler, in the one place that knows its untyped face.

Code is compiled at its first call and kept on disk: beside the package, or where that cannot be
written in the user's own cache folder.
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

# numba's stubs cover a part of it and llvmlite has none: here their names become plain values.
ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils
models: Any = numba.extending.models
intrinsic = cast(Callable[[Callable[..., Any]], Any], numba.extending.intrinsic)
overload = cast(Callable[[Any], Callable[[Function], Function]], numba.extending.overload)
register_model = cast(Callable[[Any], Callable[[type], type]], numba.extending.register_model)

SOURCES = tuple(Path(__file__).parent.glob("*.py"))


def compiled(function: Function) -> Function:
    """``function`` compiled for the types it is called with, running without Python's lock."""
    try:
        fast = numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder to keep it in: compile in every process
        fast = numba.njit(nogil=True, error_model="numpy")(function)
    _forget_outdated(fast)
    return cast(Function, fast)


def is_compiled(function: Any) -> bool:
    """Whether compiled code for ``function`` is in memory or on disk."""
    return bool(function.signatures) or any(_kept(function))


def _kept(function: Any) -> list[Path]:
    """The files on disk that list what was compiled of ``function``."""
    folder = function.stats.cache_path
    name = function.py_func.__qualname__
    module = function.py_func.__module__.rpartition(".")[2]
    return list(Path(folder).glob(f"{module}.{name}-*.nbi")) if folder else []


def _forget_outdated(function: Any) -> None:
    """Drop what was compiled before any of the kernels' sources changed.

    numba itself looks only at the file of the function, not at those of the functions it calls.
    """
    for index in _kept(function):
        with suppress(OSError):
            if index.stat().st_mtime < max(source.stat().st_mtime for source in SOURCES):
                index.unlink()
