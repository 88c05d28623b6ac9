"""Requests read together: many small calls of a model become few large ones."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")

WAIT = 0.001  # seconds that an idle model waits for company
BATCH_CHARACTERS = 40_000  # about 8,000 words


class OverloadedError(Exception):
    """More texts are waiting than the server will hold."""


class _Job(NamedTuple, Generic[R]):
    texts: Sequence[str]
    done: "asyncio.Future[Sequence[R]]"
    characters: int


class Batcher(Generic[R]):
    """Collects texts for a moment, or while the model is busy, and reads them in one call.

    Args:
        work: reads some texts in a thread, and returns one result for each.
        most: texts that may wait; more raise ``OverloadedError``.
        wait: how long the first text waits for others while the model is idle, in seconds.
        characters: a batch this large waits no longer, and is not made larger.
        threads: batches that may be read side by side.
        on_batch: told how many texts each batch has.
    """

    def __init__(
        self,
        work: Callable[[list[str]], Sequence[R]],
        *,
        most: int = 4096,
        wait: float = WAIT,
        characters: int = BATCH_CHARACTERS,
        threads: int = 1,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._work, self._most, self._wait, self._characters = work, most, wait, characters
        self._on_batch = on_batch
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lamatext-model")
        self._idle = threads
        self._jobs: deque[_Job[R]] = deque()
        self._texts = self._waiting = 0  # texts, and their characters, in `_jobs`
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, texts: Sequence[str]) -> Sequence[R]:
        """The result of each text; an error in ``work`` is raised for every request it was for."""
        if self._texts + len(texts) > self._most:
            raise OverloadedError
        loop = asyncio.get_running_loop()
        job = _Job[R](texts, loop.create_future(), sum(map(len, texts)))
        self._jobs.append(job)
        self._texts += len(texts)
        self._waiting += job.characters
        if self._idle:
            if self._waiting >= self._characters:
                self._start()
            elif self._timer is None:
                self._timer = loop.call_later(self._wait, self._start)
        return await job.done

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        jobs = self._take() if self._idle else []
        if not jobs:
            return
        self._idle -= 1
        texts = [text for job in jobs for text in job.texts]
        self._on_batch(len(texts))
        reading = asyncio.get_running_loop().run_in_executor(self._threads, self._work, texts)
        reading.add_done_callback(lambda read: self._finish(jobs, read))

    def _take(self) -> list[_Job[R]]:
        """The next jobs whose caller still waits, up to the size of a batch."""
        taken: list[_Job[R]] = []
        size = 0
        while self._jobs and (not taken or size + self._jobs[0].characters <= self._characters):
            job = self._jobs.popleft()
            self._texts -= len(job.texts)
            self._waiting -= job.characters
            if not job.done.done():
                taken.append(job)
                size += job.characters
        return taken

    def _finish(self, jobs: list[_Job[R]], read: "asyncio.Future[Sequence[R]]") -> None:
        self._idle += 1
        error = read.exception()
        at = 0
        for job in jobs:
            upto = at + len(job.texts)
            if job.done.done():
                pass  # its caller has stopped waiting
            elif error is not None:
                job.done.set_exception(error)
            else:
                job.done.set_result(read.result()[at:upto])
            at = upto
        self._start()
