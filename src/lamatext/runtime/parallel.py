"""Parallel work in threads: engines release Python's global lock while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lamatext.kernels.kernel_threads import thread_count

T = TypeVar("T")
R = TypeVar("R")


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
