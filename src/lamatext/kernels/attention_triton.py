"""The Triton attention kernel: scores, softmax and weighted sum in one pass over the states.

Reference implementation: the plain torch equation in ``lamatext.nn.attention.LowRankAttention``;
``attention_cuda.py`` launches this kernel and computes its gradients.

The words of a text are split into chunks. A program reads one chunk with an online softmax and
stores its maximum, sum and weighted sum of states. The chunks of a text are joined by the program
itself if there is only one, by the last program to finish if there are few, and by a second launch
(``combine``) if there are many.

Rank k does not matter: head i scores word t by gᵢ·uₜ with gᵢ = Qᵢ Pᵢᵀ c, computed once per program.
Shapes: B texts, T words, D state width, E context width, M heads, k rank; block_m, block_d and
block_e are M, D and E rounded up to a power of two.
"""

# mypy: ignore-errors
# ruff: noqa: C901, PLR0913, PLR0915 - a Triton kernel cannot pass objects or return early

import triton
import triton.language as tl


# Not specialised on these sizes: one compiled kernel serves all lengths of text.
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
    counter,  # (B,) zeros; reset to zeros at the end
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
    """Compute attention over one chunk of a text: the main Triton kernel."""
    part = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    m, d = tl.arange(0, block_m), tl.arange(0, block_d)
    dtype = states.dtype.element_ty
    context += text * context_stride
    vectors = _head_vectors(
        p, q, context, heads, rank, width, context_width, block_m, block_d, block_e
    )
    vectors = tl.trans(vectors).to(dtype)  # (D, M)
    if project:
        inner, outer = d[:, None], d[None, :]
        both = (inner < width) & (outer < width)
        matrix = tl.load(w + outer * width + inner, mask=both, other=0.0).to(dtype)  # Wᵀ
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
        valid = (t < last)[:, None] & (d < width)[None, :]
        h = tl.load(states + t.to(tl.int64)[:, None] * width + d[None, :], mask=valid, other=0.0)
        word = tl.load(mask + t, mask=t < last, other=0) != 0
        u = h
        if project:
            u = _tanh(tl.dot(h, matrix, input_precision=precision) + bias[None, :]).to(dtype)
        f = tl.dot(u, vectors, input_precision=precision)  # (T, M)
        if squash:
            f = _tanh(f)
        if l2:
            norm = tl.sqrt(tl.sum(f * f, axis=1))
            f = f / tl.where(norm == 0, float("inf"), norm)[:, None]
        if tempered:
            f = f * factor[None, :]
        f = tl.where(word[:, None], f, float("-inf"))
        offset = m.to(tl.int64)[None, :] * words + t[:, None]
        tl.store(scores + offset, f, mask=(t < last)[:, None] & (m < heads)[None, :])

        new_top = tl.maximum(top, tl.max(f, axis=0))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        share = tl.exp(f - shift[None, :])
        rescale = tl.exp(top - shift)
        total = total * rescale + tl.sum(share, axis=0)
        new = tl.dot(tl.trans(share).to(dtype), h, input_precision=precision)
        pooled = pooled * rescale[:, None] + new
        top = new_top

    cell = m[:, None] * width + d[None, :]
    inside = (m < heads)[:, None] & (d < width)[None, :]
    embedding += text * heads * width
    if joined_by == 0:
        tl.store(embedding + cell, (pooled / total[:, None]).to(dtype), mask=inside)
        tl.debug_barrier()
        _write_weights(scores, weights, 0, words, words, top, total, heads, block_t, block_m)
    else:
        size: tl.constexpr = block_m * (block_d + 2)
        scratch += text * chunks * size
        own = scratch + part * size
        tl.store(own + m, top)
        tl.store(own + block_m + m, total)
        tl.store(own + 2 * block_m + m[:, None] * block_d + d[None, :], pooled)
    if joined_by == 1:
        tl.debug_barrier()  # finish all stores of this program before the counter changes
        before = tl.atomic_add(counter + text, 1, sem="acq_rel")
        if before == chunks - 1:
            tl.store(counter + text, 0)
            tl.debug_barrier()
            top, total, pooled = _merge_chunks(scratch, chunks, block_m, block_d, 128 // block_m)
            tl.store(embedding + cell, (pooled / total[:, None]).to(dtype), mask=inside)
            _write_weights(scores, weights, 0, words, words, top, total, heads, 256, block_m)


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
    """Combine the attention results of all chunks of a long text: the second Triton kernel.

    A program writes the weights of ``span`` words and ``columns`` columns of the embedding. The
    grid is (⌈T / span⌉ and at least block_d / columns, B).
    """
    part = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    scratch += text * chunks * block_m * (block_d + 2)
    top, total = _softmax_totals(scratch, chunks, block_m, block_d, 64)
    if part * columns < width:
        m, d = tl.arange(0, block_m), part * columns + tl.arange(0, columns)
        pooled = _join_columns(scratch, chunks, top, total, d, block_m, block_d, 16)
        cell = (text * heads + m)[:, None] * width + d[None, :]
        inside = (m < heads)[:, None] & (d < width)[None, :]
        tl.store(embedding + cell, pooled.to(embedding.dtype.element_ty), mask=inside)
    scores += text * heads * words
    weights += text * heads * words
    first = part * span
    last = tl.minimum(first + span, words)
    _write_weights(scores, weights, first, last, words, top, total, heads, 128, block_m)


@triton.jit
def _head_vectors(  # pragma: no cover
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
    """Compute the scoring vector of every attention head inside the Triton kernel.

    Row i of the result (M, D) is gᵢ = Σₖ (pᵢₖ·c) qᵢₖ.
    """
    m, d, e = tl.arange(0, block_m), tl.arange(0, block_d), tl.arange(0, block_e)
    c = tl.load(context + e, mask=e < context_width, other=0.0).to(tl.float32)
    vectors = tl.zeros((block_m, block_d), tl.float32)
    for k in range(rank):
        row = m[:, None] * rank + k
        head = (m < heads)[:, None]
        narrow = head & (e < context_width)[None, :]
        rows = tl.load(p + row * context_width + e[None, :], mask=narrow, other=0.0)
        query = tl.sum(rows.to(tl.float32) * c[None, :], axis=1)
        wide = head & (d < width)[None, :]
        keys = tl.load(q + row * width + d[None, :], mask=wide, other=0.0)
        vectors += query[:, None] * keys.to(tl.float32)
    return vectors


@triton.jit
def _merge_chunks(  # pragma: no cover
    scratch, chunks, block_m: tl.constexpr, block_d: tl.constexpr, ahead: tl.constexpr
):
    """Merge the partial softmax results of all chunks of a text inside the Triton kernel.

    Each chunk has a maximum (M,), a sum (M,) and a weighted sum (M, D). The loop is unrolled
    ``ahead`` times, but the chunks are merged one by one: Triton would otherwise move a three-axis
    block between threads at every step.
    """
    m, d = tl.arange(0, block_m), tl.arange(0, block_d)
    size: tl.constexpr = block_m * (block_d + 2)
    top = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    pooled = tl.zeros((block_m, block_d), tl.float32)
    for start in range(0, chunks, ahead):
        for step in tl.static_range(ahead):
            own = scratch + (start + step) * size
            valid = m < tl.where(start + step < chunks, block_m, 0)
            tops = tl.load(own + m, mask=valid, other=float("-inf"))
            totals = tl.load(own + block_m + m, mask=valid, other=0.0)
            cell = own + 2 * block_m + m[:, None] * block_d + d[None, :]
            sums = tl.load(cell, mask=valid[:, None], other=0.0)
            new_top = tl.maximum(top, tops)
            shift = tl.where(new_top == float("-inf"), 0.0, new_top)
            rescale, share = tl.exp(top - shift), tl.exp(tops - shift)
            total = total * rescale + totals * share
            pooled = pooled * rescale[:, None] + sums * share[:, None]
            top = new_top
    return top, total, pooled


@triton.jit
def _softmax_totals(  # pragma: no cover
    scratch, chunks, block_m: tl.constexpr, block_d: tl.constexpr, tile: tl.constexpr
):
    """Compute the softmax maximum and sum over all chunks of a text inside the Triton kernel."""
    m = tl.arange(0, block_m)
    size: tl.constexpr = block_m * (block_d + 2)
    top = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    for start in range(0, chunks, tile):
        c = start + tl.arange(0, tile)
        address = scratch + c[:, None] * size + m[None, :]
        tops = tl.load(address, mask=(c < chunks)[:, None], other=float("-inf"))
        totals = tl.load(address + block_m, mask=(c < chunks)[:, None], other=0.0)
        new_top = tl.maximum(top, tl.max(tops, axis=0))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        total = total * tl.exp(top - shift) + tl.sum(totals * tl.exp(tops - shift[None, :]), axis=0)
        top = new_top
    return top, total


@triton.jit
def _join_columns(  # pragma: no cover
    scratch, chunks, top, total, d, block_m: tl.constexpr, block_d: tl.constexpr, tile: tl.constexpr
):
    """Combine the chunks' weighted sums into columns ``d`` of the embedding (Triton kernel)."""
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
def _write_weights(  # pragma: no cover
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
    """Write the attention weights of words ``first`` to ``last - 1`` inside the Triton kernel."""
    m = tl.arange(0, block_m)
    for start in range(first, last, block_t):
        t = start + tl.arange(0, block_t)
        offset = m.to(tl.int64)[:, None] * words + t[None, :]
        inside = (m < heads)[:, None] & (t < last)[None, :]
        f = tl.load(scores + offset, mask=inside, other=float("-inf"))
        a = tl.exp(f - top[:, None]) / total[:, None]
        tl.store(weights + offset, a.to(weights.dtype.element_ty), mask=inside)


@triton.jit
def _tanh(x):  # pragma: no cover
    """Compute tanh accurately, including near zero, inside the Triton attention kernel.

    Accuracy near zero matters because l2 normalization depends on the ratios of small scores.
    """
    square = x * x
    series = x * (1 + square * (-1 / 3 + square * (2 / 15 - square * (17 / 315))))
    return tl.where(tl.abs(x) < 0.15, series, 1 - 2 / (tl.exp(2 * x) + 1))
