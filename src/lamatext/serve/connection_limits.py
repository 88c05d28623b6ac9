"""Connection limits: header sizes, timeouts for slow clients and the number of connections.

uvicorn limits none of these for its httptools protocol. ``LimitedProtocol`` adds the limits to one
connection; ``ConnectionTable`` holds all connections and closes the oldest waiting one when full.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from http import HTTPStatus
from math import inf
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lamatext.serve.http_errors import problem_response

SLICE = 8192  # bytes given to the HTTP parser at a time; the limits are checked after each slice
LINGER_SECONDS = 2.0  # time for a refused client to read its error before the connection is closed
LINGER_BYTES = 1 << 18  # bytes of a refused client that are discarded in this time
# Clients send bodies in chunks of kilobytes. Handling each byte as a chunk would block the server.
FREE_CHUNKS, CHUNK_BYTES = 1000, 64  # number of chunks of any size; average size beyond that
GRACE = 1.0  # seconds; the application answers a late body with status 408 before this is over


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of a server, with sizes in bytes and timeouts in seconds."""

    connections: int = 1000
    """Open connections; beyond that, a new one replaces the oldest that waits for its client."""
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

    Proxies and load balancers close idle connections after 60 s or less, so they close first and
    never send a request on a connection that the server is closing.
    """

    def share_of(self, workers: int) -> "ConnectionLimits":
        """Divide the limits on connections and request bodies among the worker processes."""
        connections = max(1, self.connections // workers)
        bodies = max(self.body, self.bodies // workers)
        return replace(self, connections=connections, bodies=bodies)


class ConnectionState(IntEnum):
    """State of a connection, which determines its timeout."""

    HEAD = 0  # the request line and the headers
    BODY = 1
    BUSY = 2  # the response
    IDLE = 3  # the next request
    CLOSING = 4


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
        self.url = b""
        self.pending_bytes = 0  # of the headers, or received since the last part of the body
        self.body_bytes = self.counted_bytes = 0  # of the body; those counted in the table
        self.chunks = 0  # parts of the current body
        self.discarded_bytes = 0
        self.refusal: tuple[int, str] | None = None
        self.refused = False
        self.answered = False  # whether a request was answered on this connection before

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add a new connection to the connection table and start its header timeout."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + self.limits.header_seconds
        if not self.table.add(self):
            self.refuse(503, "the server has too many connections. Try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove a closed connection from the connection table."""
        self.release_body()
        self.table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes in slices, so that no header exceeds its size limit."""
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
        if self.received is ConnectionState.BODY:
            self.table.count_body(self.body_bytes - self.counted_bytes)
            self.counted_bytes = self.body_bytes
        self._update_state()

    def _parse(self, data: bytes) -> None:
        self.pending_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            while data and not self.refused:
                data = self._feed(data)
        except HttpParserError:
            self.send_400_response("")
        if self.pending_bytes > self.limits.header and not self.refused:
            self._check_pending()

    def _feed(self, data: bytes) -> bytes:
        """Pass received bytes to the HTTP parser and return the bytes that must be parsed again.

        A client may offer another protocol (``Upgrade: h2c``), which the server ignores. The parser
        would not read the body of such a request but take it for the next request, so the request
        is parsed again without its ``Upgrade`` header.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self.parser.get_method() == b"CONNECT":
                self.refuse(400, "this server is not a proxy.")
                return b""
            rest = data[upgrade.args[0] :]
            first = b"%s %s HTTP/%s" % (
                *(self.parser.get_method(), self.url),
                self.parser.get_http_version().encode(),
            )
            headers = [b": ".join(header) for header in self.headers if header[0] != b"upgrade"]
            self.parser = HttpRequestParser(self)
            with suppress(AttributeError):  # as uvicorn does; httptools before 0.6.3 has none
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            return b"\r\n".join([first, *headers, b"", rest])
        return b""

    def _check_pending(self) -> None:
        """Refuse oversized headers and trailers before they are received completely."""
        limits = self.limits
        head = self.received is ConnectionState.HEAD
        if head and len(self.url) > limits.request_line:
            self.refuse(414, f"the path may have at most {limits.request_line:,} bytes.")
        elif self.pending_bytes > limits.headers + (limits.request_line if head else 0):
            self.refuse(431, f"all headers may have at most {limits.headers:,} bytes.")

    def _discard(self, count: int) -> None:
        self.discarded_bytes += count
        if self.discarded_bytes > LINGER_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """Check the number and size of the headers against the limits, then start the request."""
        self._check_headers()
        if self.parser.should_upgrade():
            return  # the request is parsed again, see _feed
        self.pending_bytes = self.chunks = 0
        self.received = ConnectionState.BODY
        self.state, self.deadline = ConnectionState.BUSY, inf
        super().on_headers_complete()
        self.headers = []  # trailers after the body do not become headers of the request

    def _check_headers(self) -> None:
        limits = self.limits
        if len(self.url) > limits.request_line:
            limit = limits.request_line
            raise self._limit_error(414, f"the path may have at most {limit:,} bytes.")
        if len(self.headers) > limits.header_count:
            raise self._limit_error(431, f"expected at most {limits.header_count} headers.")
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and ([*codings, self.parser.get_http_version()] != [b"chunked", "1.1"]):
            raise self._limit_error(400, "expected the Transfer-Encoding chunked of HTTP/1.1.")
        if len(self.pipeline) >= limits.pipelined:
            raise self._limit_error(429, "too many requests at once on one connection.")
        if self.pending_bytes > limits.header:  # else every header is within its limit
            sizes = [len(name) + len(value) + 4 for name, value in self.headers]  # ": ", newline
            if max(sizes, default=0) > limits.header:
                raise self._limit_error(431, f"a header may have at most {limits.header:,} bytes.")
            if sum(sizes) > limits.headers:
                limit = limits.headers
                raise self._limit_error(431, f"all headers may have at most {limit:,} bytes.")

    def on_body(self, body: bytes) -> None:
        """Count the bytes of a request body towards the limits of the connection."""
        self.pending_bytes = 0
        self.body_bytes += len(body)
        self.chunks += 1
        if self.chunks > FREE_CHUNKS and self.body_bytes < self.chunks * CHUNK_BYTES:
            raise self._limit_error(400, "the body arrives in too small chunks.")
        super().on_body(body)
        if self.body_bytes > self.limits.body and self.cycle.response_complete:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """End the body timeout of the connection after a request has been received completely."""
        if self.parser.should_upgrade():
            return
        self.received, self.pending_bytes = ConnectionState.IDLE, 0
        self.release_body()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the idle timeout of the connection, unless another request was received."""
        super().on_response_complete()
        self.answered = True
        self._update_state()

    def pause_writing(self) -> None:
        """Start the timeout for a slow client that is not reading its response."""
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
        """Send an error response, unless another response has started, and close the connection."""
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
        else:
            self.transport.close()  # a TLS connection, which waits for its client by itself
        self._update_state()

    def check_timeouts(self, now: float) -> None:
        """Close the connection if one of its timeouts has expired."""
        if now >= self.write_deadline:
            self.transport.abort()
        elif now < self.deadline:
            return
        elif self.flow.read_paused and self.state is not ConnectionState.CLOSING:
            self.deadline = now + GRACE  # the server is not reading; the client is not slow
        elif self.state is ConnectionState.HEAD and self.pending_bytes:
            self.refuse(408, f"no complete headers within {self.limits.header_seconds:g} s.")
        else:
            self.transport.abort()

    @property
    def responding(self) -> bool:
        """Whether a request on this connection is still waiting for its complete response."""
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_error(self, status: int, detail: str) -> ValueError:
        """Create the error that stops the HTTP parser when a request exceeds a limit.

        ``status`` and ``detail`` are stored for ``send_400_response``, which sends them.
        """
        self.refusal = (status, detail)
        return ValueError(detail)

    def release_body(self) -> None:
        """Subtract this connection's request body from the total size of unfinished bodies."""
        if self.counted_bytes:
            self.table.count_body(-self.counted_bytes)
        self.body_bytes = self.counted_bytes = 0

    def _update_state(self) -> None:
        if self.refused or self.transport.is_closing():
            state = ConnectionState.CLOSING
        elif self.received is ConnectionState.IDLE and self.responding:
            state = ConnectionState.BUSY
        else:
            state = self.received
        if state is not self.state:
            self.state = state
            seconds = LINGER_SECONDS if self.refused else self.table.seconds[state]
            self.deadline = self.loop.time() + seconds
        self.table.place(self)


