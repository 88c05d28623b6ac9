"""A server process for attacks, and a polite HTTP client that measures how it answers."""

import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hardening.command_runs import ROOT

HOST = "127.0.0.1"
START_SECONDS = 120.0
ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running ``lamatext serve`` on 127.0.0.1."""

    port: int
    pid: int
    certificate: Path | None = None  # if it speaks TLS

    def memory_mb(self) -> float:
        """Return the resident memory of the server and its workers in megabytes."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        pages = [
            re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
            for pid in (self.pid, *map(int, children.split()))
        ]
        return sum(int(size) for found in pages for size in found) / 1024

    def is_alive(self) -> bool:
        """Return whether the server process is still running."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def running_server(
    *models: Path, files: int = 0, workers: int = 1, certificate: Path | None = None
) -> Iterator[ServerProcess]:
    """Start ``lamatext serve`` on a free port.

    Args:
        models: folders of models.
        files: limits its file descriptors, and those of each worker.
        workers: number of processes.
        certificate: a file with the certificate and its key, for TLS.
    """
    import resource

    def limit_files() -> None:
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    options = ["--workers", str(workers)] if workers > 1 else []
    options += ["--tls-cert", str(certificate)] if certificate is not None else []
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "lamatext", "serve", *map(str, models), "--port", "0", *options],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE, text=True, preexec_fn=limit_files,
    )  # fmt: skip
    assert process.stderr is not None
    reader: threading.Thread | None = None
    try:
        line = process.stderr.readline()
        match = re.search(r":(\d+)$", line.strip())
        if match is None:
            raise RuntimeError(f"the server did not start: {line}{process.stderr.read()}")
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()  # a full pipe would stop the server
        port = int(match[1])
        server = ServerProcess(port, process.pid, certificate)
        _wait_until_ready(server)
        yield server
    finally:
        process.send_signal(signal.SIGKILL)  # its workers end when they notice
        process.wait()
        if reader is not None:
            reader.join()
        process.stderr.close()


def make_certificate(folder: Path) -> Path:
    """Write a new certificate for 127.0.0.1 with its key to one file; needs openssl."""
    path = folder / "certificate.pem"
    names = ["-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName=IP:{HOST}"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(path)]
    command = ["openssl", "req", "-x509", *key, "-days", "2", *files, *names]
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (folder / "key.pem").read_bytes())
    return path


def open_connection(server: ServerProcess) -> http.client.HTTPConnection:
    """Return a new HTTP connection to a server, with TLS if it has a certificate."""
    if server.certificate is None:
        return http.client.HTTPConnection(HOST, server.port, timeout=ANSWER_SECONDS)
    context = tls_context(server.certificate)
    return http.client.HTTPSConnection(HOST, server.port, timeout=ANSWER_SECONDS, context=context)


@cache
def tls_context(certificate: Path) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts one certificate only."""
    return ssl.create_default_context(cafile=str(certificate))


def request(
    server: ServerProcess, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    """Send one polite request on a new connection; return status and body."""
    connection = open_connection(server)
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def p99_ms(latencies: Sequence[float]) -> float:
    """Return the 99th percentile of latencies in seconds, in milliseconds."""
    ordered = sorted(latencies)
    return 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0


@dataclass(slots=True)
class PoliteClient:
    """A thread that sends requests at a steady rate and measures their latency.

    Every second request opens a new connection, so that a full table of connections shows. The
    latency counts from the planned time of a request.
    """

    server: ServerProcess
    rate: float = 40.0
    latencies: list[float] = field(default_factory=list)  # seconds
    failures: list[str] = field(default_factory=list)
    reopened: int = 0  # idle connections that the server had closed
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "PoliteClient":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def p99(self) -> float:
        """Return the 99th percentile of the polite client's latencies in milliseconds."""
        return p99_ms(self.latencies)

    def _run(self) -> None:
        kept = open_connection(self.server)
        planned, number = time.monotonic(), 0
        while not self._stop.is_set():
            number += 1
            planned += 1 / self.rate
            time.sleep(max(0.0, planned - time.monotonic()))
            fresh = open_connection(self.server)
            self._send(kept if number % 2 else fresh)
            fresh.close()
            self.latencies.append(time.monotonic() - planned)
        kept.close()

    def _send(self, connection: http.client.HTTPConnection) -> None:
        """Send a request; repeat it once if the server had closed the idle connection."""
        may_repeat = connection.sock is not None
        try:
            status = _post(connection)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if may_repeat and isinstance(error, ConnectionError):
                self.reopened += 1
                self._send(connection)
            else:
                self.failures.append(type(error).__name__)
            return
        if status != 200:
            self.failures.append(f"status {status}")


def _post(connection: http.client.HTTPConnection) -> int:
    body = b'{"text": "a good film"}'
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _wait_until_ready(server: ServerProcess) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            if request(server, "GET", "/readyz")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server did not get ready")
