"""Threads of our own for kernels that run without Python's lock.

numba's own thread layers either kill a forked child or abort when two threads call at once; these
threads are plain ones, made when first needed, and made anew in a forked child.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

THREADS = "LAMATEXT_THREADS"  # environment: threads of a kernel, whatever else is said

_wanted: ContextVar[int | None] = ContextVar("kernel threads", default=None)
_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    """Threads do not survive a fork."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Within the block kernels take ``count`` threads, whatever torch takes."""
    before = _wanted.set(count)
    try:
        yield
    finally:
        _wanted.reset(before)


def threads_or(default: int) -> int:
    """The threads that a kernel takes: what the user or ``kernel_threads`` says, or these."""
    return int(os.environ.get(THREADS) or _wanted.get() or default)


def run_on_threads(work: Callable[[], None], threads: int) -> None:
    """Let up to ``threads`` threads call ``work``, this one among them, and wait for all.

    ``work`` takes from a common stock until nothing is left: a thread that a busy machine has not
    let begin by then is not waited for.
    """
    global _pool
    if threads > 1 and _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="lamatext")
    others = [_pool.submit(work) for _ in range(threads - 1)] if _pool else []
    work()
    for other in others:
        if not other.cancel():
            other.result()