class ConnectionTable:
    """Table of all open connections, which limits their number and checks their timeouts."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.connections: set[LimitedProtocol] = set()
        # Connections that wait for their client and may be closed for another, the oldest first:
        # those without an answered request, the others, and those that are sending a body.
        self.new: OrderedDict[LimitedProtocol, None] = OrderedDict()
        self.used: OrderedDict[LimitedProtocol, None] = OrderedDict()
        self.uploads: OrderedDict[LimitedProtocol, None] = OrderedDict()
        self.body_bytes = 0
        self.timer: asyncio.TimerHandle | None = None
        self.seconds = (  # by ConnectionState
            limits.header_seconds,
            limits.body_seconds + GRACE,
            inf,
            limits.idle_seconds,
            limits.body_seconds,
        )
        shortest = min(limits.header_seconds, limits.body_seconds, limits.idle_seconds)
        self.interval = min(0.5, shortest / 4)

    def add(self, connection: LimitedProtocol) -> bool:
        """Add a connection to the table, closing the oldest waiting connection if it is full.

        Connections without an answered request are closed first only if they take more than half of
        the table. Many slow clients then replace each other instead of the clients that use the
        server, and clients that keep many unused connections do not lock out new clients.

        Returns:
            False if every other connection is busy, so the new one has to be refused.
        """
        accepted = True
        if len(self.connections) >= self.limits.connections:
            crowded = 2 * len(self.new) > self.limits.connections or not self.used
            accepted = self._close_oldest(self.new if crowded else self.used)
        self.connections.add(connection)
        self.new[connection] = None
        if self.timer is None:
            self.timer = connection.loop.call_later(self.interval, self._check_timeouts)
        return accepted

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a closed connection from the table."""
        self.connections.discard(connection)
        for group in (self.new, self.used, self.uploads):
            group.pop(connection, None)

    def place(self, connection: LimitedProtocol) -> None:
        """Record whether a connection is waiting and may be closed to make room for others."""
        if connection not in self.connections:
            return
        state = connection.state
        if state is ConnectionState.BODY:
            self.uploads.setdefault(connection)
        elif self.uploads:
            self.uploads.pop(connection, None)
        group = self.used if connection.answered else self.new
        busy = state is ConnectionState.BUSY or (
            state is ConnectionState.HEAD and connection.responding
        )
        if busy and connection.write_deadline == inf:
            group.pop(connection, None)
        elif connection not in group:
            group[connection] = None
            if connection.answered:
                self.new.pop(connection, None)

    def count_body(self, count: int) -> None:
        """Count bytes of unfinished request bodies; above the limit, close the oldest upload."""
        self.body_bytes += count
        if count > 0 and self.body_bytes > self.limits.bodies:
            self._close_oldest(self.uploads)

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
            connection.check_timeouts(connection.loop.time())
        if self.connections:
            loop = next(iter(self.connections)).loop
            self.timer = loop.call_later(self.interval, self._check_timeouts)
