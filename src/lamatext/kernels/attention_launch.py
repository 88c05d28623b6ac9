"""Starting the fused attention kernel: how a text is shared out, and what it is started with.

At a thousand words the GPU is done before Python has asked for the next text, so little is asked:
a kernel that was compiled is started without Triton's search for it, and the memory in which one
launch joins the chunks of a text is kept.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lamatext.kernels.attention_gradients import Form

ALONE, LAST, SPLIT = 0, 1, 2  # who joins the chunks: one program, the last of few, a second launch
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


class Shares(NamedTuple):
    """How a batch is shared out among programs, and what a kernel is compiled for."""

    chunk: int  # words a program takes
    chunks: int  # programs that share a text
    joined: int  # by whom: one of the kernel's names
    sums: int  # numbers that they leave to whoever joins them
    block_m: int
    block_d: int
    block_e: int


def launch(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    states, heads, device = states.contiguous(), form.heads, states.device
    (texts, words, width), context_width = states.shape, form.p.shape[1]
    shares = share_out(texts, words, width, heads, context_width, _processors(device))
    embedding = states.new_empty((texts, heads, width))
    scores = weights = states.new_empty((texts, heads, words))
    if states.dtype != torch.float32:
        scores = torch.empty_like(weights, dtype=torch.float32)
    scratch = counter = scores
    if shares.joined == LAST:
        scratch, counter = _room(shares.sums, texts, device)
    elif shares.joined == SPLIT:
        scratch = scores.new_empty(shares.sums)
    _start(
        "attend",
        (shares.chunks, texts, 1),
        (states, mask.contiguous(), *_parameters(form)),
        (embedding, scores, weights, scratch, counter),
        (
            words, shares.chunk, shares.chunks,
            0 if form.context.dim() == 1 else context_width,
        ),
        (
            heads, form.rank, width, context_width, form.w is not None, form.tanh, form.l2,
            form.log_temperature is not None, shares.joined,
            PRECISION if states.is_cuda else "ieee",
            BLOCK, shares.block_m, shares.block_d, shares.block_e,
        ),
    )  # fmt: skip
    if shares.joined == SPLIT:
        parts = max(-(-words // SPAN), shares.block_d // COLUMNS)
        constants = (heads, width, SPAN, COLUMNS, shares.block_m, shares.block_d)
        made = (scores, weights, scratch)
        _start("combine", (parts, texts, 1), (embedding,), made, (words, shares.chunks), constants)
    return embedding, weights


@lru_cache(maxsize=4096)
def share_out(
    texts: int, words: int, width: int, heads: int, context_width: int, processors: int
) -> Shares:
    """Enough programs to keep all processors at work, and no more than there are blocks."""
    blocks = -(-words // BLOCK)
    wished = max(1, min(blocks, PROGRAMS * processors // texts))
    if words <= JOINED_AT_ONCE:
        wished = min(wished, 64)
    chunk = -(-blocks // wished) * BLOCK
    chunks = -(-words // chunk)
    joined = ALONE if chunks == 1 else LAST if words <= JOINED_AT_ONCE else SPLIT
    block_m, block_d = _power(heads), _power(width)
    sums = texts * chunks * block_m * (block_d + 2)
    return Shares(chunk, chunks, joined, sums, block_m, block_d, _power(context_width))


def _start(
    name: str,
    grid: tuple[int, int, int],
    given: tuple[Tensor, ...],
    made: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    constants: tuple[Any, ...],
) -> None:
    """Run a kernel; from the second time on as it was compiled for such arguments.

    ``given`` may lie anywhere in memory; ``made`` is ours, and begins where Triton likes it.
    """
    places = [tensor.data_ptr() for tensor in given]
    aligned = reduce(or_, places) % ALIGNED == 0
    key = (name, given[0].device, *[tensor.dtype for tensor in given], *constants)
    known = _compiled.get(key) if aligned else None
    if known is not None:  # given an address, Triton does not ask the driver whose it is
        known[grid](*places, *[tensor.data_ptr() for tensor in made], *sizes, *constants)
        return
    from lamatext.kernels import attention_triton

    kernel = getattr(attention_triton, name)
    found = kernel[grid](*given, *made, *sizes, *constants, num_warps=WARPS, num_stages=STAGES)
    if aligned and found is not None:  # the interpreter compiles nothing
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
