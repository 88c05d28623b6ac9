"""Hostile clients on 127.0.0.1: oversized headers, slow clients, too many connections."""

import asyncio
import json
import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import sha256
from http.client import HTTPSConnection
from pathlib import Path
from shutil import which
from time import monotonic, sleep
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hardening.http_client import make_certificate
from hardening.server_attacks import client_hello
from lamatext.serve.app import create_app
from lamatext.serve.connection_limits import ConnectionLimits, LimitedProtocol
from lamatext.serve.middleware import ServerState
from lamatext.serve.registry import load_models
from lamatext.serve.schemas import Limits
from lamatext.serve.server import (
    BACKLOG,
    DrainingServer,
    open_listener,
    possible_connections,
    server_config,
)
from lamatext.serve.tls import TlsFiles, TlsHandshake
from tests.serve.test_server import START, port_of

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
JSON = {"Content-Type": "application/json"}
MEGABYTE = 1 << 20
QUICK = ConnectionLimits(header_seconds=0.4, body_seconds=0.4, idle_seconds=0.4)


@contextmanager
def running(
    app: Starlette, limits: ConnectionLimits | None = None, tls: TlsFiles | None = None
) -> Iterator[int]:
    """Run a server with these connection limits in a thread and yield its port."""
    limits = limits or ConnectionLimits()
    listener = open_listener("127.0.0.1", 0)
    config = server_config(app, limits, min(BACKLOG, limits.connections))
    server = DrainingServer(config, app.state.server, drain=0, tls=tls)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            sleep(0.01)
        yield listener.getsockname()[1]
    finally:
        server.force_exit = server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with running(create_app(load_models([folder]))) as port:
        yield port


@pytest.fixture(scope="module")
def quick_port(folder: Path) -> Iterator[int]:
    """Port of a server whose timeouts are all 0.4 s."""
    app = create_app(load_models([folder]), limits=Limits(body_seconds=0.4), api_key="secret")
    with running(app, QUICK) as port:
        yield port


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def read_response(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionError:
        pass
    return received


def exchange(port: int, request: bytes) -> bytes:
    """Send a request on a new connection and return its response."""
    with connect(port) as client:
        client.sendall(request)
        return client.recv(65536)


def send_endlessly(client: socket.socket, data: bytes, limit: int) -> int:
    """Send ``data`` until the server closes the connection; return the bytes sent."""
    sent = 0
    try:
        while sent < limit and not select.select([client], [], [], 0)[0]:
            sent += client.send(data)
    except ConnectionError:
        pass
    return sent


def check_refusal(response: bytes, status: int, detail: str) -> None:
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), response
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head.lower()
    assert detail in json.loads(body)["detail"]


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKED,
    ],
)
def test_a_transfer_encoding_that_proxies_may_read_otherwise_is_refused(
    request_: bytes, port: int
) -> None:
    check_refusal(exchange(port, request_), 400, "expected the Transfer-Encoding chunked")


def test_the_transfer_encoding_may_have_any_case(port: int) -> None:
    response = exchange(port, POST + CHUNKED.replace(b"chunked", b"Chunked"))

    assert b"the body is not JSON" in response  # it was read: it is empty


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
BODY = b'{"text": "a good film"}'


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Content-Length: %d\r\n\r\n" % len(BODY), BODY),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    ],
    ids=["length", "chunked"],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_the_offer_of_another_protocol_is_ignored_and_the_body_is_read(
    parts: int, headers: bytes, body: bytes, port: int
) -> None:
    """Java's HttpClient offers HTTP/2 with every request; its body is no second request."""
    head = POST + H2C + headers
    with connect(port) as client:
        for data in (head + body + GET,) if parts == 1 else (head, body + GET):
            client.sendall(data)
            sleep(0.1)
        received = b""
        while received.count(b"HTTP/1.1 ") < 2:
            received += client.recv(65536)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)  # there is no third response

    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b'"label"') < received.index(b'"status"')


def test_a_proxy_request_is_refused(port: int) -> None:
    response = exchange(port, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET)

    check_refusal(response, 400, "not a proxy")


