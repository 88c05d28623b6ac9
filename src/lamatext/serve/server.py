"""The server process, based on uvicorn: listening sockets, TLS, signals and graceful shutdown."""

import asyncio
import ctypes
import logging
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from types import FrameType
from typing import cast

import uvicorn
from starlette.applications import Starlette

from lamatext.errors import ConfigError
from lamatext.serve.connection_limits import ConnectionLimits, ConnectionTable, LimitedProtocol
from lamatext.serve.middleware import ServerState
from lamatext.serve.tls import TlsFiles, TlsListener
from lamatext.serve.workers import Supervisor, WorkerContext, bind_listener
from lamatext.views.formatting import terminal_text

log = logging.getLogger("lamatext.serve")

STARTUP_FAILURE = 3
LAST_REQUESTS = 1.0  # seconds during shutdown in which open connections may send a request
BACKLOG = 2048  # connections that the operating system accepts before the server does
RESERVED_DESCRIPTORS = 64  # open files of the server besides its connections
SO_ATTACH_FILTER = 26  # on Linux; the socket module does not define it
# A classic BPF program, one instruction per line: load the TCP flags; if SYN is not set, skip one
# instruction; drop the packet; keep the packet.
DROP_SYN = [(0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF)]


def run_server(  # noqa: PLR0913 - where and how to serve
    make_app: Callable[[WorkerContext | None], Starlette],
    *,
    host: str,
    port: int,
    workers: int = 1,
    drain: float = 1.0,
    limits: ConnectionLimits | None = None,
    tls: TlsFiles | None = None,
    on_start: Callable[[int], None] = lambda _: None,
) -> int:
    """Run the server until it receives SIGINT or SIGTERM, and return the exit status.

    SIGHUP reloads the models and the certificate and opens the access log again.

    Args:
        make_app: creates the application with ``create_app``, in each worker process; its argument
            is None if there is only one process.
        host: the address to listen on.
        port: the port to listen on; 0 for any free one.
        workers: number of processes.
        drain: seconds after the signal during which new connections are still accepted.
        limits: limits on the connections of all workers together; None for the defaults. Fewer
            connections are accepted if a process may not open enough files.
        tls: certificate and key; None for HTTP without encryption.
        on_start: called with the port once the server is listening.
    """
    limits = (limits or ConnectionLimits()).share_of(workers)
    limits = replace(limits, connections=possible_connections(limits.connections))
    backlog = min(BACKLOG, limits.connections)
    _show_log()

    def serve(app: Starlette, listener: socket.socket, worker: WorkerContext | None) -> None:
        config = server_config(app, limits, backlog)
        DrainingServer(config, app.state.server, drain=drain, tls=tls, worker=worker).run(
            [listener]
        )

    if workers == 1:
        app = make_app(None)
        listener = open_listener(host, port, backlog=backlog)
        on_start(listener.getsockname()[1])
        serve(app, listener, None)
        return 0
    listeners = open_listeners(host, port, workers, backlog=backlog)
    found_port = listeners[0].getsockname()[1]
    return Supervisor(
        listeners,
        lambda worker: serve(make_app(worker), worker.listener, worker),
        lambda: on_start(found_port),
    ).run()


def _show_log() -> None:
    """Print the log of the server (reloads, restarted workers, failures) to stderr."""
    log.setLevel(logging.INFO)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_TerminalFormatter("lamatext: %(message)s"))
        log.addHandler(handler)
    log.propagate = False


class _TerminalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(super().format(record))


def server_config(
    app: Starlette, limits: ConnectionLimits, backlog: int = BACKLOG
) -> uvicorn.Config:
    """Return the configuration of the uvicorn server, including the connection limits."""
    protocol = partial(LimitedProtocol, ConnectionTable(limits))
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),
        access_log=False,
        log_level="error",  # a warning per invalid request would let clients fill the log
        server_header=False,
        proxy_headers=False,  # the client's address is never used
        timeout_keep_alive=cast("int", limits.idle_seconds),  # a float works as well
        ws="none",
        backlog=backlog,
    )


