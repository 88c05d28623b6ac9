"""TLS of the server: certificate and key files, and handshakes, whose number and time are limited.

asyncio's own TLS servers create a protocol only after the handshake, so that clients which never
finish it would not count as connections.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from lamatext.errors import ConfigError

HANDSHAKE_SHARE = 4  # handshakes may always take the limit of connections divided by this
PATIENCE = 0.05  # seconds that a handshake has before a new one may replace it
ACCEPTS = 16  # connections accepted before others get their turn
RETRY_SECONDS = 1.0  # after the process has run out of file descriptors


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


class TlsListener:
    """A listening socket of the server whose connections start with a TLS handshake.

    Args:
        listener: the socket.
        tls: certificate and time limit of a handshake.
        connections: how many connections may be open. Handshakes count as connections: beyond the
            limit, a new one replaces the oldest handshake, or waits until that has had a little
            time: a burst of connections must not end a handshake that has just begun. However many
            connections are open, a quarter of the limit is for handshakes, so that clients can
            still connect.
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

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(
                self.make_protocol,
                connection,
                ssl=self.tls.context,
                ssl_handshake_timeout=self.tls.handshake_seconds,
            )
        except OSError:  # not TLS, too slow (ConnectionAbortedError), or closed by the client
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            if self._is_full():
                seconds = next(iter(self.handshakes.values())) + PATIENCE - self.loop.time()
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
        """Let new connections wait in the backlog of the socket for some time."""
        self.loop.remove_reader(self.listener)
        self.retry = self.loop.call_later(
            seconds, self.loop.add_reader, self.listener, self._accept
        )