@pytest.mark.parametrize(
    ("start", "status", "detail"),
    [
        (b"GET /", 414, "8,192 bytes"),
        (b"GET / HTTP/1.1\r\nX: ", 431, "32,768 bytes"),
        (b"GET / HTTP/1.1\r\nX", 431, "32,768 bytes"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ", 431, "32,768"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;x=", 431, "32,768"),
    ],
)
def test_an_endless_line_is_refused_early_and_delays_nobody(
    port: int, start: bytes, status: int, detail: str
) -> None:
    with connect(port) as client:
        client.sendall(start)
        sent = send_endlessly(client, b"a" * 65536, 60 * MEGABYTE)
        before = monotonic()
        alive = exchange(port, GET)
        seconds = monotonic() - before
        response = read_response(client)

    assert sent < 16 * MEGABYTE  # socket buffers of both sides; the server itself reads less
    assert alive.startswith(b"HTTP/1.1 200")
    assert seconds < 1
    check_refusal(response, status, detail)


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        (b"X: " + b"a" * 8189 + b"\r\n", "a header may have at most 8,192 bytes"),
        ((b"X: " + b"a" * 4000 + b"\r\n") * 9, "all headers may have at most 32,768 bytes"),
        (b"X: a\r\n" * 100, "expected at most 100 headers"),
    ],
)
def test_headers_beyond_a_limit_are_refused_and_headers_at_the_limit_are_not(
    port: int, headers: bytes, detail: str
) -> None:
    with connect(port) as client:
        client.sendall(HEAD + headers + b"\r\n")
        check_refusal(read_response(client), 431, detail)
    allowed = headers.replace(b"a" * 8189, b"a" * 8187).replace(b"a" * 4000, b"a" * 3600)
    allowed = b"X: a\r\n" * 99 if headers == b"X: a\r\n" * 100 else allowed

    assert exchange(port, HEAD + allowed + b"\r\n").startswith(b"HTTP/1.1 200")


def test_a_path_at_the_limit_is_accepted(port: int) -> None:
    path = b"/healthz?" + b"a" * (8192 - 9)

    assert exchange(port, GET.replace(b"/healthz", path)).startswith(b"HTTP/1.1 200")
    check_refusal(exchange(port, GET.replace(b"/healthz", path + b"a")), 414, "the path")


def test_endless_small_headers_are_refused_early(port: int) -> None:
    with connect(port) as client:
        client.sendall(HEAD)
        sent = send_endlessly(client, b"X: a\r\n" * 10_000, 60 * MEGABYTE)

        check_refusal(read_response(client), 431, "headers")
    assert sent < 16 * MEGABYTE


def test_an_endless_chunked_body_is_cut_at_the_limit_while_it_streams_in(port: int) -> None:
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    with connect(port) as client:
        client.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = send_endlessly(client, chunk, 100 * MEGABYTE)
        response = read_response(client)

    assert sent < 16 * MEGABYTE
    assert response.startswith(b"HTTP/1.1 413 ")


