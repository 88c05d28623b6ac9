"""Cancellation of requests whose client disconnects before the response, or that take too long."""

import asyncio
from types import TracebackType

from starlette.types import Receive

# Seconds before the server starts to watch for a disconnect. Most requests are answered earlier
# and cost one timer, less than asyncio.timeout.
WATCH_DELAY = 0.05


class ClientDisconnectedError(Exception):
    """Error raised in a request handler whose client has disconnected."""


class CancelOnDisconnect:
    """Context manager that cancels its block when the client disconnects or a timeout expires.

    Use it after the request body has been read. It raises ``ClientDisconnectedError`` or
    ``TimeoutError``.

    Args:
        receive: the ASGI function that returns ``http.disconnect``.
        seconds: the time limit.
    """

    __slots__ = ("delay", "error", "receive", "request", "seconds", "timer", "watcher")

    def __init__(self, receive: Receive, seconds: float) -> None:
        self.receive, self.seconds = receive, seconds
        self.delay = min(WATCH_DELAY, seconds / 2)
        self.watcher: asyncio.Task[None] | None = None
        self.error: type[Exception] | None = None

    def __enter__(self) -> None:
        request, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert request is not None
        self.request = request
        self.timer = loop.call_later(self.delay, self._start)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.timer.cancel()
        if self.watcher is not None:
            self.watcher.cancel()
        if self.error is not None and kind is asyncio.CancelledError:
            self.request.uncancel()
            raise self.error from None

    def _start(self) -> None:
        self.watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        try:
            async with asyncio.timeout(self.seconds - self.delay):
                while (await self.receive())["type"] != "http.disconnect":
                    pass
            self.error = ClientDisconnectedError
        except TimeoutError:
            self.error = TimeoutError
        self.request.cancel()
