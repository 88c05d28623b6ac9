"""TLS for the server: certificate and key files, handshakes, connections, and their limits.

asyncio's own TLS servers create a protocol only after the handshake, so that clients that never
finish it would not count as connections. After the server has closed a connection, they decrypt
whatever the client still sends, for up to 30 s: a huge body would delay all other clients.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from lamatext.errors import ConfigError

HANDSHAKE_SHARE = 4  # the connection limit divided by this is reserved for handshakes
# Seconds that a handshake has before a new one may replace it: a multiple of the usual duration.
SHORTEST_PATIENCE, PATIENCE, USUAL_TIMES = 0.01, 0.05, 4
PROMPT_HANDSHAKES = 8  # in progress; with more, clients are asked to retry first (see TlsFiles)
ACCEPTS = 16  # connections accepted before others get their turn
RETRY_SECONDS = 1.0  # after the process has run out of file descriptors
RECORD = 16_384  # bytes; the most that a TLS record holds
LINGER_SECONDS = 2.0  # time for a client to read the last response before its connection is closed
LINGER_BYTES = 8 << 20  # bytes that are discarded, still encrypted, in this time


class TlsFiles:
    """TLS certificate and private key files, which can be replaced while the server runs.

    Answering the first message of a handshake needs the private key and takes most of its time.
    While many handshakes are in progress, new ones use ``retry_context``, so that clients that
    never continue cost little: it accepts key shares on P-256 only. Every client of TLS 1.3
    supports this curve, but most send a key share on another one first. They are asked for a new
    key share (HelloRetryRequest, RFC 8446, 4.1.4) before the private key is used.
    """

    def __init__(
        self, certificate: Path, key: Path | None = None, *, handshake_seconds: float = 10.0
    ) -> None:
        self.certificate, self.key = certificate, key
        self.handshake_seconds = handshake_seconds
        self.context, self.retry_context = _server_context(), _server_context()
        self.retry_context.set_ecdh_curve("prime256v1")
        self.load()

    def load(self) -> None:
        """Load the TLS certificate and key files, which are used for new connections."""
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file. Expected a certificate or key in PEM.")
        try:
            for context in (self.context, self.retry_context):
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self.certificate}: cannot be used for TLS: {error}. Expected a PEM certificate "
                "and its key without a password (--tls-key)."
            ) from error


def _server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.options |= ssl.OP_NO_RENEGOTIATION  # which would cost only the server time
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


class TlsHandshake:
    """A server-side TLS handshake directly on a socket, at half the cost of an asyncio transport.

    Args:
        connection: the accepted socket.
        context: TLS context with the certificate and options.
        seconds: time limit.
        on_answer: called when the server has answered a part of the handshake.
        on_end: called with whether the handshake succeeded; if not, the socket is closed.
    """

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        seconds: float,
        on_answer: "Callable[[TlsHandshake], None]",
        on_end: "Callable[[TlsHandshake, bool], None]",
    ) -> None:
        self.connection, self.on_answer, self.on_end = connection, on_answer, on_end
        self.received, self.sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.sending, server_side=True)
        self.loop = asyncio.get_running_loop()
        self.started = self.loop.time()
        connection.setblocking(False)
        self.loop.add_reader(connection, self._continue)
        self.timeout = self.loop.call_later(seconds, self.close)

    def close(self) -> None:
        """Abort the TLS handshake and close its connection."""
        self._end(succeeded=False)

    def _continue(self) -> None:
        has_answer = False
        try:
            data = self.connection.recv(RECORD)
            if not data:
                raise ConnectionResetError("closed by the client")
            self.received.write(data)
            try:
                self.tls.do_handshake()
            finally:  # the answer to an error is an alert with its reason
                has_answer = self.sending.pending > 0
                self._send()
        except (BlockingIOError, InterruptedError):
            pass
        except ssl.SSLWantReadError:
            if has_answer:
                self.on_answer(self)
        except OSError:
            self.close()
        else:
            self._end(succeeded=True)

    def _send(self) -> None:
        """Send a TLS handshake message at once: the send buffer of a new connection is empty."""
        data = self.sending.read()
        if data and self.connection.send(data) < len(data):
            raise ConnectionAbortedError("the certificates are larger than the buffer")

    def _end(self, *, succeeded: bool) -> None:
        self.timeout.cancel()
        self.loop.remove_reader(self.connection)
        if not succeeded:
            self.connection.close()
        self.on_end(self, succeeded)


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """A TLS connection that acts as a protocol for TCP and as a transport for HTTP.

    Nothing is decrypted while the HTTP protocol has paused reading or after it has closed the
    connection. A client that is still sending then has a little time to read its response: what
    it sends is discarded up to a limit, and not read beyond it.

    Args:
        handshake: the finished handshake, which may have received the first bytes of HTTP.
        make_protocol: creates the HTTP protocol.
    """

    def __init__(
        self, handshake: "TlsHandshake", make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self.received, self.sending = handshake.received, handshake.sending
        self.tls = handshake.tls
        super().__init__({"sslcontext": self.tls.context, "ssl_object": self.tls})
        self.loop = asyncio.get_running_loop()
        self.make_protocol = make_protocol
        self.protocol: asyncio.Protocol | None = None  # while the connection is open
        self.tcp: asyncio.Transport
        self.is_paused = self.is_closed = False
        self.discarded_bytes = 0
        self.linger: asyncio.TimerHandle | None = None

    # The protocol of TCP

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Create the HTTP protocol and decrypt data received with the end of the TLS handshake."""
        self.tcp = cast("asyncio.Transport", transport)
        self.protocol = self.make_protocol()
        self.protocol.connection_made(self)
        self._decrypt()

    def data_received(self, data: bytes) -> None:
        """Decrypt received data, unless the TLS connection was closed locally."""
        if self.is_closed:
            self.discarded_bytes += len(data)
            if self.discarded_bytes > LINGER_BYTES:
                self.tcp.pause_reading()
            return
        self.received.write(data)
        self._decrypt()

    def eof_received(self) -> None:
        """Close the TCP connection when the client closes it without a TLS ``close_notify`` alert.

        The transport closes itself because this method returns None.
        """

    def connection_lost(self, error: Exception | None) -> None:
        """Notify the HTTP protocol that the TCP connection below TLS is closed."""
        if self.linger is not None:
            self.linger.cancel()
        if self.protocol is not None:
            self.protocol.connection_lost(error)
            self.protocol = None

    def pause_writing(self) -> None:
        """Notify the HTTP protocol that the TLS client is not reading its response."""
        if self.protocol is not None:
            self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Notify the HTTP protocol that the TLS client is reading again."""
        if self.protocol is not None:
            self.protocol.resume_writing()

    def _decrypt(self) -> None:
        """Decrypt received TLS records until reading is paused or the connection is closed."""
        try:
            while self.protocol is not None and not (self.is_paused or self.is_closing()):
                data = self.tls.read(RECORD)
                if not data:  # the client has closed its side
                    self.close()
                    return
                self.protocol.data_received(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._fail()
        self._flush()  # answers to key updates

    def _fail(self) -> None:
        """Close the TLS connection after an error and send the client an alert with the reason."""
        self.is_closed = True
        self._flush()
        self.tcp.close()

    def _flush(self) -> None:
        data = self.sending.read()
        if data and not self.tcp.is_closing():
            self.tcp.write(data)

    # The transport of the HTTP protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a property of the TLS connection or of its TCP transport."""
        own = super().get_extra_info(name)
        return self.tcp.get_extra_info(name, default) if own is None else own

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt bytes and send them to the client of the TLS connection."""
        if self.is_closing():
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.tls.write(rest) :]
        except ssl.SSLError:
            self._fail()
        self._flush()

    def can_write_eof(self) -> bool:
        """Return False, since TLS 1.2 cannot close only one side of a connection."""
        return False

    def pause_reading(self) -> None:
        """Stop reading and decrypting the bytes that the TLS client sends."""
        self.is_paused = True
        self.tcp.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading and decrypting data from the TLS client."""
        if self.is_paused:
            self.is_paused = False
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        if not self.is_closed:
            self._decrypt()
        if not self.is_paused:
            self.tcp.resume_reading()

    def is_closing(self) -> bool:
        """Return whether the TLS connection is closed on this side."""
        return self.is_closed or self.tcp.is_closing()

    def close(self) -> None:
        """Close the TLS connection, then the TCP connection once the client closes its side."""
        if self.is_closing():
            return
        self.is_closed = True
        with suppress(ssl.SSLError):  # the client has not closed its side yet
            self.tls.unwrap()
        self._flush()
        with suppress(OSError):
            self.tcp.write_eof()
        self.tcp.resume_reading()
        self.linger = self.loop.call_later(LINGER_SECONDS, self.tcp.abort)

    def abort(self) -> None:
        """Close the TLS connection immediately."""
        self.is_closed = True
        self.tcp.abort()