def test_an_endless_body_of_a_request_that_is_already_answered_is_cut(port: int) -> None:
    with connect(port) as client:
        client.sendall(GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 99999999999\r\n\r\n"))
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")

        assert send_endlessly(client, b"a" * 65536, 100 * MEGABYTE) < 16 * MEGABYTE


def test_trailers_do_not_become_headers() -> None:
    async def show(request: Request) -> Response:
        await request.body()
        return Response(str(request.headers.get("x-api-key")))

    app = Starlette(routes=[Route("/", show, methods=["POST"])])
    app.state.server = ServerState()
    with running(app) as port:
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        response = exchange(port, head + b"1\r\na\r\n0\r\nX-API-Key: secret\r\n\r\n")

    assert response.endswith(b"\r\n\r\nNone")


def test_invalid_http_gets_a_problem_response(port: int) -> None:
    check_refusal(exchange(port, b"\x16\x03\x01 hello\r\n\r\n"), 400, "not a valid HTTP/1.1")


def test_requests_sent_ahead_are_answered_in_order_up_to_a_limit(port: int) -> None:
    with connect(port) as client:
        client.sendall(GET * 10)
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 10:
            received += client.recv(65536)
    with connect(port) as client:
        client.sendall(GET * 5000)

        assert read_response(client).count(b"HTTP/1.1 200 OK") < 100


def drip(client: socket.socket, data: bytes, seconds: float) -> float:
    """Send ``data`` every 20 ms until the server responds or closes; return the seconds taken."""
    start = monotonic()
    try:
        while monotonic() < start + seconds and not select.select([client], [], [], 0.02)[0]:
            client.sendall(data)
    except ConnectionError:
        pass
    return monotonic() - start


@pytest.mark.parametrize(
    ("start", "data", "status"),
    [
        (b"", b"", b""),  # a silent connection
        (b"", b"\r\n", b"HTTP/1.1 408 "),
        (b"GET /", b"a", b"HTTP/1.1 408 "),
        (HEAD, b"X: a\r\n", b"HTTP/1.1 408 "),
        (HEAD + b"X: ", b"a", b"HTTP/1.1 408 "),
        (POST + b"X-API-Key: secret\r\nContent-Length: 9999\r\n\r\n", b"a", b"HTTP/1.1 408 "),
    ],
)
def test_a_slow_client_is_disconnected(
    quick_port: int, start: bytes, data: bytes, status: bytes
) -> None:
    with connect(quick_port) as client:
        client.sendall(start)
        seconds = drip(client, data, 5)

        assert read_response(client).startswith(status)
    assert 0.3 < seconds < 3


def test_a_slow_body_of_a_request_that_is_already_answered_is_disconnected(
    quick_port: int,
) -> None:
    with connect(quick_port) as client:
        client.sendall(POST + b"Content-Length: 9999\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 401 ")
        seconds = drip(client, b"a", 8)

    assert 1 < seconds < 5


@pytest.mark.parametrize("late", [b"", b"\r\n", b"GET /"])
def test_an_idle_connection_is_closed_and_a_second_slow_request_too(
    quick_port: int, late: bytes
) -> None:
    with connect(quick_port) as client:
        client.sendall(GET)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.sendall(late)
        start = monotonic()
        rest = read_response(client)

    assert 0.2 < monotonic() - start < 3
    assert rest.startswith(b"HTTP/1.1 408 ") == bool(late)


def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    async def large(_: Request) -> Response:
        return Response(bytes(64 * MEGABYTE))

    app = Starlette(routes=[Route("/", large)])
    app.state.server = ServerState()
    with running(app, QUICK) as port, connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sleep(2)
        received = len(read_response(client))

    assert received < 32 * MEGABYTE


def test_a_new_connection_replaces_the_oldest_idle_one(folder: Path) -> None:
    limits = ConnectionLimits(connections=8)
    with running(create_app(load_models([folder])), limits) as port, ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(8)]
        for client in clients:
            client.sendall(GET)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        clients[0].sendall(GET)  # the first connection is now the one used last
        assert clients[0].recv(65536).startswith(b"HTTP/1.1 200 ")
        newest = [stack.enter_context(connect(port)) for _ in range(2)]
        for client in newest:
            client.sendall(GET)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")

        closed = [bool(select.select([client], [], [], 0.1)[0]) for client in clients]

    assert closed == [False, True, True, False, False, False, False, False]


def test_slow_clients_do_not_lock_others_out(folder: Path) -> None:
    limits = ConnectionLimits(connections=8)
    with running(create_app(load_models([folder])), limits) as port, ExitStack() as stack:
        for start in (b"", b"GET /", POST + b"Content-Length: 9\r\n\r\n") * 10:
            stack.enter_context(connect(port)).sendall(start)

            assert exchange(port, GET).startswith(b"HTTP/1.1 200 ")


def test_slow_clients_do_not_replace_a_connection_that_is_used(folder: Path) -> None:
    limits = ConnectionLimits(connections=8)
    with running(create_app(load_models([folder])), limits) as port, ExitStack() as stack:
        used = stack.enter_context(connect(port))
        used.sendall(GET)
        assert used.recv(65536).startswith(b"HTTP/1.1 200 ")
        for start in (b"", b"GET /", POST + b"Content-Length: 9\r\n\r\n") * 10:
            stack.enter_context(connect(port)).sendall(start)
        sleep(0.1)
        used.sendall(GET)

        assert used.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_body_of_one_byte_chunks_is_refused_early(port: int) -> None:
    with connect(port) as client:
        client.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        start = monotonic()
        send_endlessly(client, b"1\r\n \r\n" * 8000, 16 * MEGABYTE)
        check_refusal(read_response(client), 400, "too small chunks")

    assert monotonic() - start < 1


