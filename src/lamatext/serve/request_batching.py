"""Request batching: texts of concurrent requests share one call of the model."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")

WAIT = 0.001  # seconds
BATCH_CHARACTERS = 40_000  # about 8,000 words


class OverloadedError(Exception):
    """Error raised when the queue of the request batcher is full."""


class _Job(NamedTuple, Generic[R]):
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
        self._jobs: deque[_Job[R]] = deque()
        self._waiting_texts = self._waiting_characters = 0  # in `_jobs`
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, texts: Sequence[str]) -> Sequence[R]:
        """Add the texts of one request to a batch and return their results, one per text.

        An error in ``function`` is raised for every request of the batch.
        """
        if self._waiting_texts + len(texts) > self._capacity:
            raise OverloadedError
        loop = asyncio.get_running_loop()
        job = _Job[R](texts, loop.create_future(), sum(map(len, texts)))
        self._jobs.append(job)
        self._waiting_texts += len(texts)
        self._waiting_characters += job.characters
        if self._idle_threads:
            if self._waiting_characters >= self._characters:
                self._start_batch()
            elif self._timer is None:
                self._timer = loop.call_later(self._wait, self._start_batch)
        return await job.result

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
        while self._jobs and (not jobs or size + self._jobs[0].characters <= self._characters):
            job = self._jobs.popleft()
            self._waiting_texts -= len(job.texts)
            self._waiting_characters -= job.characters
            if not job.result.done():
                jobs.append(job)
                size += job.characters
        return jobs

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
