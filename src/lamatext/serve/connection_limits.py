"""Connection limits: header sizes, timeouts for slow clients and the number of connections.

uvicorn limits none of these for its httptools protocol. ``LimitedProtocol`` adds the limits to one
connection; ``ConnectionTable`` holds all connections and closes the oldest idle one when full.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from math import inf
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lamatext.serve.http_errors import problem_response

SLICE = 8192  # bytes given to the HTTP parser at a time; the limits are checked after each slice
LINGER_SECONDS = 2.0  # time for a refused client to read its error before the connection is closed
LINGER_BYTES = 1 << 20  # bytes of a refused client that are discarded in this time
GRACE = 1.0  # seconds; the application answers a late body with status 408 before this is over


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of a server: sizes in bytes and timeouts in seconds."""

    connections: int = 1000
    """Open connections; a new one replaces the oldest idle one."""
    request_line: int = 8192
    """Bytes of the path and query string."""
    header: int = 8192
    """Bytes of one header."""
    headers: int = 32_768
    """Bytes of all headers of a request together."""
    header_count: int = 100
    """Headers of a request."""
    pipelined: int = 16
    """Requests that a client may send ahead on one connection."""
    body: int = 1 << 20
    """Bytes of a body; reading stops there if the request is already answered."""
    bodies: int = 64 << 20
    """Bytes of all incomplete bodies together; beyond that the oldest upload is closed."""
    header_seconds: float = 10.0
    """Time to receive the request line and the headers."""
    body_seconds: float = 10.0
    """Time to receive a body, and time for a client to read 64 kB of a response."""
    idle_seconds: float = 75.0
    """Time that a connection stays open between two requests.

    Proxies and load balancers close theirs after 60 s or less, so they close first and never send
    a request on a connection that is closing here.
    """


