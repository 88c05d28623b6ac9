"""TLS of the server: certificate and key files, handshakes and connections, which are limited.

asyncio's own TLS servers create a protocol only after the handshake, so that clients which never
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

HANDSHAKE_SHARE = 4  # handshakes may always take the limit of connections divided by this
# Seconds that a handshake has before a new one may replace it: some times the usual duration.
SHORTEST_PATIENCE, PATIENCE, USUAL_TIMES = 0.01, 0.05, 4
ACCEPTS = 16  # connections accepted before others get their turn
RETRY_SECONDS = 1.0  # after the process has run out of file descriptors
RECORD = 16_384  # bytes; the most that a TLS record holds
LINGER_SECONDS = 2.0  # time for a client to read the last response before its connection is closed
LINGER_BYTES = 8 << 20  # bytes that are discarded, still encrypted, in this time


class TlsFiles:
    """Certificate and private key files of the server, which can be replaced while it runs."""

    def __init__(
        self, certificate: Path, key: Path | None = None, *, handshake_seconds: float = 10.0
    ) -> None:
        self.certificate, self.key = certificate, key
        self.handshake_seconds = handshake_seconds
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.options |= ssl.OP_NO_RENEGOTIATION  # which would cost only the server time
        self.load()

    def load(self) -> None:
        """Load the TLS certificate for new connections to the server."""
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file. Expected a certificate or key in PEM.")
        try:
            self.context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self.certificate}: cannot be used for TLS: {error}. Expected a PEM certificate "
                "and its key without a password (--tls-key)."
            ) from error


def _no_password() -> str:
    raise ValueError("the key has a password")


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """A TLS connection of the server: a protocol of TCP, and the transport of an HTTP protocol.

    Nothing is decrypted while the HTTP protocol has paused reading or after it has closed the
    connection. A client that is still sending then has a little time to read its response: what
    it sends is discarded up to a limit, and not read beyond it.

    Args:
        context: the certificate and the options of TLS.
        make_protocol: creates the HTTP protocol after the handshake.
    """

    def __init__(
        self, context: ssl.SSLContext, make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self.received, self.sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.sending, server_side=True)
        super().__init__({"sslcontext": context, "ssl_object": self.tls})
        self.loop = asyncio.get_running_loop()
        self.handshake: asyncio.Future[None] = self.loop.create_future()
        self.make_protocol = make_protocol
        self.protocol: asyncio.Protocol | None = None  # after the handshake
        self.tcp: asyncio.Transport
        self.is_paused = self.is_closed = False
        self.discarded_bytes = 0
        self.linger: asyncio.TimerHandle | None = None

    # The protocol of TCP

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the TCP transport; the client starts the TLS handshake."""
        self.tcp = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Continue the TLS handshake, or decrypt what has arrived."""
        if self.is_closed:
            self.discarded_bytes += len(data)
            if self.discarded_bytes > LINGER_BYTES:
                self.tcp.pause_reading()
            return
        self.received.write(data)
        if self.protocol is None:
            self._continue_handshake()
        else:
            self._decrypt()

    def eof_received(self) -> None:
        """Let TCP close the connection, of which the client has closed its side without TLS."""

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the HTTP protocol, or whoever waits for the TLS handshake, that TCP is closed."""
        if self.linger is not None:
            self.linger.cancel()
        if self.protocol is not None:
            self.protocol.connection_lost(error)
            self.protocol = None
        elif not self.handshake.done():
            self.handshake.set_exception(error or ConnectionResetError("closed by the client"))

    def pause_writing(self) -> None:
        """Tell the HTTP protocol that the TLS client does not read."""
        if self.protocol is not None:
            self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell the HTTP protocol that the TLS client has read."""
        if self.protocol is not None:
            self.protocol.resume_writing()

    def _continue_handshake(self) -> None:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._fail()
            if not self.handshake.done():
                self.handshake.set_exception(error)
        else:
            self._flush()
            if self.handshake.done():  # too late
                return
            self.handshake.set_result(None)
            self.protocol = self.make_protocol()
            self.protocol.connection_made(self)
            self._decrypt()

    def _decrypt(self) -> None:
        """Decrypt received records until reading is paused or the connection is closed."""
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
        """Return False: TLS 1.2 cannot close one side of a connection."""
        return False

    def pause_reading(self) -> None:
        """Stop reading and decrypting the bytes that the TLS client sends."""
        self.is_paused = True
        self.tcp.pause_reading()

    def resume_reading(self) -> None:
        """Decrypt the bytes that the TLS client has sent meanwhile, then continue reading."""
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
        """Close this side of the TLS connection, and TCP as soon as the client closes its side."""
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
        connections: how many connections may be open. Handshakes count as connections: beyond the
            limit, a new one replaces the oldest handshake, or waits until that has had a little
            time: a burst of connections must not end a handshake that has just begun. How long
            depends on the time that the last finished handshakes took. However many connections
            are open, a quarter of the limit is for handshakes, so that clients can still connect.
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
        # When each handshake started, the oldest first.
        self.handshakes: OrderedDict[asyncio.Task[None], float] = OrderedDict()
        self.usual_seconds = PATIENCE  # moving average of the duration of finished handshakes
        self.loop = asyncio.get_running_loop()
        self.retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self.loop.add_reader(listener, self._accept)

    def start_handshake(self, connection: socket.socket) -> None:
        """Start the TLS handshake of a connection; cancel the oldest if there are too many."""
        if self._is_full():
            self.handshakes.popitem(last=False)[0].cancel()
        connection.setblocking(False)
        handshake = self.loop.create_task(self._shake_hands(connection))
        self.handshakes[handshake] = self.loop.time()
        handshake.add_done_callback(lambda task: self.handshakes.pop(task, None))

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
        """Return immediately, since a closed TLS listener has nothing left to wait for."""

    @property
    def patience_seconds(self) -> float:
        """Time that a TLS handshake has before a new one may replace it."""
        return min(PATIENCE, max(SHORTEST_PATIENCE, USUAL_TIMES * self.usual_seconds))

    async def _shake_hands(self, connection: socket.socket) -> None:
        started = self.loop.time()
        tls = TlsConnection(self.tls.context, self.make_protocol)
        try:
            await self.loop.connect_accepted_socket(lambda: tls, connection)
        except BaseException:
            connection.close()
            raise
        try:
            async with asyncio.timeout(self.tls.handshake_seconds):
                await tls.handshake
            self.usual_seconds += 0.2 * (self.loop.time() - started - self.usual_seconds)
        except TimeoutError:
            tls.abort()
        except OSError:  # not TLS, or closed by the client
            pass
        except asyncio.CancelledError:
            tls.abort()
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
        """Stop accepting TLS connections for some time; they wait in the socket's backlog."""
        self.loop.remove_reader(self.listener)
        self.retry = self.loop.call_later(
            seconds, self.loop.add_reader, self.listener, self._accept
        )