def test_a_busy_connection_is_not_replaced_and_a_new_one_is_refused() -> None:
    release = threading.Event()

    async def slow(_: Request) -> Response:
        await asyncio.to_thread(release.wait, 10)
        return Response("done")

    app = Starlette(routes=[Route("/", slow)])
    app.state.server = ServerState()
    with running(app, ConnectionLimits(connections=2)) as port, ExitStack() as stack:
        busy = [stack.enter_context(connect(port)) for _ in range(2)]
        for client in busy:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sleep(0.3)
        with connect(port) as late:
            check_refusal(read_response(late), 503, "too many connections")
        release.set()

        assert all(client.recv(65536).startswith(b"HTTP/1.1 200 ") for client in busy)


def test_incomplete_bodies_have_a_common_limit(folder: Path) -> None:
    limits = ConnectionLimits(bodies=4 * 60_000)
    with running(create_app(load_models([folder])), limits) as port, ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(6)]
        for client in clients:
            client.sendall(POST + b"Content-Length: 70000\r\n\r\n" + b"a" * 60_000)
            sleep(0.1)
        closed = [bool(select.select([client], [], [], 0.1)[0]) for client in clients]

        assert closed == [True, True, False, False, False, False]
        assert exchange(port, GET).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("soft", "hard", "expected", "raised"),
    [
        (100_000, 100_000, 1000, None),
        (1024, 100_000, 1000, 2064),
        (1024, resource.RLIM_INFINITY, 1000, 2064),
        (200, 200, 68, 200),
        (20, 20, 8, 20),
    ],
)
def test_the_connection_limit_fits_into_the_limit_on_open_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int, raised: int | None
) -> None:
    changes: list[int] = []
    change: Callable[..., None] = lambda _, limits: changes.append(limits[0])  # noqa: E731
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", change)

    assert possible_connections(1000) == expected
    assert changes == ([] if raised is None else [raised])


@pytest.mark.slow
def test_260_slow_clients_do_not_exhaust_200_open_files(folder: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); "
    command = [sys.executable, "-c", limit + START, str(folder), "--port", "0"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
        ExitStack() as stack,
    ):
        try:
            port = port_of(process)
            assert exchange(port, GET).startswith(b"HTTP/1.1 200 ")  # it has started
            for _ in range(260):
                stack.enter_context(connect(port)).sendall(b"GET /")
            start = monotonic()

            assert exchange(port, GET).startswith(b"HTTP/1.1 200 ")
            assert monotonic() - start < 2
        finally:
            process.kill()


def test_uvicorn_still_has_what_the_connection_limits_override() -> None:
    methods = {name for name in vars(LimitedProtocol) if not name.startswith("_")}
    own = {"refuse", "check_timeouts", "responding", "release_body"}
    protocol = HttpToolsProtocol.__init__.__code__.co_names
    cycle = RequestResponseCycle.__init__.__code__.co_names

    assert methods - own <= set(vars(HttpToolsProtocol))
    assert "_unset_keepalive_if_required" in vars(HttpToolsProtocol)
    assert {"cycle", "flow", "loop", "parser", "pipeline", "transport"} <= set(protocol)
    assert {"disconnected", "message_event", "response_complete", "response_started"} <= set(cycle)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_certificate(tmp_path_factory.mktemp("tls"))


class CountingTls(ssl.SSLObject):
    """A TLS connection that counts the bytes that are decrypted on all connections."""

    decrypted = 0

    def read(self, *arguments: Any) -> Any:
        result = super().read(*arguments)
        CountingTls.decrypted += len(result) if isinstance(result, bytes) else result
        return result


@pytest.fixture(scope="module")
def tls_port(folder: Path, certificate: Path) -> Iterator[int]:
    """Port of a server with TLS that counts decrypted bytes."""
    tls = TlsFiles(certificate)
    tls.context.sslobject_class = CountingTls
    with running(create_app(load_models([folder])), None, tls) as port:
        yield port


def connect_securely(port: int, certificate: Path) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(certificate))
    return context.wrap_socket(connect(port), server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (POST + b"Content-Length: 1000000000\r\n\r\n", 413),
        (HEAD + b"Connection: close\r\n\r\n", 200),
        (HEAD + b"X: " + b"a" * 50_000, 431),
        (b"GET /" + b"a" * 50_000, 414),
    ],
)
def test_bytes_after_the_response_are_not_decrypted(
    head: bytes, status: int, tls_port: int, certificate: Path
) -> None:
    CountingTls.decrypted, sent = 0, 0
    with connect_securely(tls_port, certificate) as client:
        client.sendall(head)
        response = client.recv(65536)
        client.settimeout(1)  # the server does not read on
        with suppress(OSError):
            for _ in range(100 * 16):
                client.sendall(b"a" * 65536)
                sent += 65536

    assert response.startswith(b"HTTP/1.1 %d " % status)
    assert CountingTls.decrypted < MEGABYTE
    assert sent < 60 * MEGABYTE  # most of it in buffers of the system, which grow to 36 MB on Linux


