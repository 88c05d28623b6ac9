"""Cancellation of requests whose client disconnects before the response."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Receive

# Seconds before the server starts to watch for a disconnect. Most requests are answered earlier
# and cost no extra task.
WATCH_DELAY = 0.05


class ClientDisconnectedError(Exception):
    """Error raised in a request handler whose client has disconnected."""


@contextmanager
def cancel_on_disconnect(receive: Receive) -> Iterator[None]:
    """Cancel the body of the ``with`` statement when the client disconnects.

    Use it after the request body has been read.

    Args:
        receive: the ASGI function that returns ``http.disconnect``.

    Raises:
        ClientDisconnectedError: the client has disconnected.
    """
    loop, request = asyncio.get_running_loop(), asyncio.current_task()
    assert request is not None
    watchers: list[asyncio.Task[None]] = []
    disconnected = False

    async def watch() -> None:
        nonlocal disconnected
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected = True
        request.cancel()

    timer = loop.call_later(WATCH_DELAY, lambda: watchers.append(loop.create_task(watch())))
    try:
        yield
    except asyncio.CancelledError:
        if not disconnected:
            raise
        request.uncancel()
        raise ClientDisconnectedError from None
    finally:
        timer.cancel()
        for watcher in watchers:
            watcher.cancel()
