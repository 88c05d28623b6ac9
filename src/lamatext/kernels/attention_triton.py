"""LAMA attention on an NVIDIA GPU: scores, softmax and weighted sum in one pass over the states.

The words of a text are cut into chunks. A program walks over one chunk with an online softmax and
leaves its maximum, sum and weighted sum of states; what joins the chunks is the same program where
there is one, the last to finish where there are few, and a second launch where there are many.

Rank k folds away: head i scores word t by gᵢ·uₜ with gᵢ = Qᵢ Pᵢᵀ c, made once a program.
Shapes: B texts, T words, D state width, E context width, M heads, k rank; block_m, block_d and
block_e are M, D and E rounded up to a power of two.
"""

# mypy: ignore-errors
# ruff: noqa: C901, PLR0913, PLR0915 - a kernel has no objects to pass and no calls to return from

import triton
import triton.language as tl


# One compiled kernel for all lengths: it knows nothing of their divisors.
@triton.jit(do_not_specialize=["words", "chunk", "chunks", "context_stride"])
def attend(  # pragma: no cover
    states,  # (B, T, D)
    mask,  # (B, T) bool
    w,  # (D, D)
    b,  # (D,)
    p,  # (M*k, E)
    q,  # (M*k, D)
    context,  # (B, E), or (E,) with a stride of 0
    log_temperature,  # (M,)
    embedding,  # (B, M, D)
    scores,  # (B, M, T) float32; may be the weights themselves
    weights,  # (B, M, T)
    scratch,  # (B, chunks, block_m * (block_d + 2)) float32
    counter,  # (B,) zeros, and zeros again at the end
    words,
    chunk,
    chunks,
    context_stride,
    heads: tl.constexpr,
    rank: tl.constexpr,
    width: tl.constexpr,
    context_width: tl.constexpr,
    project: tl.constexpr,
    squash: tl.constexpr,
    l2: tl.constexpr,
    tempered: tl.constexpr,
    joined_by: tl.constexpr,  # 0: this program, 1: the last to finish, 2: a second launch
    precision: tl.constexpr,
    block_t: tl.constexpr,
    block_m: tl.constexpr,
    block_d: tl.constexpr,
    block_e: tl.constexpr,
):
    """One chunk of one text; grid (chunks, B)."""
    part = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    m, d = tl.arange(0, block_m), tl.arange(0, block_d)
    kind = states.dtype.element_ty
    context += text * context_stride
    folded = _fold(p, q, context, heads, rank, width, context_width, block_m, block_d, block_e)
    folded = tl.trans(folded).to(kind)  # (D, M)
    if project:
        inner, outer = d[:, None], d[None, :]
        both = (inner < width) & (outer < width)
        matrix = tl.load(w + outer * width + inner, mask=both, other=0.0).to(kind)  # Wᵀ
        bias = tl.load(b + d, mask=d < width, other=0.0).to(tl.float32)
    if tempered:
        factor = tl.exp(tl.load(log_temperature + m, mask=m < heads, other=0.0).to(tl.float32))

    states += text * words * width
    mask += text * words
    scores += text * heads * words
    weights += text * heads * words
    first = part * chunk
    last = tl.minimum(first + chunk, words)
    top = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    pooled = tl.zeros((block_m, block_d), tl.float32)
    for start in range(first, last, block_t):
        t = start + tl.arange(0, block_t)
        there = (t < last)[:, None] & (d < width)[None, :]
        h = tl.load(states + t.to(tl.int64)[:, None] * width + d[None, :], mask=there, other=0.0)
        word = tl.load(mask + t, mask=t < last, other=0) != 0
        u = h
        if project:
            u = _tanh(tl.dot(h, matrix, input_precision=precision) + bias[None, :]).to(kind)
        f = tl.dot(u, folded, input_precision=precision)  # (T, M)
        if squash:
            f = _tanh(f)
        if l2:
            norm = tl.sqrt(tl.sum(f * f, axis=1))
            f = f / tl.where(norm == 0, float("inf"), norm)[:, None]
        if tempered:
            f = f * factor[None, :]
        f = tl.where(word[:, None], f, float("-inf"))
        at = m.to(tl.int64)[None, :] * words + t[:, None]
        tl.store(scores + at, f, mask=(t < last)[:, None] & (m < heads)[None, :])

        higher = tl.maximum(top, tl.max(f, axis=0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp(f - shift[None, :])
        kept = tl.exp(top - shift)
        total = total * kept + tl.sum(share, axis=0)
        new = tl.dot(tl.trans(share).to(kind), h, input_precision=precision)
        pooled = pooled * kept[:, None] + new
        top = higher

    cell = m[:, None] * width + d[None, :]
    held = (m < heads)[:, None] & (d < width)[None, :]
    embedding += text * heads * width
    if joined_by == 0:
        tl.store(embedding + cell, (pooled / total[:, None]).to(kind), mask=held)
        tl.debug_barrier()
        _weigh(scores, weights, 0, words, words, top, total, heads, block_t, block_m)
    else:
        size: tl.constexpr = block_m * (block_d + 2)
        scratch += text * chunks * size
        own = scratch + part * size
        tl.store(own + m, top)
        tl.store(own + block_m + m, total)
        tl.store(own + 2 * block_m + m[:, None] * block_d + d[None, :], pooled)
    if joined_by == 1:
        tl.debug_barrier()  # all of this program's stores, before one thread tells of them
        before = tl.atomic_add(counter + text, 1, sem="acq_rel")
        if before == chunks - 1:
            tl.store(counter + text, 0)
            tl.debug_barrier()
            top, total, pooled = _merge(scratch, chunks, block_m, block_d, 128 // block_m)
            tl.store(embedding + cell, (pooled / total[:, None]).to(kind), mask=held)
            _weigh(scores, weights, 0, words, words, top, total, heads, 256, block_m)


@triton.jit(do_not_specialize=["words", "chunks"])
def combine(  # pragma: no cover
    embedding,
    scores,
    weights,
    scratch,
    words,
    chunks,
    heads: tl.constexpr,
    width: tl.constexpr,
    span: tl.constexpr,
    columns: tl.constexpr,
    block_m: tl.constexpr,
    block_d: tl.constexpr,
):
    """Join the chunks: the weights of ``span`` words, and ``columns`` columns of the embedding.

    Grid (⌈T / span⌉ and at least block_d / columns, B).
    """
    part = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    scratch += text * chunks * block_m * (block_d + 2)
    top, total = _whole(scratch, chunks, block_m, block_d, 64)
    if part * columns < width:
        m, d = tl.arange(0, block_m), part * columns + tl.arange(0, columns)
        pooled = _join(scratch, chunks, top, total, d, block_m, block_d, 16)
        cell = (text * heads + m)[:, None] * width + d[None, :]
        held = (m < heads)[:, None] & (d < width)[None, :]
        tl.store(embedding + cell, pooled.to(embedding.dtype.element_ty), mask=held)
    scores += text * heads * words
    weights += text * heads * words
    first = part * span
    last = tl.minimum(first + span, words)
    _weigh(scores, weights, first, last, words, top, total, heads, 128, block_m)


@triton.jit
def _fold(  # pragma: no cover
    p,
    q,
    context,
    heads: tl.constexpr,
    rank: tl.constexpr,
    width: tl.constexpr,
    context_width: tl.constexpr,
    block_m: tl.constexpr,
    block_d: tl.constexpr,
    block_e: tl.constexpr,
):
    """(M, D): row i is gᵢ = Σₖ (pᵢₖ·c) qᵢₖ, the vector that scores a word for head i."""
    m, d, e = tl.arange(0, block_m), tl.arange(0, block_d), tl.arange(0, block_e)
    c = tl.load(context + e, mask=e < context_width, other=0.0).to(tl.float32)
    folded = tl.zeros((block_m, block_d), tl.float32)
    for k in range(rank):
        row = m[:, None] * rank + k
        head = (m < heads)[:, None]
        narrow = head & (e < context_width)[None, :]
        rows = tl.load(p + row * context_width + e[None, :], mask=narrow, other=0.0)
        query = tl.sum(rows.to(tl.float32) * c[None, :], axis=1)
        wide = head & (d < width)[None, :]
        keys = tl.load(q + row * width + d[None, :], mask=wide, other=0.0)
        folded += query[:, None] * keys.to(tl.float32)
    return folded


@triton.jit
def _merge(  # pragma: no cover
    scratch, chunks, block_m: tl.constexpr, block_d: tl.constexpr, ahead: tl.constexpr
):
    """The maximum, the sum (M,) and the weighted sum (M, D) of all chunks, ``ahead`` read at once.

    One after another: as a block of three axes they would be moved between threads at every step.
    """
    m, d = tl.arange(0, block_m), tl.arange(0, block_d)
    size: tl.constexpr = block_m * (block_d + 2)
    top = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    pooled = tl.zeros((block_m, block_d), tl.float32)
    for start in range(0, chunks, ahead):
        for step in tl.static_range(ahead):
            own = scratch + (start + step) * size
            there = m < tl.where(start + step < chunks, block_m, 0)
            tops = tl.load(own + m, mask=there, other=float("-inf"))
            totals = tl.load(own + block_m + m, mask=there, other=0.0)
            cell = own + 2 * block_m + m[:, None] * block_d + d[None, :]
            sums = tl.load(cell, mask=there[:, None], other=0.0)
            higher = tl.maximum(top, tops)
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            kept, share = tl.exp(top - shift), tl.exp(tops - shift)
            total = total * kept + totals * share
            pooled = pooled * kept[:, None] + sums * share[:, None]
            top = higher
    return top, total, pooled


@triton.jit
def _whole(  # pragma: no cover
    scratch, chunks, block_m: tl.constexpr, block_d: tl.constexpr, tile: tl.constexpr
):
    """The maximum and the sum (M,) of all chunks."""
    m = tl.arange(0, block_m)
    size: tl.constexpr = block_m * (block_d + 2)
    top = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    for start in range(0, chunks, tile):
        c = start + tl.arange(0, tile)
        at = scratch + c[:, None] * size + m[None, :]
        tops = tl.load(at, mask=(c < chunks)[:, None], other=float("-inf"))
        totals = tl.load(at + block_m, mask=(c < chunks)[:, None], other=0.0)
        higher = tl.maximum(top, tl.max(tops, axis=0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - shift) + tl.sum(totals * tl.exp(tops - shift[None, :]), axis=0)
        top = higher
    return top, total


@triton.jit
def _join(  # pragma: no cover
    scratch, chunks, top, total, d, block_m: tl.constexpr, block_d: tl.constexpr, tile: tl.constexpr
):
    """The columns ``d`` of the embedding, from the weighted sums of all chunks."""
    m = tl.arange(0, block_m)
    size: tl.constexpr = block_m * (block_d + 2)
    pooled = tl.zeros((block_m, d.shape[0]), tl.float32)
    for start in range(0, chunks, tile):
        c = start + tl.arange(0, tile)
        tops = tl.load(
            scratch + c[:, None] * size + m[None, :],
            mask=(c < chunks)[:, None],
            other=float("-inf"),
        )
        share = tl.exp(tops - top[None, :]) / total[None, :]
        row = scratch + c[:, None, None] * size + 2 * block_m + m[None, :, None] * block_d
        parts = tl.load(row + d[None, None, :], mask=(c < chunks)[:, None, None], other=0.0)
        pooled += tl.sum(share[:, :, None] * parts, axis=0)
    return pooled


@triton.jit
def _weigh(  # pragma: no cover
    scores,
    weights,
    first,
    last,
    words,
    top,
    total,
    heads: tl.constexpr,
    block_t: tl.constexpr,
    block_m: tl.constexpr,
):
    """The weights of the words from ``first`` to ``last``, from their scores."""
    m = tl.arange(0, block_m)
    for start in range(first, last, block_t):
        t = start + tl.arange(0, block_t)
        at = m.to(tl.int64)[:, None] * words + t[None, :]
        held = (m < heads)[:, None] & (t < last)[None, :]
        f = tl.load(scores + at, mask=held, other=float("-inf"))
        a = tl.exp(f - top[:, None]) / total[:, None]
        tl.store(weights + at, a.to(weights.dtype.element_ty), mask=held)


@triton.jit
def _tanh(x):  # pragma: no cover
    """Accurate near 0 too: l2 asks for the relative size of small scores."""
    square = x * x
    series = x * (1 + square * (-1 / 3 + square * (2 / 15 - square * (17 / 315))))
    return tl.where(tl.abs(x) < 0.15, series, 1 - 2 / (tl.exp(2 * x) + 1))