def possible_connections(wanted: int) -> int:
    """Return how many connections the server can accept, given its limit on open files.

    The soft limit of the process is raised as far as its hard limit allows. Half of the open
    files are reserved for connections that are accepted while older ones are closing, and for
    downloads.
    """
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * wanted + RESERVED_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, max(8, (soft - RESERVED_DESCRIPTORS) // 2))


class DrainingServer(uvicorn.Server):
    """A uvicorn server that drains its connections on shutdown, so that no request is lost.

    For ``drain`` seconds ``/readyz`` answers 503 and every response closes its connection, but
    new connections are accepted. Then the server closes its listening socket, answers what the
    open connections still send, and exits. A second signal makes it exit at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        *,
        drain: float,
        tls: TlsFiles | None = None,
        worker: WorkerContext | None = None,
    ) -> None:
        super().__init__(config)
        self.state, self.drain, self.tls, self.worker = state, drain, tls, worker
        self.drained_at = float("inf")
        self.reloads: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server's application, then listen on the sockets."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        loop = asyncio.get_running_loop()
        self.servers = [await self._listen(listener) for listener in sockets or []]
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        if self.worker is not None:
            loop.add_reader(self.worker.supervisor, self._stop_without_supervisor)
            self.worker.on_ready()
        self.started = True

    async def _listen(self, listener: socket.socket) -> "asyncio.Server":
        if self.tls is not None:
            limit = self.config.backlog
            listener.listen(BACKLOG)  # connections wait there while all handshakes have just begun
            return cast(
                "asyncio.Server",
                TlsListener(
                    listener,
                    self.tls,
                    limit,
                    lambda: len(self.server_state.connections),
                    self._protocol,
                ),
            )
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._protocol, sock=listener, backlog=self.config.backlog)

    def _reload(self) -> None:
        """Reload the server's models and certificate and reopen its access log after SIGHUP."""
        application = cast("Starlette", self.config.app)
        try:
            if self.tls is not None:
                self.tls.load()
            if application.state.access_log is not None:
                application.state.access_log.reopen()
        except ConfigError as error:
            log.error("%s", error)
        reload = asyncio.get_running_loop().create_task(application.state.registry.reload())
        self.reloads.add(reload)
        reload.add_done_callback(self.reloads.discard)

    def _stop_without_supervisor(self) -> None:
        assert self.worker is not None
        asyncio.get_running_loop().remove_reader(self.worker.supervisor)
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """Start draining the server on the first signal and exit immediately on the second."""
        if self.worker is not None and (sig == signal.SIGINT or self.state.draining):
            return  # a signal to the group reaches all processes; the supervisor stops its workers
        if not self.state.draining and self.started:
            self.state.draining = True
            self.drained_at = monotonic() + self.drain
            return
        self.force_exit = self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether the server should shut down; uvicorn calls this ten times per second."""
        return await super().on_tick(counter) or monotonic() >= self.drained_at

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept pending connections, close the listening sockets and shut the server down."""
        listeners = sockets or []
        accepted = [connection for listener in listeners for connection in drain_backlog(listener)]
        for server in self.servers:
            server.close()
        for listener in listeners:
            listener.close()
        for connection in accepted:
            await self._serve_accepted(connection)
        deadline = monotonic() + LAST_REQUESTS
        while self.server_state.connections and monotonic() < deadline and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn would cancel the application, with a traceback
            for protocol in [*self.server_state.connections]:
                protocol.transport.abort()  # closing ones too, which wait for their clients
            await self.lifespan.shutdown()

    async def _serve_accepted(self, connection: socket.socket) -> None:
        """Serve a client connection that was accepted while the server was shutting down."""
        server = self.servers[0] if self.servers else None
        if isinstance(server, TlsListener):
            server.start_handshake(connection)
            return
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        state = self.lifespan.state
        return protocol(config=self.config, server_state=self.server_state, app_state=state)


def open_listener(host: str, port: int, *, backlog: int = BACKLOG) -> socket.socket:
    """Open a listening socket of the server, which queues connections until startup is complete."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {_reason(error)}. "
            "Choose another with --host and --port; --port 0 takes any free port."
        ) from error


def _reason(error: OSError) -> str:
    """Return why a socket cannot listen, without the address that Python adds to the message."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def open_listeners(host: str, port: int, count: int, *, backlog: int) -> list[socket.socket]:
    """Open one listening socket per worker of the server, all on the same port.

    The kernel distributes connections to sockets with ``SO_REUSEPORT``. Without it, the workers
    share one socket.
    """
    first = open_listener(host, port, backlog=backlog)  # fails if another program has the port
    if sys.platform != "linux":
        return [first, *(first.dup() for _ in range(count - 1))]
    address = first.getsockname()
    first.close()
    listeners = []
    for _ in range(count):
        listener = bind_listener(first.family, address)
        listener.listen(backlog)
        listeners.append(listener)
    return listeners


def drain_backlog(listener: socket.socket) -> list[socket.socket]:
    """Accept all pending connections of a listening socket before the server closes it."""
    drop_new_connections(listener)
    listener.setblocking(False)
    connections = []
    with suppress(OSError):  # the backlog is empty, or no file descriptor is left
        while True:
            connections.append(listener.accept()[0])
    return connections


def drop_new_connections(listener: socket.socket) -> None:
    """Drop new connection attempts to the server's listening socket (only on Linux).

    A packet filter drops SYN packets. Clients then retry, and are refused cleanly once the socket
    is closed. Without it, a connection made between the last ``accept`` and the close would be
    reset.
    """
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in DROP_SYN)
    program = ctypes.create_string_buffer(code, len(code))
    with suppress(OSError):
        bpf = struct.pack("HP", len(DROP_SYN), ctypes.addressof(program))
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bpf)
