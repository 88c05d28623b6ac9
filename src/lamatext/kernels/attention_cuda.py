"""LAMA attention on an NVIDIA GPU: support checks, launches of the Triton kernel, and gradients.

Reference implementation: the plain torch equation in ``lamatext.nn.attention.LowRankAttention``;
``agrees_with_reference`` compares them at first use, the tests compare outputs and gradients. The
device code is in ``attention_triton.py``. The backward pass is plain torch: it keeps only the
states and the weights A, and recomputes u and the scores.

At a thousand words the GPU finishes before Python has prepared the next launch, so the launch does
little: everything that follows from the sizes is computed once per shape, a compiled kernel is
launched directly, and the memory in which the chunks of a text are joined is reused.

Shapes: B texts, T words, D state width, E context width, M heads, k rank.
"""

import importlib.util
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lamatext.kernels.attention_dispatch import AttentionParameters, head_vectors

SHARED_MEMORY = 160 * 1024  # bytes that a program of the kernel needs
MAX_WIDTH, MAX_HEADS, MAX_CONTEXT, MAX_TEXTS = 128, 32, 1024, 65_535  # of one launch

ALONE, LAST, SPLIT = 0, 1, 2  # what joins the chunks: the only program, the last, a second launch
BLOCK = 64  # words that a program scores at a time
WARPS, STAGES = 4, 2  # warps per program; software pipeline stages
PROGRAMS_PER_PROCESSOR = 2  # that run at the same time
SINGLE_LAUNCH_WORDS = 2048  # up to this length the chunks of a text are joined in the same launch
SPAN = 512  # words whose weights one program of the second launch writes
COLUMNS = 16  # columns of the embedding that it writes
PRECISION = "bf16x3"  # float32 products as three bfloat16 products: accurate to 1e-5
ALIGNMENT = 16  # bytes: Triton compiles a different kernel for unaligned pointers
DIRECT_TRITON = (3, 3), (3, 9)  # oldest and newest version with the private launcher of ``_start``

DTypes = tuple[torch.dtype, ...]


# When the GPU kernel can run.


def can_run(states: Tensor, parameters: AttentionParameters) -> bool:
    """Return whether CUDA attention supports these tensors and works on their device."""
    device = states.get_device()
    return (
        states.is_cuda
        and parameters.p.get_device() == parameters.context.get_device() == device
        and device == torch.cuda.current_device()  # where Triton launches
        and _supports(
            states.shape,
            parameters.p.shape,
            parameters.heads,
            states.dtype,
            parameters.p.dtype,
            states.device,
        )
    )


@lru_cache(maxsize=4096)
def _supports(
    shape: torch.Size,
    p_shape: torch.Size,
    heads: int,
    dtype: torch.dtype,
    p_dtype: torch.dtype,
    device: torch.device,
) -> bool:
    return (
        dtype in (torch.float32, torch.bfloat16, torch.float16)
        and p_dtype != torch.float64
        and shape[0] <= MAX_TEXTS
        and shape[2] <= MAX_WIDTH
        and heads <= MAX_HEADS
        and p_shape[1] <= MAX_CONTEXT
        and _works(device)
    )


@cache
def _works(device: torch.device) -> bool:
    """Return whether CUDA attention runs on ``device`` with the results of the plain torch layer.

    Triton needs a C compiler and a driver that it knows. If anything fails at the first launch,
    a warning is issued and the plain torch layer is used instead.
    """
    if importlib.util.find_spec("triton") is None or torch.version.cuda is None:
        return False
    memory: int = getattr(
        torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0
    )
    if memory < SHARED_MEMORY:
        return False
    try:
        if agrees_with_reference(device):
            return True
        reason = "its results differ from the plain layer's"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"the Triton attention kernel does not work on {device} ({reason}). The plain torch layer "
        "is used instead: same results, slower. Set LAMATEXT_ATTENTION=plain to silence this.",
        stacklevel=2,
    )
    return False


@torch.no_grad()
def agrees_with_reference(device: torch.device) -> bool:
    """Return whether CUDA attention matches the plain torch equation on a small example."""
    numbers = (torch.arange(8192, device=device, dtype=torch.float32) * 37).sin() / 3
    states, w, q = numbers[:6400].view(2, 200, 16), numbers[:256].view(16, 16), numbers[-48:]
    q = q.view(3, 16)
    parameters = AttentionParameters(w, q[0], q, q, states[:, 0], None, heads=3, tanh=True, l2=True)
    mask = torch.arange(200, device=device) < torch.tensor([[200], [70]], device=device)
    with torch.autocast(device.type, enabled=False):
        words = F.linear(states, w, q[0]).tanh()
        f = (_head_vectors(parameters) @ words.transpose(1, 2)).tanh()  # (B, M, T)
        scores = F.normalize(f, dim=1).masked_fill(~mask[:, None, :], float("-inf"))
        expected = scores.softmax(-1) @ states
        results = [launch(states, mask, parameters)[0] for _ in range(2)]  # the second: direct
        worst = max((result - expected).norm() for result in results)
        return bool(worst < 1e-3 * expected.norm())