@pytest.mark.parametrize("megabytes", [2, 6])
def test_a_client_with_a_too_large_body_can_read_its_error_over_tls(
    megabytes: int, tls_port: int, certificate: Path
) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    client = HTTPSConnection("127.0.0.1", tls_port, timeout=20, context=context)

    client.request("POST", "/predict", b" " * (megabytes * MEGABYTE), JSON)  # sends all of it

    assert client.getresponse().status == 413
    client.close()


def test_a_large_request_and_its_large_response_arrive_over_tls(
    tls_port: int, certificate: Path
) -> None:
    texts = ["good film " * 400] * 256
    context = ssl.create_default_context(cafile=str(certificate))
    client = HTTPSConnection("127.0.0.1", tls_port, timeout=60, context=context)

    for _ in range(2):
        client.request("POST", "/predict", json.dumps({"texts": texts}), JSON)
        response = client.getresponse()

        assert len(json.loads(response.read())["predictions"]) == 256
    client.close()


def test_a_closed_tls_connection_ends_for_the_client_at_once(
    tls_port: int, certificate: Path
) -> None:
    start = monotonic()
    with connect_securely(tls_port, certificate) as client:
        client.sendall(HEAD + b"Connection: close\r\n\r\n")
        response = read_response(client)

    assert response.startswith(b"HTTP/1.1 200 ")
    assert monotonic() - start < 1.5  # less than the server would wait for the client


def test_a_client_that_damages_a_tls_record_is_disconnected(
    tls_port: int, certificate: Path
) -> None:
    with connect_securely(tls_port, certificate) as client:
        raw = socket.socket(fileno=os.dup(client.fileno()))
        with raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
            client.recv(1)