class ConnectionState(Enum):
    """What a connection is waiting for, which determines its timeout."""

    HEAD = "request line and headers"
    BODY = "body"
    BUSY = "response"
    IDLE = "next request"
    CLOSING = "client to close the connection"


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on header sizes and connection timeouts.

    Args:
        table: the connections of the server and their limits.
        options: the arguments that uvicorn passes to its protocols.
    """

    def __init__(self, table: "ConnectionTable", **options: Any) -> None:
        super().__init__(**options)
        self.table, self.limits = table, table.limits
        self.state = self.received = ConnectionState.HEAD  # `received`: state of the parser alone
        self.deadline = self.write_deadline = inf
        self.path_bytes = self.header_bytes = self.header_count = self.body_bytes = 0
        self.pending_bytes = 0  # bytes that the parser has received but not yet delivered
        self.discarded_bytes = 0
        self.refusal: tuple[int, str] | None = None
        self.refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add a new connection to the table and start its header timeout."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + self.limits.header_seconds
        if not self.table.add(self):
            self.refuse(503, "the server has too many connections. Try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove a closed connection from the table."""
        self.release_body()
        self.table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes in slices, so that no header grows beyond its limit."""
        if self.received is ConnectionState.IDLE:
            self.received, self.pending_bytes = ConnectionState.HEAD, 0
        if len(data) <= SLICE and not self.refused:  # nearly every request
            self._parse(data)
        else:
            for start in range(0, len(data), SLICE):
                if self.refused or self.transport.is_closing():
                    self._discard(len(data) - start)
                    break
                self._parse(data[start : start + SLICE])
        self._update_state()

    def _parse(self, data: bytes) -> None:
        self.pending_bytes += len(data)
        super().data_received(data)
        if self.pending_bytes > self.limits.header + SLICE and not self.refused:
            self.refuse(431, f"a header may have at most {self.limits.header:,} bytes.")

    def _discard(self, count: int) -> None:
        self.discarded_bytes += count
        if self.discarded_bytes > LINGER_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Reset the header limits for the next request on the connection."""
        super().on_message_begin()
        self.received = ConnectionState.HEAD
        self.path_bytes = self.header_bytes = self.header_count = self.pending_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Limit the length of the path before the header parser appends to it."""
        self.path_bytes += len(url)
        self.pending_bytes = 0
        if self.path_bytes > self.limits.request_line:
            limit = self.limits.request_line
            raise self._limit_error(414, f"the path may have at most {limit:,} bytes.")
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Limit the size and number of headers; trailers after a body count and are ignored."""
        size = len(name) + len(value) + 4  # with ": " and the line break
        self.header_bytes += size
        self.header_count += 1
        self.pending_bytes = 0
        limits = self.limits
        if size > limits.header:
            raise self._limit_error(431, f"a header may have at most {limits.header:,} bytes.")
        if self.header_bytes > limits.headers:
            raise self._limit_error(431, f"all headers may have at most {limits.headers:,} bytes.")
        if self.header_count > limits.header_count:
            raise self._limit_error(431, f"expected at most {limits.header_count} headers.")
        if self.received is ConnectionState.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request after its headers and wait for its body."""
        self.pending_bytes = 0
        self.received = ConnectionState.BODY
        self.state, self.deadline = ConnectionState.BUSY, inf
        if len(self.pipeline) >= self.limits.pipelined:
            raise self._limit_error(429, "too many requests at once on one connection.")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of a body towards the limits of the connection and of the table."""
        self.pending_bytes = 0
        self.body_bytes += len(body)
        super().on_body(body)
        if self.body_bytes > self.limits.body and self.cycle.response_complete:
            self.transport.abort()
        self.table.count_body(len(body))

    def on_message_complete(self) -> None:
        """End the body timeout of the connection: the request is complete."""
        self.received, self.pending_bytes = ConnectionState.IDLE, 0
        self.release_body()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the idle timeout of the connection, unless more requests were received."""
        super().on_response_complete()
        self._update_state()

    def pause_writing(self) -> None:
        """Start the timeout for a slow client that does not read its response."""
        super().pause_writing()
        self.write_deadline = self.loop.time() + self.limits.body_seconds
        self.table.place(self)

    def resume_writing(self) -> None:
        """End the timeout of a slow client that has read its response."""
        super().resume_writing()
        self.write_deadline = inf
        self.table.place(self)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's
        """Refuse a request that is not valid HTTP or exceeds a header limit."""
        self.refuse(*(self.refusal or (400, "this is not a valid HTTP/1.1 request.")))

    def refuse(self, status: int, detail: str) -> None:
        """Send an error response from outside the application and close the connection.

        The connection is closed without a response if another response is in progress.
        """
        self.refused = True
        if self.responding:
            current = self.received is ConnectionState.BODY and not self.pipeline
            if not current or self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True  # the application stops waiting for the body
            self.cycle.message_event.set()
        response = problem_response(status, detail, {"Connection": "close"})
        lines = [b": ".join(header) for header in response.raw_headers]
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
        self.transport.write(b"\r\n".join([first, *lines, b"", bytes(response.body)]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._update_state()

    def check_timeouts(self, now: float) -> None:
        """Close the connection if one of its timeouts has expired."""
        if now >= self.write_deadline:
            self.transport.abort()
        elif now < self.deadline:
            return
        elif self.flow.read_paused and self.state is not ConnectionState.CLOSING:
            self.deadline = now + GRACE  # the server is not reading; the client is not slow
        elif self.state is ConnectionState.HEAD and self.pending_bytes + self.path_bytes:
            self.refuse(408, f"no complete headers within {self.limits.header_seconds:g} s.")
        else:
            self.transport.abort()

    @property
    def responding(self) -> bool:
        """Whether a request of this connection is waiting for the end of its response."""
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_error(self, status: int, detail: str) -> ValueError:
        """Return the error that stops the HTTP parser; ``send_400_response`` sends ``status``."""
        self.refusal = (status, detail)
        return ValueError(detail)

    def release_body(self) -> None:
        """Subtract the body of this connection from the bytes counted in the table."""
        self.table.count_body(-self.body_bytes)
        self.body_bytes = 0

    def _update_state(self) -> None:
        if self.refused or self.transport.is_closing():
            state = ConnectionState.CLOSING
        elif self.received is ConnectionState.IDLE and self.responding:
            state = ConnectionState.BUSY
        else:
            state = self.received
        if state is not self.state:
            self.state = state
            self.deadline = self.loop.time() + self._seconds(state)
        self.table.place(self)

    def _seconds(self, state: ConnectionState) -> float:
        limits = self.limits
        return {
            ConnectionState.HEAD: limits.header_seconds,
            ConnectionState.BODY: limits.body_seconds + GRACE,
            ConnectionState.BUSY: inf,
            ConnectionState.IDLE: limits.idle_seconds,
            ConnectionState.CLOSING: LINGER_SECONDS if self.refused else limits.body_seconds,
        }[state]


class ConnectionTable:
    """All open connections of a server, which limits their number and checks their timeouts."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.connections: set[LimitedProtocol] = set()
        # Connections that may be closed for a new one, the oldest first.
        self.idle: OrderedDict[LimitedProtocol, None] = OrderedDict()
        self.transferring: OrderedDict[LimitedProtocol, None] = OrderedDict()
        self.body_bytes = 0
        self.timer: asyncio.TimerHandle | None = None
        shortest = min(limits.header_seconds, limits.body_seconds, limits.idle_seconds)
        self.interval = min(0.5, shortest / 4)

    def add(self, connection: LimitedProtocol) -> bool:
        """Add a connection, closing the oldest idle one if the table is full.

        Returns:
            False if every other connection is busy, so the new one has to be refused.
        """
        full = len(self.connections) >= self.limits.connections
        accepted = (
            not full or self._close_oldest(self.idle) or self._close_oldest(self.transferring)
        )
        self.connections.add(connection)
        self.idle[connection] = None
        if self.timer is None:
            self.timer = connection.loop.call_later(self.interval, self._check_timeouts)
        return accepted

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a closed connection from the table."""
        self.connections.discard(connection)
        self.idle.pop(connection, None)
        self.transferring.pop(connection, None)

    def place(self, connection: LimitedProtocol) -> None:
        """Record whether a connection is idle, transferring data, or busy and not to be closed."""
        if connection not in self.connections:
            return
        state = connection.state
        transferring = state is ConnectionState.BODY or connection.write_deadline < inf
        idle = not transferring and (
            state is ConnectionState.CLOSING
            or (state is not ConnectionState.BUSY and not connection.responding)
        )
        for group, member in ((self.idle, idle), (self.transferring, transferring)):
            if member:
                group.setdefault(connection)
            else:
                group.pop(connection, None)

    def count_body(self, count: int) -> None:
        """Add to the bytes of incomplete bodies; close the oldest upload connection if too many."""
        self.body_bytes += count
        if count > 0 and self.body_bytes > self.limits.bodies:
            self._close_oldest(self.transferring)

    def _close_oldest(self, group: "OrderedDict[LimitedProtocol, None]") -> bool:
        if not group:
            return False
        connection = next(iter(group))
        self.remove(connection)
        connection.release_body()
        connection.transport.abort()
        return True

    def _check_timeouts(self) -> None:
        self.timer = None
        for connection in [*self.connections]:
            now = connection.loop.time()
            connection.check_timeouts(now)
        if self.connections:
            loop = next(iter(self.connections)).loop
            self.timer = loop.call_later(self.interval, self._check_timeouts)
