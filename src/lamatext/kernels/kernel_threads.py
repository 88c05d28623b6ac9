"""Threads for CPU kernels and inference engines, which release the GIL while they compute.

numba's own thread layers either kill a forked child or abort if two threads call a kernel at the
same time. These are plain threads, created at first use and again in a forked child.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from lamatext.errors import ConfigError

THREADS = "LAMATEXT_THREADS"  # environment: number of kernel threads; overrides everything else

T = TypeVar("T")
R = TypeVar("R")

_requested: ContextVar[int | None] = ContextVar("kernel threads", default=None)
_pool: ThreadPoolExecutor | None = None


def _discard_pool() -> None:
    """Discard the kernel thread pool in a forked child, because threads do not survive a fork."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_pool)


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Set the number of kernel threads inside a ``with`` block, regardless of torch's setting."""
    token = _requested.set(count)
    try:
        yield
    finally:
        _requested.reset(token)


def thread_count(default: int) -> int:
    """Return the number of kernel threads from the environment, ``kernel_threads`` or ``default``.

    The environment variable overrides ``kernel_threads``, which overrides ``default``.
    """
    given = os.environ.get(THREADS)
    if not given:
        return _requested.get() or default
    if not given.strip().isdecimal() or int(given) < 1:
        raise ConfigError(f"{THREADS}={given}: expected a number of threads, 1 or more.")
    return int(given)


def run_on_threads(work: Callable[[], None], threads: int) -> None:
    """Call ``work`` on several kernel threads, including the current one, and wait for them.

    At most ``threads`` threads are used. ``work`` takes tasks from a shared counter until none is
    left. If a kernel thread has not started by then because the machine is busy, its call is
    cancelled.
    """
    global _pool
    if threads > 1 and _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="lamatext")
    others = [_pool.submit(work) for _ in range(threads - 1)] if _pool else []
    work()
    for other in others:
        if not other.cancel():
            other.result()


def run_kernel(kernel: Callable[..., None], *arguments: Any) -> None:
    """Run a CPU kernel on several threads that take tasks from a shared counter."""
    import torch  # not needed to predict

    counter = np.zeros(1, np.int64)
    threads = thread_count(default=torch.get_num_threads())
    run_on_threads(lambda: kernel(counter, *arguments), threads)


def parallel_map(
    work: Callable[[T], R], items: Iterable[T], *, workers: int | None = None
) -> Iterator[R]:
    """Apply a function to every item in parallel threads and yield the results in order.

    Only a few items are drawn ahead of the results, so ``items`` may be an endless stream.

    Args:
        work: must be safe to call from several threads.
        items: drawn in the caller's thread.
        workers: number of threads; by default that of ``kernel_threads``, or of usable cores.
    """
    workers = workers or thread_count(default=usable_cores())
    if workers == 1:
        yield from map(work, items)
        return
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use for parallel threads."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
