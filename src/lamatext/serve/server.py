"""The server as a process: it starts, it is told to stop, it answers what it has, it ends."""

import asyncio
import socket
from collections.abc import Callable
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI

from lamatext.serve.listener import last_guests, listen
from lamatext.serve.middleware import Lifecycle

LAST_REQUESTS = 1.0  # seconds in which an open connection may still ask
# Seconds that an idle connection stays open. Proxies and balancers keep theirs for 60 or less: so
# it is they who close it, and no request of theirs arrives on one that is just being closed here.
KEEP_ALIVE = 75


class Server(uvicorn.Server):
    """Leaves in two steps, so that no request is lost.

    Told to stop, it first says so (``/readyz`` is 503, every answer closes its connection) and
    still takes requests for ``drain`` seconds. Then it takes no more connections, answers what
    those that it has may still ask, and ends. Told a second time it leaves at once.
    """

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, *, drain: float) -> None:
        super().__init__(config)
        self.lifecycle, self.drain = lifecycle, drain
        self.leave_at = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """Begin to leave; a signal that was heeded is not raised again, so the status is 0."""
        if not self.lifecycle.draining and self.started:
            self.lifecycle.draining = True
            self.leave_at = monotonic() + self.drain
            return
        self.force_exit = self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let in who stands at the door, close it, and wait: a request may be on its way."""
        waiting = [guest for door in sockets or () for guest in last_guests(door)]
        for door in (*self.servers, *(sockets or ())):
            door.close()
        for guest in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, guest)
        patience = monotonic() + LAST_REQUESTS
        while self.server_state.connections and monotonic() < patience and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """What talks on one connection."""
        kind: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        state = self.lifespan.state
        return kind(config=self.config, server_state=self.server_state, app_state=state)

    async def on_tick(self, counter: int) -> bool:
        """Whether the time has come to take no more; asked ten times a second."""
        return await super().on_tick(counter) or monotonic() >= self.leave_at


def run(
    app: FastAPI,
    *,
    host: str,
    port: int,
    drain: float = 1.0,
    on_start: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve until told to stop. Requests are counted, never logged.

    Args:
        app: from ``create_app``.
        host: the address to listen at.
        port: 0 for any that is free.
        drain: seconds between being told to stop and taking no more requests.
        on_start: told the port once it is open.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # nobody here asks who the client is
        timeout_keep_alive=KEEP_ALIVE,
        ws="none",
    )
    listener = listen(host, port)
    on_start(listener.getsockname()[1])
    Server(config, app.state.lifecycle, drain=drain).run([listener])
