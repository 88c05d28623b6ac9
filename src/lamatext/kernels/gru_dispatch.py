"""Choose how a one-layer bidirectional GRU runs: CPU kernel, CUDA kernel, or torch's ``nn.GRU``.

All three return what ``torch.nn.GRU`` returns for packed sequences (``packed_gru``, the reference
implementation of both kernels): the backward direction starts at each text's last word, and the
states of padding are zero.

Shapes: B texts, T words of the longest text, E input width, h hidden units per direction.
"""

import importlib.util
import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lamatext.kernels import gru_cuda

SWITCH = "LAMATEXT_GRU"  # environment: "plain" disables the GRU kernels


def run_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Run a bidirectional GRU with the fastest available implementation (CPU, CUDA or torch).

    Return the states (B, T, 2h) of ``inputs`` (B, T, E). ``lengths`` (B,) is the number of words of
    each text; the rest is padding.
    """
    if use_cpu_kernel(gru, inputs, lengths):
        return cpu_gru(inputs, lengths, _parameters(gru))
    if inputs.is_cuda and _is_supported(gru) and gru_cuda.can_run(inputs, gru.hidden_size):
        return gru_cuda.cuda_gru(inputs, lengths, _parameters(gru))
    return plain_gru(gru, inputs, lengths)


def use_cpu_kernel(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> bool:
    """Return whether the CPU kernel supports this GRU batch and is faster than torch."""
    weight = gru.weight_ih_l0
    return (
        _is_supported(gru)
        and inputs.device.type == weight.device.type == "cpu"
        and inputs.dtype == weight.dtype
        and inputs.dtype in (torch.float32, torch.float64)
        and _cpu_kernel_is_faster(inputs.shape[1], lengths, gru.hidden_size)
        and importlib.util.find_spec("numba") is not None
    )


def has_cuda_kernel(gru: nn.GRU) -> bool:
    """Return whether this GRU can run on the CUDA kernel."""
    return _is_supported(gru) and gru_cuda.is_available(gru.hidden_size)


def _is_supported(gru: nn.GRU) -> bool:
    """Return whether the GRU kernels are enabled and support this kind of GRU."""
    return (
        os.environ.get(SWITCH) != "plain"
        and (gru.num_layers, gru.bidirectional, gru.bias, gru.proj_size) == (1, True, True, 0)
        and gru.batch_first
    )


def _cpu_kernel_is_faster(words: int, lengths: Tensor, hidden: int) -> bool:
    """Return whether the CPU GRU kernel is faster than torch for texts of these lengths.

    The kernel repacks the weights for every batch, so it is faster only from a few words per text
    on. Fewer words suffice if the lengths differ, because torch then has to pack the texts.
    """
    if words >= max(3, hidden / 40):
        return True
    return words >= max(2, hidden / 64) and not _same_length(words, lengths)


def _same_length(words: int, lengths: Tensor) -> bool:
    return bool((lengths == words).all())


def _parameters(gru: nn.GRU) -> list[Tensor]:
    return [weight for direction in gru.all_weights for weight in direction]


def plain_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Run torch's own GRU on a batch, packing the sequences only if their lengths differ."""
    _check_lengths(inputs, lengths)
    if gru.batch_first and _same_length(inputs.shape[1], lengths):
        states: Tensor = gru(inputs)[0]
        return states
    return packed_gru(gru, inputs, lengths)


def packed_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Run torch's GRU on packed sequences: the reference implementation of both GRU kernels."""
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = gru(packed)
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])
    return padded


def cpu_gru(inputs: Tensor, lengths: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Run the CPU GRU kernel on a batch in float32 or float64.

    ``parameters`` are in the order of ``nn.GRU``: weight_ih, weight_hh, bias_ih, bias_hh of the
    forward direction, then of the backward direction.
    """
    from lamatext.kernels.gru_cpu import CpuBiGru  # needs numba

    states: Tensor = CpuBiGru.apply(inputs, lengths, *parameters)  # type: ignore[no-untyped-call]
    return states


def _check_lengths(inputs: Tensor, lengths: Tensor) -> None:
    texts, words, _ = inputs.shape
    if lengths.shape != (texts,) or lengths.min() < 1 or lengths.max() > words:
        raise ValueError(
            f"lengths must be {texts} numbers from 1 to {words}, got {lengths.tolist()}."
        )
