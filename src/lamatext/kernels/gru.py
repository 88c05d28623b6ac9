"""A one-layer bidirectional GRU over texts of different lengths: the fast way and the plain way.

Both give what ``torch.nn.GRU`` gives on packed sequences: the backward direction begins at each
text's last word, and the states of padding are zero. ``run_gru`` takes the fast one where it can.

Shapes: B texts, T words of the longest, E input width, h hidden units of a direction.
"""

import importlib.util
import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SWITCH = "LAMATEXT_GRU"  # environment: "plain" never takes the compiled kernel


def run_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The states (B, T, 2h) of ``inputs`` (B, T, E); ``lengths`` (B,) says how many are words."""
    if use_kernel(gru, inputs, lengths):
        return bigru(inputs, lengths, [weight for way in gru.all_weights for weight in way])
    if inputs.is_cuda and _is_ours(gru):
        from lamatext.kernels.gru_cuda import can_run, cuda_bigru

        if can_run(inputs, gru.hidden_size):
            return cuda_bigru(
                inputs, lengths, [weight for way in gru.all_weights for weight in way]
            )
    return plain_gru(gru, inputs, lengths)


def use_kernel(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> bool:
    """Whether the compiled kernel can do this and is the faster way, and the user lets it."""
    weight = gru.weight_ih_l0
    return (
        _is_ours(gru)
        and inputs.device.type == weight.device.type == "cpu"
        and inputs.dtype == weight.dtype
        and inputs.dtype in (torch.float32, torch.float64)
        and _pays(inputs.shape[1], lengths, gru.hidden_size)
        and importlib.util.find_spec("numba") is not None
    )


def _pays(words: int, lengths: Tensor, hidden: int) -> bool:
    """The kernel rearranges the weights for every batch, which takes a few words to pay.

    Where texts differ in length torch has to pack them: then it pays sooner.
    """
    if words >= max(3, hidden / 40):
        return True
    return words >= max(2, hidden / 64) and _ragged(words, lengths)


def _ragged(words: int, lengths: Tensor) -> bool:
    return not bool((lengths == words).all())


def on_gpu(gru: nn.GRU) -> bool:
    """Whether a kernel of ours does this GRU on an NVIDIA GPU, lengths of texts included."""
    from lamatext.kernels.gru_cuda import MOST_UNITS, kernels

    hidden = gru.hidden_size
    return _is_ours(gru) and hidden <= MOST_UNITS and kernels(hidden) is not None


def _is_ours(gru: nn.GRU) -> bool:
    """Whether a kernel of ours does this kind of GRU, and the user lets it."""
    return (
        os.environ.get(SWITCH) != "plain"
        and (gru.num_layers, gru.bidirectional, gru.bias, gru.proj_size) == (1, True, True, 0)
        and gru.batch_first
    )


def plain_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The same by torch alone, on any device; texts of one length need no packing."""
    _check_lengths(inputs, lengths)
    if gru.batch_first and not _ragged(inputs.shape[1], lengths):
        whole: Tensor = gru(inputs)[0]
        return whole
    return packed_gru(gru, inputs, lengths)


def packed_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The same by torch on packed sequences."""
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = gru(packed)
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])
    return padded


def bigru(inputs: Tensor, lengths: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The same by the compiled kernel, on the CPU in float32 or float64.

    ``parameters`` are those of an ``nn.GRU`` in its order: weight_ih, weight_hh, bias_ih, bias_hh,
    first of the forward and then of the backward direction.
    """
    from lamatext.kernels.gru_function import BiGru

    _check_lengths(inputs, lengths)
    states: Tensor = BiGru.apply(inputs, lengths, *parameters)  # type: ignore[no-untyped-call]
    return states


def _check_lengths(inputs: Tensor, lengths: Tensor) -> None:
    texts, words, _ = inputs.shape
    if lengths.shape != (texts,) or lengths.min() < 1 or lengths.max() > words:
        got = lengths.tolist()
        raise ValueError(f"lengths must be {texts} numbers from 1 to {words}, got {got}.")


def ready() -> bool:
    """Whether the kernel runs at once: without numba, or compiled before on this machine."""
    if importlib.util.find_spec("numba") is None:
        return True
    from lamatext.kernels.attention_back import attend_back
    from lamatext.kernels.attention_walk import attend
    from lamatext.kernels.gru_function import KERNELS
    from lamatext.kernels.numba_compat import is_compiled

    return all(is_compiled(kernel) for kernel in (*KERNELS, attend, attend_back))


def compile_kernels(dtype: torch.dtype = torch.float32) -> None:
    """Compile the kernels ahead of their first use: some seconds once, then read from disk."""
    if importlib.util.find_spec("numba") is None:
        return
    from lamatext.kernels.attention_cpu import compile_attention

    compile_attention(dtype)
    shapes = [(3, 1), (3, 1), (3,), (3,)] * 2
    parameters = [torch.zeros(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    inputs = torch.zeros(1, 1, 1, dtype=dtype, requires_grad=True)
    bigru(inputs, torch.ones(1, dtype=torch.int64), parameters).sum().backward()  # type: ignore[no-untyped-call]