def test_a_burst_of_connections_does_not_end_a_tls_handshake_that_has_just_begun(
    folder: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.serve.tls.SHORTEST_PATIENCE", 5.0)
    monkeypatch.setattr("lamatext.serve.tls.PATIENCE", 5.0)
    context = ssl.create_default_context(cafile=str(certificate))
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    polite = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
    app, limits = create_app(load_models([folder])), ConnectionLimits(connections=4)
    with running(app, limits, TlsFiles(certificate)) as port, ExitStack() as stack:
        client = stack.enter_context(connect(port))
        with pytest.raises(ssl.SSLWantReadError):
            polite.do_handshake()
        client.sendall(sent.read())
        received.write(client.recv(65536))  # the handshake has begun

        for _ in range(6):
            stack.enter_context(connect(port))  # the last ones stay in the backlog
        sleep(0.3)
        polite.do_handshake()
        polite.write(GET)
        client.sendall(sent.read())

        assert client.recv(65536)


def test_a_burst_of_unfinished_handshakes_delays_others_by_the_usual_time_of_a_handshake(
    folder: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where handshakes are quick, nobody waits long for those that never end."""
    monkeypatch.setattr("lamatext.serve.tls.PATIENCE", 2.0)
    context = ssl.create_default_context(cafile=str(certificate))

    def seconds_of_a_request(port: int) -> float:
        started = monotonic()
        with closing(HTTPSConnection("127.0.0.1", port, context=context, timeout=30)) as client:
            client.request("GET", "/healthz")
            assert client.getresponse().status == 200
        return monotonic() - started

    app, limits = create_app(load_models([folder])), ConnectionLimits(connections=8)
    with running(app, limits, TlsFiles(certificate)) as port, ExitStack() as stack:
        usual = max(seconds_of_a_request(port) for _ in range(25))
        for _ in range(24):
            stack.enter_context(connect(port)).sendall(client_hello())

        assert seconds_of_a_request(port) < max(2.0, 20 * usual)  # three times PATIENCE before


HELLO_RETRY_REQUEST = sha256(b"HelloRetryRequest").digest()  # its random value, RFC 8446, 4.1.3


@pytest.fixture
def crowded_port(folder: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a server that asks clients of TLS to retry if two handshakes are in progress."""
    monkeypatch.setattr("lamatext.serve.tls.PROMPT_HANDSHAKES", 2)
    with running(create_app(load_models([folder])), None, TlsFiles(certificate)) as port:
        yield port


@pytest.mark.parametrize(("in_progress", "is_asked"), [(1, False), (2, True)])
def test_beyond_some_handshakes_a_client_answers_before_the_private_key_is_used(
    in_progress: int, is_asked: bool, crowded_port: int
) -> None:
    with ExitStack() as stack:
        for _ in range(in_progress):
            stack.enter_context(connect(crowded_port))
        client = stack.enter_context(connect(crowded_port))
        client.sendall(client_hello())

        answer = client.recv(65536)

    assert (HELLO_RETRY_REQUEST in answer) == is_asked
    assert (len(answer) < 200) == is_asked  # without a certificate and a signature


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_finish_their_handshake_while_many_are_in_progress(
    version: ssl.TLSVersion, crowded_port: int, certificate: Path
) -> None:
    context = ssl.create_default_context(cafile=str(certificate))
    context.maximum_version = version
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connect(crowded_port)).sendall(client_hello())

        client = HTTPSConnection("127.0.0.1", crowded_port, context=context, timeout=20)
        client.request("GET", "/healthz")

        assert client.getresponse().status == 200
        client.close()


def test_a_client_that_does_not_start_with_a_client_hello_gets_an_alert(tls_port: int) -> None:
    with connect(tls_port) as client:
        client.sendall(b"\x16\x03\x01\x00\x05hello")

        assert read_response(client)[:2] == b"\x15\x03"  # the type of an alert, and the version


class FullSocket(socket.socket):
    """A socket whose buffer has room for one more byte."""

    def send(self, data: Any, *_: int) -> int:
        return super().send(data[:1])


def test_a_handshake_ends_if_the_server_cannot_send_its_answer(certificate: Path) -> None:
    calls: list[bool | None] = []

    async def shake_hands() -> None:
        client, server = socket.socketpair()
        TlsHandshake(
            *(FullSocket(fileno=server.detach()), TlsFiles(certificate).context, 10.0),
            on_answer=lambda _: calls.append(None),
            on_end=lambda _, succeeded: calls.append(succeeded),
        )
        with client:
            client.sendall(client_hello())
            while not calls:
                await asyncio.sleep(0.01)

    asyncio.run(shake_hands())

    assert calls == [False]


def test_handshakes_in_progress_are_closed_when_the_server_stops(
    folder: Path, certificate: Path
) -> None:
    with ExitStack() as stack:
        with running(create_app(load_models([folder])), None, TlsFiles(certificate)) as port:
            client = stack.enter_context(connect(port))
            client.sendall(client_hello())
            assert client.recv(65536)  # the handshake is in progress

        assert read_response(client) == b""


def test_a_handshake_that_continues_is_not_replaced_before_silent_ones(
    folder: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamatext.serve.tls.SHORTEST_PATIENCE", 0.0)
    monkeypatch.setattr("lamatext.serve.tls.PATIENCE", 0.0)
    context = ssl.create_default_context(cafile=str(certificate))
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    polite = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
    app, limits = create_app(load_models([folder])), ConnectionLimits(connections=3)
    with running(app, limits, TlsFiles(certificate)) as port, ExitStack() as stack:
        client, *silent = [stack.enter_context(connect(port)) for _ in range(3)]
        with pytest.raises(ssl.SSLWantReadError):
            polite.do_handshake()
        client.sendall(sent.read())
        received.write(client.recv(65536))

        stack.enter_context(connect(port))  # one too many
        assert read_response(silent[0]) == b""  # closed by the server
        polite.do_handshake()
        polite.write(GET)
        client.sendall(sent.read())

        assert client.recv(65536)


def certificate_sent_by(context: ssl.SSLContext) -> str:
    """Return the certificate that a server with this context sends, in PEM."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True) or b"")


def test_both_contexts_of_tls_load_a_new_certificate(certificate: Path, tmp_path: Path) -> None:
    path = tmp_path / "certificate.pem"
    path.write_bytes(certificate.read_bytes())
    tls = TlsFiles(path)
    path.write_bytes(make_certificate(tmp_path).read_bytes())

    tls.load()

    for context in (tls.context, tls.retry_context):
        assert certificate_sent_by(context) in path.read_text(encoding="ascii")
