"""Starting the fused attention kernel: how a text is shared out, and what it is started with.

At a thousand words the GPU is done before Python has asked for the next text, so little is asked:
what follows from the sizes is worked out once, a kernel that was compiled is started without
Triton's search for it, and the memory in which programs join the chunks of a text is kept.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lamatext.kernels.attention_gradients import Form

ALONE, LAST, SPLIT = 0, 1, 2  # who joins the chunks: one program, the last of few, a second launch
MOST_WIDTH, MOST_HEADS, MOST_CONTEXT, MOST_TEXTS = 128, 32, 1024, 65_535  # that a launch takes
BLOCK = 64  # words a program scores at a time
WARPS, STAGES = 4, 2  # of a program; how far ahead of its use a block is read
PROGRAMS = 2  # that run on a processor at once
JOINED_AT_ONCE = 2048  # words of a text up to which its chunks are joined in the same launch
SPAN = 512  # words whose weights one program of the second launch writes
COLUMNS = 16  # of the embedding, likewise
PRECISION = "bf16x3"  # a product of float32 as three of bfloat16: right to 1e-5
ALIGNED = 16  # bytes: Triton compiles anew for pointers to anything else

Kinds = tuple[torch.dtype, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """One launch: everything but the tensors."""

    name: str  # of the kernel
    grid: tuple[int, int, int]
    rest: tuple[Any, ...]  # sizes and constants, which follow the tensors
    compiled: dict[Kinds, Any] = field(default_factory=dict)


class Plan(NamedTuple):
    """The launches for batches of one shape."""

    attend: Work
    combine: Work | None  # joins the chunks of long texts
    shared: bool  # whether several programs share a text


def launch(states: Tensor, mask: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """S (B, M, D) and A (B, M, T) of ``states`` (B, T, D) under ``mask`` (B, T)."""
    states, heads = states.contiguous(), form.heads
    texts, words, width = shape = states.shape
    plan = plan_for(
        shape, form.p.shape, form.context.dim(), heads, form.w is not None, form.tanh, form.l2,
        form.log_temperature is not None, states.device,
    )  # fmt: skip
    embedding = states.new_empty((texts, heads, width))
    scores = weights = states.new_empty((texts, heads, words))
    if states.dtype != torch.float32:
        scores = torch.empty_like(weights, dtype=torch.float32)
    sums, counter = _room(states.device) if plan.shared else (scores, scores)
    given = (states, mask.contiguous(), *_parameters(form))
    _start(plan.attend, given, (embedding, scores, weights, sums, counter))
    if plan.combine is not None:
        _start(plan.combine, (embedding,), (scores, weights, sums))
    return embedding, weights


@lru_cache(maxsize=4096)
def plan_for(  # noqa: PLR0913 - what a launch depends on, cheap to ask for and to look up
    shape: torch.Size,
    p_shape: torch.Size,
    context_axes: int,
    heads: int,
    project: bool,
    tanh: bool,
    l2: bool,
    tempered: bool,
    device: torch.device,
) -> Plan:
    """For ``shape`` (B, T, D), P of ``p_shape`` (M*k, E) and a context of (B, E) or (E,)."""
    (texts, words, width), (rows, context_width) = shape, p_shape
    chunk, chunks = share_out(texts, words, _processors(device))
    joined = ALONE if chunks == 1 else LAST if words <= JOINED_AT_ONCE else SPLIT
    block_m, block_d = _power(heads), _power(width)
    sizes = words, chunk, chunks, 0 if context_axes == 1 else context_width
    constants = (
        heads, rows // heads, width, context_width, project, tanh, l2, tempered, joined,
        PRECISION if device.type == "cuda" else "ieee",
        BLOCK, block_m, block_d, _power(context_width),
    )  # fmt: skip
    attend = Work("attend", (chunks, texts, 1), (*sizes, *constants))
    if joined != SPLIT:
        return Plan(attend, None, shared=joined != ALONE)
    parts = max(-(-words // SPAN), block_d // COLUMNS)
    rest = words, chunks, heads, width, SPAN, COLUMNS, block_m, block_d
    return Plan(attend, Work("combine", (parts, texts, 1), rest), shared=True)


def share_out(texts: int, words: int, processors: int) -> tuple[int, int]:
    """Words a program takes, and programs that share a text.

    Enough to keep all processors at work, and no more than there are blocks.
    """
    blocks = -(-words // BLOCK)
    wished = max(1, min(blocks, PROGRAMS * processors // texts))
    chunk = -(-blocks // wished) * BLOCK
    return chunk, -(-words // chunk)


def _start(work: Work, given: tuple[Tensor, ...], made: tuple[Tensor, ...]) -> None:
    """Run a kernel; from the second time on as it was compiled for such tensors.

    ``given`` may lie anywhere in memory; ``made`` is ours: it begins where Triton likes it, and its
    types follow from those of ``given``.
    """
    places = [tensor.data_ptr() for tensor in given]
    aligned = reduce(or_, places) % ALIGNED == 0
    kinds = tuple([tensor.dtype for tensor in given])
    known = work.compiled.get(kinds) if aligned else None
    if known is not None:  # given an address, Triton does not ask the driver whose it is
        stream = torch._C._cuda_getCurrentRawStream(given[0].get_device())
        known.run(
            *work.grid, stream, known.function, known.packed_metadata, None, None, None,
            *places, *[tensor.data_ptr() for tensor in made], *work.rest,
        )  # fmt: skip
        return
    from lamatext.kernels import attention_triton

    kernel = getattr(attention_triton, work.name)
    found = kernel[work.grid](*given, *made, *work.rest, num_warps=WARPS, num_stages=STAGES)
    if aligned and found is not None:  # the interpreter compiles nothing
        work.compiled[kinds] = found


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


class _Kept(threading.local):
    """Memory to join chunks in, by GPU and stream, whose launches take turns.

    Each thread has its own, for another could come between the two launches of a long text.
    """

    def __init__(self) -> None:
        self.rooms: dict[tuple[torch.device, int], tuple[Tensor, Tensor]] = {}


_kept = _Kept()


def _room(device: torch.device) -> tuple[Tensor, Tensor]:
    """Memory for the sums of all chunks, and a zero for each text, which a launch leaves zero.

    What a graph records gets its own.
    """
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return _new_room(device)
    place = device, torch._C._cuda_getCurrentRawStream(device.index)
    room = _kept.rooms.get(place)
    if room is None:
        room = _kept.rooms[place] = _new_room(device)
    return room


def _new_room(device: torch.device) -> tuple[Tensor, Tensor]:
    """As much as any launch may need, for it shares out no more than ``share_out`` allows."""
    programs = PROGRAMS * _processors(device)
    numbers = programs * _power(MOST_HEADS) * (_power(MOST_WIDTH) + 2)
    return (
        torch.empty(numbers, dtype=torch.float32, device=device),
        torch.zeros(programs, dtype=torch.int32, device=device),
    )


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _power(size: int) -> int:
    """The next power of two that a product of matrices takes: at least 16."""
    return max(16, 1 << (size - 1).bit_length())
