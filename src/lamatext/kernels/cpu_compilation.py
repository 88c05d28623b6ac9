"""Compile the CPU kernels (GRU, attention, AdamW) before the first training batch needs them."""

import importlib.util

import torch

from lamatext.kernels.gru_dispatch import cpu_gru


def cpu_kernels_are_compiled() -> bool:
    """Return whether the CPU kernels are already compiled, or not used at all.

    Compiled kernels are cached on disk. Without numba they are not used.
    """
    if importlib.util.find_spec("numba") is None:
        return True
    from lamatext.kernels import adamw_rows_cpu, attention_cpu, gru_cpu
    from lamatext.kernels.numba_compat import is_compiled

    modules = (gru_cpu, attention_cpu, adamw_rows_cpu)
    return all(is_compiled(kernel) for module in modules for kernel in module.KERNELS)


def compile_cpu_kernels(dtype: torch.dtype = torch.float32) -> None:
    """Compile the CPU kernels and cache them on disk, which takes seconds on first use."""
    if importlib.util.find_spec("numba") is None:
        return
    from lamatext.kernels.adamw_rows_cpu import compile_adamw_rows
    from lamatext.kernels.attention_cpu import compile_attention

    compile_attention(dtype)
    compile_adamw_rows(dtype)
    shapes = [(3, 1), (3, 1), (3,), (3,)] * 2
    parameters = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    inputs = torch.zeros(1, 1, 1, dtype=dtype, requires_grad=True)
    cpu_gru(inputs, torch.ones(1, dtype=torch.int64), parameters).sum().backward()  # type: ignore[no-untyped-call]
