"""Work on many chunks side by side, for engines leave Python while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(
    work: Callable[[T], R], items: Iterable[T], *, workers: int | None = None
) -> Iterator[R]:
    """``work`` of every item, in order; items are drawn only a few ahead, so streams may be long.

    Args:
        work: must be safe to call from several threads.
        items: drawn in the caller's thread.
        workers: threads; as many as the process may use cores unless stated.
    """
    workers = workers or usable_cores()
    if workers == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
