"""Fuzz targets of the HTTP server: raw bytes and JSON bodies sent to a server on 127.0.0.1."""

import json
import logging
import select
import socket
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from hardening.base_models import make_base_models
from hardening.fuzz_target import FindingError, FuzzTarget
from lamatext.errors import DataError

HOST = "127.0.0.1"
ANSWER_SECONDS = 0.03  # wait for an answer to bytes that may be no complete request
START_SECONDS = 60.0  # for the server on a busy machine
LATEST_SECONDS = 5.0  # a complete request must be answered by then
BODIES = (
    b'{"text": "a good film"}',
    b'{"texts": ["good", "bad"], "top_k": 2, "proba": true}',
    b'{"text": "x", "model": "ngrams"}',
    b'{"texts": ["\\ud800", "\\u0000", ""], "top_k": 1.0}',
)
HEAD = b"POST /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
REQUESTS = (
    *(HEAD % b"predict" + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in BODIES),
    HEAD % b"explain" + b"Content-Length: 15\r\n\r\n" + b'{"text": "bad"}',
    HEAD % b"predict"
    + b"Transfer-Encoding: chunked\r\n\r\nf\r\n"
    + b'{"text": "bad"}\r\n0\r\n\r\n',
    HEAD % b"predict" + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    *(
        b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
        for path in (b"", b"healthz", b"metrics", b"openapi.json", b"static/app.js", b"models/int8")
    ),
    b"HEAD /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    HEAD % b"predict" + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
WORDS = (
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b": ", b" ", b"\0", b"HTTP/1.0", b"HTTP/9.9", b"GET "),
    *(b"POST ", b"TRACE ", b"/..", b"%2e%2e/", b"%00", b"//", b"?", b"#", b"@", b"http://x/"),
    *(b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Host: \r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"ffffffff\r\n"),
    *(b"Authorization: Bearer x\r\n", b"Content-Encoding: gzip\r\n", b"Connection: close\r\n"),
)
JSON_WORDS = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"NaN", b"1e999", b"-1", b"1.5"),
    *(
        b'"text"',
        b'"texts"',
        b'"top_k"',
        b'"proba"',
        b'"model"',
        b"\\ud800",
        b"\\u0000",
        b"[" * 999,
    ),
)


def build_target(name: str) -> FuzzTarget:
    """Build a fuzz target of the HTTP server, which is started now: no input waits for it."""
    server()
    if name == "http":
        return FuzzTarget(name, check_request, REQUESTS, WORDS)
    return FuzzTarget(name, check_json, [b"\0" + body for body in BODIES], JSON_WORDS)


class LogCounter(logging.Handler):
    """Log handler that remembers the errors which the HTTP server logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Remember one error of the HTTP server."""
        self.messages.append(record.getMessage()[:500])


class FuzzedServer:
    """An HTTP server with the base models in a thread of this process."""

    def __init__(self) -> None:
        from lamatext.serve.app import create_app
        from lamatext.serve.registry import load_models
        from lamatext.serve.server import run_server

        folders = make_base_models(Path(tempfile.mkdtemp(prefix="served-")))
        app = create_app(load_models(folders[:2]))
        listening = threading.Event()
        self.port, self.cases = 0, 0
        self.errors = LogCounter()
        for name in ("uvicorn.error", "lamatext.serve", "asyncio"):
            logging.getLogger(name).addHandler(self.errors)

        def on_start(port: int) -> None:
            self.port = port
            listening.set()

        options = {"host": HOST, "port": 0, "on_start": on_start}
        arguments = (lambda _: app,)
        threading.Thread(target=run_server, args=arguments, kwargs=options, daemon=True).start()
        listening.wait(START_SECONDS)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with suppress(FindingError, OSError):
                self.check_health()
                return
        raise RuntimeError("the server to fuzz did not start")

    def check_health(self) -> None:
        """Raise a finding if a polite request is not answered."""
        answer = exchange(self.port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 5.0)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise FindingError(f"the server does not answer /healthz: {answer[:100]!r}")

    def check_log(self) -> None:
        """Raise a finding if the HTTP server has logged an error."""
        if self.errors.messages:
            messages = self.errors.messages[:]
            self.errors.messages.clear()
            raise FindingError(f"the server logged an error: {messages[0]}")


def check_request(data: bytes) -> None:
    """Send raw bytes to the HTTP server; it may answer, refuse or close, but not fail."""
    running = server()
    answer = exchange(running.port, data, ANSWER_SECONDS)
    running.cases += 1
    if running.cases % 100 == 0:
        running.check_health()
    running.check_log()
    if not answer:
        raise DataError("the connection was closed, or more bytes are expected")
    if status_of(answer) >= 400:
        raise DataError(f"HTTP status {status_of(answer)}")


def check_json(data: bytes) -> None:
    """Send a hostile JSON body to ``/predict`` or ``/explain``; the answer must be strict JSON."""
    running = server()
    path = b"explain" if data[:1] and data[0] & 1 else b"predict"
    body = data[1:]
    request = HEAD % path + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answer = exchange(running.port, request, LATEST_SECONDS - 1, with_body=True)
    running.check_log()
    if not answer:
        raise FindingError("a complete request was not answered")
    head, _, content = answer.partition(b"\r\n\r\n")
    parsed = json.loads(content, parse_constant=_reject_constant)
    if status_of(answer) >= 400:
        if parsed.get("status") != status_of(answer):
            raise FindingError(f"an error without a problem document: {head[:200]!r}")
        raise DataError(parsed["detail"])


def exchange(port: int, data: bytes, seconds: float, *, with_body: bool = False) -> bytes:
    """Send bytes to the HTTP server and return its first answer, or nothing in the given time.

    Without ``with_body``, the end of the answer's head is enough: a HEAD request has no body.
    """
    with socket.create_connection((HOST, port), timeout=LATEST_SECONDS) as client:
        try:
            client.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            seconds = min(seconds, ANSWER_SECONDS)
        return _receive(client, time.monotonic() + seconds, with_body=with_body)


def _receive(client: socket.socket, deadline: float, *, with_body: bool) -> bytes:
    answer = b""
    while not _is_complete(answer, with_body=with_body):
        left = deadline - time.monotonic()
        if answer:
            left = LATEST_SECONDS - 1
        if left <= 0 or not select.select([client], [], [], left)[0]:
            break
        try:
            part = client.recv(1 << 16)
        except ConnectionResetError:
            break
        if not part:
            break
        answer += part
    return answer


def _is_complete(answer: bytes, *, with_body: bool) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end or not with_body:
        return bool(end)
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return not length.isdigit() or len(body) >= int(length) or status_of(answer) in (204, 304)


def status_of(answer: bytes) -> int:
    """Return the status of an HTTP answer; one that is not HTTP or is a 500 is a finding."""
    first = answer.split(b"\r\n", 1)[0].split(b" ")
    if not first[0].startswith(b"HTTP/1.") or len(first) < 2 or not first[1].isdigit():
        raise FindingError(f"an answer that is not HTTP: {answer[:80]!r}")
    status = int(first[1])
    if status >= 500 and status not in (501, 503, 505):
        raise FindingError(f"status {status}: {answer[:200]!r}")
    return status


def _reject_constant(name: str) -> None:
    raise FindingError(f"an answer with {name}, which is not JSON")


@cache
def server() -> FuzzedServer:
    """Start the HTTP server of the fuzz targets once per process."""
    return FuzzedServer()