class TlsListener:
    """A listening socket of the server whose connections start with a TLS handshake.

    Args:
        listener: the socket.
        tls: certificate and time limit of a handshake.
        connections: how many connections may be open, including handshakes. Beyond the limit, a new
            connection replaces the handshake that has waited longest for its client, but only after
            that client has had a little time: a burst of connections must not end a handshake that
            has just begun or continued. How much time depends on how long the last finished
            handshakes took. However many connections are open, a quarter of the limit is reserved
            for handshakes, so that clients can still connect.
        count_open: returns the number of connections after their handshake.
        make_protocol: creates the protocol of a connection after its handshake.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: TlsFiles,
        connections: int,
        count_open: Callable[[], int],
        make_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self.listener, self.tls = listener, tls
        self.connections, self.count_open = connections, count_open
        self.make_protocol = make_protocol
        # When each handshake began to wait for its client, longest wait first.
        self.handshakes: OrderedDict[TlsHandshake, float] = OrderedDict()
        self.opening: set[asyncio.Task[None]] = set()  # connections after their handshake
        self.usual_seconds = PATIENCE  # moving average of the duration of finished handshakes
        self.loop = asyncio.get_running_loop()
        self.retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self.loop.add_reader(listener, self._accept)

    def start_handshake(self, connection: socket.socket) -> None:
        """Start a TLS handshake; if the listener is full, abort the longest-waiting one first."""
        if self._is_full():
            next(iter(self.handshakes)).close()
        is_busy = len(self.handshakes) >= PROMPT_HANDSHAKES
        context = self.tls.retry_context if is_busy else self.tls.context
        limit = self.tls.handshake_seconds
        handshake = TlsHandshake(connection, context, limit, self._renew, self._end_handshake)
        self.handshakes[handshake] = handshake.started

    def _is_full(self) -> bool:
        reserved = max(1, self.connections // HANDSHAKE_SHARE)
        return len(self.handshakes) >= max(reserved, self.connections - self.count_open())

    def close(self) -> None:
        """Stop accepting connections; TLS handshakes in progress continue."""
        if self.retry is not None:
            self.retry.cancel()
        if self.listener.fileno() >= 0:  # not closed before
            self.loop.remove_reader(self.listener)

    async def wait_closed(self) -> None:
        """Abort the TLS handshakes that are still in progress."""
        for handshake in [*self.handshakes]:
            handshake.close()

    @property
    def patience_seconds(self) -> float:
        """Time that a TLS handshake gets before a new handshake may replace it."""
        return min(PATIENCE, max(SHORTEST_PATIENCE, USUAL_TIMES * self.usual_seconds))

    def _renew(self, handshake: TlsHandshake) -> None:
        """Restart the waiting time of a TLS handshake after the server has sent an answer."""
        self.handshakes[handshake] = self.loop.time()
        self.handshakes.move_to_end(handshake)

    def _end_handshake(self, handshake: TlsHandshake, succeeded: bool) -> None:
        """Remove a finished TLS handshake and open its connection if it was successful."""
        del self.handshakes[handshake]
        if succeeded:
            seconds = self.loop.time() - handshake.started
            self.usual_seconds += 0.2 * (seconds - self.usual_seconds)
            task = self.loop.create_task(self._open(handshake))
            self.opening.add(task)
            task.add_done_callback(self.opening.discard)

    async def _open(self, handshake: TlsHandshake) -> None:
        try:
            await self.loop.connect_accepted_socket(
                lambda: TlsConnection(handshake, self.make_protocol), handshake.connection
            )
        except BaseException:
            handshake.connection.close()
            raise

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            if self._is_full():
                oldest = next(iter(self.handshakes.values()))
                seconds = oldest + self.patience_seconds - self.loop.time()
                if seconds > 0:
                    self._pause(seconds)
                    return
            try:
                connection = self.listener.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor is left
                self._pause(RETRY_SECONDS)
                return
            self.start_handshake(connection)

    def _pause(self, seconds: float) -> None:
        """Stop accepting TLS connections for a while; new connections wait in the backlog."""
        self.loop.remove_reader(self.listener)
        self.retry = self.loop.call_later(
            seconds, self.loop.add_reader, self.listener, self._accept
        )