# The autograd function.


def cuda_attention(
    states: Tensor, mask: Tensor, parameters: AttentionParameters
) -> tuple[Tensor, Tensor]:
    """Compute text embeddings (B, M, D) and attention weights (B, M, T) on an NVIDIA GPU."""
    if not torch.is_grad_enabled():
        return launch(states, mask, parameters)
    outputs: tuple[Tensor, Tensor] = CudaAttention.apply(states, mask, *parameters)  # type: ignore[no-untyped-call]
    return outputs


class CudaAttention(torch.autograd.Function):
    """Autograd function for CUDA attention: a Triton forward pass and a torch backward pass."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
        """Launch CUDA attention and save states and attention weights for the backward pass."""
        ctx.set_materialize_grads(False)
        embedding, weights = launch(states, mask, AttentionParameters(*parameters))
        tensors, ctx.options = parameters[:6], parameters[6:]
        ctx.save_for_backward(states, weights, *tensors)
        return embedding, weights

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_embedding: Tensor | None, d_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Compute the gradients of CUDA attention for the states and all parameters."""
        states, weights, *tensors = ctx.saved_tensors
        if d_embedding is not None:  # S = A H
            through = d_embedding @ states.transpose(1, 2)
            d_weights = through if d_weights is None else through + d_weights
        if d_weights is None:
            return (None,) * (2 + len(AttentionParameters._fields))
        parameters = AttentionParameters(*tensors, *ctx.options)
        d_states, *others = attention_gradients(states, weights, parameters, d_weights, d_embedding)
        return d_states, None, *others, None, None, None


def attention_gradients(
    states: Tensor,
    weights: Tensor,
    parameters: AttentionParameters,
    d_weights: Tensor,
    d_embedding: Tensor | None,
) -> list[Tensor | None]:
    """Compute the gradients of CUDA attention with plain torch operations.

    Return the gradients of the states, w, b, p, q, context and log_temperature.

    ``d_weights`` (B, M, T) is the whole gradient of A, its use in S = A H included. Where a weight
    is 0, as in padding, the gradient of its score is 0, too.
    """
    dtype, w = states.dtype, parameters.w
    words = states
    if w is not None:
        b = None if parameters.b is None else parameters.b.to(dtype)
        words = F.linear(states, w.to(dtype), b).tanh()
    vectors = _head_vectors(parameters).to(dtype)  # (B, M, D), or (1, M, D)
    f = (vectors @ words.transpose(1, 2)).float()  # (B, M, T)
    a, d_a = weights.float(), d_weights.float()
    d_score = a * (d_a - (a * d_a).sum(-1, keepdim=True))
    d_f, d_temperature = _score_gradients(parameters, f, d_score)
    d_f = d_f.to(dtype)
    d_words = d_f.transpose(1, 2) @ vectors  # (B, T, D)
    d_w = d_b = None
    d_states = d_words
    if w is not None:
        d_inner = (d_words * (1 - words * words)).flatten(0, 1)  # (B*T, D)
        d_w, d_b = d_inner.t() @ states.flatten(0, 1), d_inner.sum(0)
        d_states = (d_inner @ w.to(dtype)).view_as(states)
    if d_embedding is not None:
        d_states = torch.baddbmm(d_states, weights.transpose(1, 2), d_embedding)
    d_p, d_q, d_context = _head_vector_gradients(parameters, (d_f @ words).float())
    return [d_states, d_w, d_b, d_p, d_q, d_context, d_temperature]


