"""Request batching: the texts of concurrent requests are combined into one model call."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")

WAIT = 0.001  # seconds
BATCH_CHARACTERS = 40_000  # about 8,000 words
PART_CHARACTERS = 8_000  # a larger request is computed in parts, with other requests in between


class OverloadedError(Exception):
    """Error raised when the queue of the request batcher is full."""


@dataclass(frozen=True, slots=True, eq=False)
class _Job(Generic[R]):
    texts: Sequence[str]
    result: "asyncio.Future[Sequence[R]]"
    characters: int


class Batcher(Generic[R]):
    """A queue that combines the texts of concurrent requests into a single batched model call.

    Args:
        function: computes one result per text; called in a thread.
        capacity: number of texts that may wait; more raise ``OverloadedError``.
        wait: seconds that the first text waits for others while a thread is idle.
        characters: size of a batch; a batch of this size starts at once.
        threads: number of batches computed in parallel.
        on_batch: called with the number of texts in each batch.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Sequence[R]],
        *,
        capacity: int = 4096,
        wait: float = WAIT,
        characters: int = BATCH_CHARACTERS,
        threads: int = 1,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._function, self._capacity, self._wait = function, capacity, wait
        self._characters, self._on_batch = characters, on_batch
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lamatext-model")
        self._idle_threads = threads
        self._jobs: OrderedDict[_Job[R], None] = OrderedDict()
        self._waiting_texts = self._waiting_characters = 0  # in `_jobs`
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, texts: Sequence[str]) -> Sequence[R]:
        """Add the texts of a request to a batch and return one result per text.

        An error in ``function`` is raised for every request of the batch. A request that is
        cancelled while it waits leaves the queue.
        """
        if self._waiting_texts + len(texts) > self._capacity:
            raise OverloadedError
        if len(texts) == 1 or sum(map(len, texts)) <= PART_CHARACTERS:
            return await self._compute(texts)
        results: list[R] = []
        for part in split_request(texts):
            results += await self._compute(part)
        return results

    async def _compute(self, texts: Sequence[str]) -> Sequence[R]:
        loop = asyncio.get_running_loop()
        job: _Job[R] = _Job(texts, loop.create_future(), sum(map(len, texts)))
        self._jobs[job] = None
        self._waiting_texts += len(texts)
        self._waiting_characters += job.characters
        if self._idle_threads:
            if self._waiting_characters >= self._characters:
                self._start_batch()
            elif self._timer is None:
                self._timer = loop.call_later(self._wait, self._start_batch)
        try:
            return await job.result
        finally:
            if job in self._jobs:
                self._remove(job)

    def close(self) -> None:
        """Stop the request batching threads without waiting for running batches."""
        self._threads.shutdown(wait=False)

    def _start_batch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        jobs = self._next_jobs() if self._idle_threads else []
        if not jobs:
            return
        self._idle_threads -= 1
        texts = [text for job in jobs for text in job.texts]
        self._on_batch(len(texts))
        batch = asyncio.get_running_loop().run_in_executor(self._threads, self._function, texts)
        batch.add_done_callback(lambda batch: self._finish_batch(jobs, batch))

    def _next_jobs(self) -> list[_Job[R]]:
        """Take the requests of the next batch from the queue, skipping cancelled requests."""
        jobs: list[_Job[R]] = []
        size = 0
        while self._jobs:
            job = next(iter(self._jobs))
            if jobs and size + job.characters > self._characters:
                break
            self._remove(job)
            if not job.result.done():
                jobs.append(job)
                size += job.characters
        return jobs

    def _remove(self, job: _Job[R]) -> None:
        del self._jobs[job]
        self._waiting_texts -= len(job.texts)
        self._waiting_characters -= job.characters

    def _finish_batch(self, jobs: list[_Job[R]], batch: "asyncio.Future[Sequence[R]]") -> None:
        self._idle_threads += 1
        error = batch.exception()
        start = 0
        for job in jobs:
            end = start + len(job.texts)
            if job.result.done():
                pass  # the request was cancelled meanwhile
            elif error is not None:
                job.result.set_exception(error)
            else:
                job.result.set_result(batch.result()[start:end])
            start = end
        self._start_batch()


def split_request(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split a large request into parts that are batched one after another.

    Each part joins the end of the queue when the previous one is done, so that a large request
    delays the others by one part and not by all of its texts.
    """
    start = size = 0
    for index, text in enumerate(texts):
        if index > start and size + len(text) > PART_CHARACTERS:
            yield texts[start:index]
            start, size = index, 0
        size += len(text)
    yield texts[start:]
