"""Starting the fused attention kernel: how a text is shared out, and what it is started with.

At a thousand words the GPU is done before Python has asked for the next text, so little is asked:
a kernel that was compiled is started without Triton's search for it, and the memory in which one
launch joins the chunks of a text is kept.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from lamatext.kernels.attention_gradients import Form

BLOCK = 64  # words a program scores at a time
WARPS, STAGES = 4, 2  # of a program; how far ahead of its use a block is read
PROGRAMS = 2  # that run on a processor at once
JOINED_AT_ONCE = 8192  # words of a text up to which its chunks are joined in the same launch
SPAN = 512  # words whose weights one program of the second launch writes
COLUMNS = 16  # of the embedding, likewise
PRECISION = "bf16x3"  # a product of float32 as three of bfloat16: right to 1e-5
ALIGNED = 16  # bytes: Triton compiles anew for pointers to anything else

_compiled: dict[tuple[Any, ...], Any] = {}  # kernels, by what they were compiled for
_kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # memory to join in, by GPU and stream


def launch(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    from lamatext.kernels import attention_triton as kernels

    states, heads, context_width = states.contiguous(), form.heads, form.p.shape[1]
    texts, words, width = states.shape
    chunk, chunks = chunks_of(texts, words, _processors(states.device))
    joined = (
        kernels.ALONE if chunks == 1 else kernels.LAST if words <= JOINED_AT_ONCE else kernels.SPLIT
    )
    embedding = states.new_empty(texts, heads, width)
    scores = weights = states.new_empty(texts, heads, words)
    if states.dtype != torch.float32:
        scores = torch.empty_like(weights, dtype=torch.float32)
    block_m, block_d = _power(heads), _power(width)
    scratch = counter = scores
    sums = texts * chunks * block_m * (block_d + 2)
    if joined == kernels.LAST:
        scratch, counter = _room(sums, texts, states.device)
    elif joined == kernels.SPLIT:
        scratch = scores.new_empty(sums)
    _start(
        kernels.attend,
        (chunks, texts, 1),
        (states, mask.contiguous(), *_parameters(form)),
        (
            embedding, scores, weights, scratch, counter, words, chunk, chunks,
            0 if form.context.dim() == 1 else context_width,
        ),
        (
            heads, form.rank, width, context_width, form.w is not None, form.tanh, form.l2,
            form.log_temperature is not None, joined, PRECISION if states.is_cuda else "ieee",
            BLOCK, block_m, block_d, _power(context_width),
        ),
    )  # fmt: skip
    if joined == kernels.SPLIT:
        parts = max(-(-words // SPAN), block_d // COLUMNS)
        constants = (heads, width, SPAN, COLUMNS, block_m, block_d)
        made = (scores, weights, scratch, words, chunks)
        _start(kernels.combine, (parts, texts, 1), (embedding,), made, constants)
    return embedding, weights


def chunks_of(texts: int, words: int, processors: int) -> tuple[int, int]:
    """How many words a program takes, and how many programs share a text."""
    blocks = -(-words // BLOCK)
    wished = max(1, min(blocks, PROGRAMS * processors // texts))
    if words <= JOINED_AT_ONCE:
        wished = min(wished, 64)
    chunk = -(-blocks // wished) * BLOCK
    return chunk, -(-words // chunk)


def _start(
    kernel: Any,
    grid: tuple[int, int, int],
    given: tuple[Tensor, ...],
    made: tuple[Any, ...],
    constants: tuple[Any, ...],
) -> None:
    """Run a kernel; from the second time on as it was compiled for such arguments.

    ``given`` may lie anywhere in memory; ``made`` is ours, and begins where Triton likes it.
    """
    address, kinds = 0, []
    for tensor in given:
        address |= tensor.data_ptr()
        kinds.append(tensor.dtype)
    key = (id(kernel), given[0].device, *kinds, *constants)
    known = _compiled.get(key) if address % ALIGNED == 0 else None
    if known is not None:
        known[grid](*given, *made, *constants)
        return
    found = kernel[grid](*given, *made, *constants, num_warps=WARPS, num_stages=STAGES)
    if address % ALIGNED == 0 and found is not None:  # the interpreter compiles nothing
        _compiled[key] = found


def _parameters(form: Form) -> tuple[Tensor, ...]:
    """Those of the equation; Q stands where it has none."""
    w, b, temperature = form.w, form.b, form.log_temperature
    return (
        form.q if w is None else w.contiguous(),
        form.q if b is None else b,
        form.p.contiguous(),
        form.q.contiguous(),
        form.context.contiguous(),
        form.q if temperature is None else temperature,
    )


def _room(numbers: int, texts: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Memory for the sums of all chunks, and a zero for each text, which a launch leaves zero.

    It is kept, for the launches of a stream take turns; one that a graph records gets its own.
    """
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return _new_room(numbers, texts, device)
    place = device.index, torch._C._cuda_getCurrentRawStream(device.index)
    sums, zeros = _kept.get(place, (None, None))
    if sums is None or zeros is None or len(sums) < numbers or len(zeros) < texts:
        sums, zeros = _kept[place] = _new_room(numbers, texts, device)
    return sums, zeros


def _new_room(numbers: int, texts: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return (
        torch.empty(numbers, dtype=torch.float32, device=device),
        torch.zeros(texts, dtype=torch.int32, device=device),
    )


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def _power(size: int) -> int:
    """The next power of two that a product of matrices takes: at least 16."""
    return max(16, 1 << (size - 1).bit_length())