def _score_gradients(
    parameters: AttentionParameters, f: Tensor, d_score: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Backpropagate through tanh, l2 norm and temperature of the CUDA attention scores.

    Given the gradient of the score τ l2(tanh(f)), return those of f (B, M, T) and log τ (M,).
    """
    squashed = f.tanh() if parameters.tanh else f
    norm = torch.ones_like(f[:, :1])
    if parameters.l2:
        norm = torch.linalg.vector_norm(squashed, dim=1, keepdim=True)
        norm = norm.masked_fill(norm == 0, float("inf"))
    scores = squashed / norm
    d_temperature = None
    if parameters.log_temperature is not None:
        d_score = d_score * parameters.log_temperature.exp()[:, None]
        d_temperature = (d_score * scores).sum((0, 2))
    if parameters.l2:
        d_score = (d_score - scores * (d_score * scores).sum(1, keepdim=True)) / norm
    return d_score * (1 - squashed * squashed) if parameters.tanh else d_score, d_temperature


def _head_vectors(parameters: AttentionParameters) -> Tensor:
    """Compute the head vectors (B or 1, M, D) of CUDA attention in float32."""
    p, q, context = parameters.p, parameters.q, parameters.context
    return head_vectors(parameters._replace(p=p.float(), q=q.float(), context=context.float()))


def _head_vector_gradients(
    parameters: AttentionParameters, d_vectors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Backpropagate from the head vectors of CUDA attention to its parameters.

    Given the gradient of the head vectors (B, M, D), return those of P, Q and the context.
    """
    p, q, rank = parameters.p.float(), parameters.q.float(), parameters.rank
    if parameters.context.dim() == 1:
        d_vectors = d_vectors.sum(0, keepdim=True)
    context = parameters.context.float().view(-1, p.shape[1])  # (B, E)
    query = context @ p.t()  # (B, M*k)
    rows = d_vectors.repeat_interleave(rank, dim=1) if rank > 1 else d_vectors  # (B, M*k, D)
    d_query = (rows * q).sum(-1)
    d_q = (query[:, :, None] * rows).sum(0)
    return d_query.t() @ context, d_q, (d_query @ p).view_as(parameters.context)


# The launch.


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch configuration of one CUDA attention kernel (grid, block sizes and constants)."""

    kernel: str  # its name in ``attention_triton``
    grid: tuple[int, int, int]
    constants: tuple[Any, ...]  # sizes and compile-time constants, which follow the tensors
    compiled: dict[DTypes, Any] = field(default_factory=dict)


class Plan(NamedTuple):
    """Sequence of kernel launches that computes CUDA attention for batches of one shape."""

    attend: Launch
    combine: Launch | None  # joins the chunks of long texts
    shared: bool  # whether several programs share a text


def launch(states: Tensor, mask: Tensor, parameters: AttentionParameters) -> tuple[Tensor, Tensor]:
    """Launch CUDA attention without autograd; return embeddings (B, M, D) and weights (B, M, T)."""
    states, heads = states.contiguous(), parameters.heads
    texts, words, width = shape = states.shape
    plan = plan_for(
        shape, parameters.p.shape, parameters.context.dim(), heads, parameters.w is not None,
        parameters.tanh, parameters.l2, parameters.log_temperature is not None, states.device,
    )  # fmt: skip
    embedding = states.new_empty((texts, heads, width))
    scores = weights = states.new_empty((texts, heads, words))
    if states.dtype != torch.float32:
        scores = torch.empty_like(weights, dtype=torch.float32)
    sums, counter = _workspace(states.device) if plan.shared else (scores, scores)
    inputs = (states, mask.contiguous(), *_tensors(parameters))
    _start(plan.attend, inputs, (embedding, scores, weights, sums, counter))
    if plan.combine is not None:
        _start(plan.combine, (embedding,), (scores, weights, sums))
    return embedding, weights


@lru_cache(maxsize=4096)
def plan_for(  # noqa: PLR0913 - everything that a launch depends on, as a cache key
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
    """Plan the CUDA attention launches for a batch shape, layer configuration and device.

    ``shape`` (B, T, D) is that of the states, ``p_shape`` (M*k, E) that of P.

    ``context_axes`` is 2 for a context (B, E) and 1 for one context (E,) of all texts.
    """
    (texts, words, width), (rows, context_width) = shape, p_shape
    chunk, chunks = split_into_chunks(texts, words, _processors(device))
    joined = ALONE if chunks == 1 else LAST if words <= SINGLE_LAUNCH_WORDS else SPLIT
    block_m, block_d = _block_size(heads), _block_size(width)
    sizes = words, chunk, chunks, 0 if context_axes == 1 else context_width
    constants = (
        heads, rows // heads, width, context_width, project, tanh, l2, tempered, joined,
        PRECISION if device.type == "cuda" else "ieee",
        BLOCK, block_m, block_d, _block_size(context_width),
    )  # fmt: skip
    attend = Launch("attend", (chunks, texts, 1), (*sizes, *constants))
    if joined != SPLIT:
        return Plan(attend, None, shared=joined != ALONE)
    parts = max(-(-words // SPAN), block_d // COLUMNS)
    combined = words, chunks, heads, width, SPAN, COLUMNS, block_m, block_d
    return Plan(attend, Launch("combine", (parts, texts, 1), combined), shared=True)


def split_into_chunks(texts: int, words: int, processors: int) -> tuple[int, int]:
    """Choose how to split texts into chunks of words for the CUDA attention kernel.

    Return the number of words per chunk and the number of chunks per text: enough programs to keep
    all multiprocessors busy, but no more than there are blocks of words.
    """
    blocks = -(-words // BLOCK)
    wanted = max(1, min(blocks, PROGRAMS_PER_PROCESSOR * processors // texts))
    chunk = -(-blocks // wanted) * BLOCK
    return chunk, -(-words // chunk)


def _start(planned: Launch, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
    """Launch a CUDA attention kernel, reusing the compiled kernel after the first call.

    The launcher skips Triton's cache lookup and hooks, which take longer than a short text. It is
    used only with the Triton versions in ``DIRECT_TRITON``; others get the public call every time.
    ``inputs`` may lie anywhere in memory. ``outputs`` are allocated by us: they are aligned, and
    their dtypes follow from those of ``inputs``.
    """
    pointers = [tensor.data_ptr() for tensor in inputs]
    aligned = reduce(or_, pointers) % ALIGNMENT == 0
    dtypes = tuple([tensor.dtype for tensor in inputs])
    compiled = planned.compiled.get(dtypes) if aligned else None
    if compiled is not None:  # given an address, Triton does not ask the driver about it
        stream = _stream_query()(inputs[0].get_device())
        compiled.run(
            *planned.grid, stream, compiled.function, compiled.packed_metadata, None, None, None,
            *pointers, *[tensor.data_ptr() for tensor in outputs], *planned.constants,
        )  # fmt: skip
        return
    from lamatext.kernels import attention_triton

    kernel = getattr(attention_triton, planned.kernel)
    arguments = *inputs, *outputs, *planned.constants
    compiled = kernel[planned.grid](*arguments, num_warps=WARPS, num_stages=STAGES)
    if aligned and compiled is not None and _can_launch_directly():
        planned.compiled[dtypes] = compiled  # None in Triton's interpreter


@cache
def _can_launch_directly() -> bool:
    """Return whether this Triton version allows launching the CUDA attention kernel directly."""
    import triton

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    oldest, newest = DIRECT_TRITON
    return oldest <= version <= newest


@cache
def _stream_query() -> Callable[[int], int]:
    """Return a function that looks up the current CUDA stream, for attention kernel launches.

    Triton's own function is private and several times faster than torch's public one.
    """
    if not _can_launch_directly():
        return lambda index: torch.cuda.current_stream(index).cuda_stream
    from triton.runtime import driver

    query: Callable[[int], int] = driver.active.get_current_stream
    return query


def _tensors(parameters: AttentionParameters) -> tuple[Tensor, ...]:
    """Return the tensor arguments of a CUDA attention launch, with dummies for absent ones."""
    w, b, temperature = parameters.w, parameters.b, parameters.log_temperature
    return (
        parameters.q if w is None else w.contiguous(),
        parameters.q if b is None else b,
        parameters.p.contiguous(),
        parameters.q.contiguous(),
        parameters.context.contiguous(),
        parameters.q if temperature is None else temperature,
    )


class _Workspaces(threading.local):
    """Scratch memory of CUDA attention for each GPU and stream, private to one thread.

    A workspace is the memory in which the chunks of a text are joined. Launches on one stream run
    in order. Each thread has its own workspaces, because another thread could launch between the
    two launches of a long text.
    """

    def __init__(self) -> None:
        self.by_stream: dict[tuple[torch.device, int], tuple[Tensor, Tensor]] = {}


_workspaces = _Workspaces()


def _workspace(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the scratch memory of CUDA attention for the current stream.

    It holds the sums of all chunks and one counter per text. The counters are zero before every
    launch, which resets them at its end. A launch that a CUDA graph captures gets its own
    workspace.
    """
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return _new_workspace(device)
    key = device, _stream_query()(device.index)
    workspace = _workspaces.by_stream.get(key)
    if workspace is None:
        workspace = _workspaces.by_stream[key] = _new_workspace(device)
    return workspace


def _new_workspace(device: torch.device) -> tuple[Tensor, Tensor]:
    """Allocate scratch memory for CUDA attention, enough for any split of texts into chunks."""
    programs = PROGRAMS_PER_PROCESSOR * _processors(device)
    numbers = programs * _block_size(MAX_HEADS) * (_block_size(MAX_WIDTH) + 2)
    return (
        torch.empty(numbers, dtype=torch.float32, device=device),
        torch.zeros(programs, dtype=torch.int32, device=device),
    )


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _block_size(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())
