"""The server campaign: attacks on ``lamatext serve``, measured by a polite client next to them.

Each attack runs twice: against the server that the polite client uses, and against a second, idle
server on the same machine. The ratio of the two 99th percentiles of latency is what the attack
costs the polite client beyond the work of the attacker itself; it may be at most 2. A machine
may stall for other reasons, so each is the median over rounds in which both take turns.
"""

import random
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from hardening.http_client import (
    HOST,
    PoliteClient,
    ServerProcess,
    make_certificate,
    p99_ms,
    request,
    running_server,
    tls_context,
)

MAX_RATIO = 2.0
MIN_P99_MS = 5.0  # below this, both are noise
MAX_GROWTH_MB = 200.0
CONNECTIONS = 300
FILES = 256  # file descriptors of the attacked server
JSON_HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@dataclass(slots=True)
class AttackResult:
    """What a polite client measured during an attack."""

    attack: str
    seed: int
    seconds: float  # of a round
    rounds: int = 1
    requests: int = 0
    failures: int = 0
    p99_ms: float = 0.0  # median over the rounds
    p99_control_ms: float = 0.0  # while the same attacker hits another server
    growth_mb: float = 0.0  # of the attacked server's memory
    problems: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Ratio of the latency under attack to that of the control."""
        return max(self.p99_ms, MIN_P99_MS) / max(self.p99_control_ms, MIN_P99_MS)


class Attacker:
    """A thread that attacks one server until it is stopped."""

    def __init__(self, attack: "Attack", server: ServerProcess, seed: int) -> None:
        self.attack, self.server, self.draw = attack, server, random.Random(seed)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Attacker":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)

    def _run(self) -> None:
        while not self.stop.is_set():
            with suppress(OSError):
                self.attack(self)
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        """Open a connection to the attacked server, with TLS if it has a certificate."""
        client = self.connect_plainly()
        if self.server.certificate is None:
            return client
        try:
            context = tls_context(self.server.certificate)
            return context.wrap_socket(client, server_hostname=HOST)
        except OSError:
            client.close()
            raise

    def connect_plainly(self) -> socket.socket:
        """Open a connection to the attacked server without a TLS handshake."""
        return socket.create_connection((HOST, self.server.port), timeout=5)

    def send_endlessly(self, client: socket.socket, block: bytes, limit: int) -> None:
        """Send a block again and again up to ``limit`` bytes, or until the server closes."""
        sent = 0
        while sent < limit and not self.stop.is_set():
            client.sendall(block)
            sent += len(block)

    def drip(self, clients: list[socket.socket], part: bytes) -> None:
        """Send a few bytes per connection and second; reopen nothing that the server closes."""
        while clients and not self.stop.wait(0.5):
            for client in clients[:]:
                try:
                    client.sendall(part)
                except OSError:
                    clients.remove(client)
                    client.close()

    def open_many(
        self, count: int, head: bytes, connect: Callable[[], socket.socket] | None = None
    ) -> list[socket.socket]:
        """Open many connections that have sent ``head``."""
        clients = []
        for _ in range(count):
            if self.stop.is_set():
                break
            with suppress(OSError):
                clients.append((connect or self.connect)())
                clients[-1].sendall(head)
        return clients


Attack = Callable[[Attacker], None]


def slow_headers(attacker: Attacker) -> None:
    """Attack with connections that send one header byte at a time."""
    clients = attacker.open_many(CONNECTIONS, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    attacker.drip(clients, b"a")
    _close(clients)


def slow_body(attacker: Attacker) -> None:
    """Attack with connections that send one body byte at a time."""
    clients = attacker.open_many(CONNECTIONS, JSON_HEAD + b"Content-Length: 9999\r\n\r\n")
    attacker.drip(clients, b" ")
    _close(clients)


def idle_connections(attacker: Attacker) -> None:
    """Attack with connections that send nothing."""
    clients = attacker.open_many(CONNECTIONS, b"")
    attacker.drip(clients, b"")
    _close(clients)


def endless_url(attacker: Attacker) -> None:
    """Attack with a URL that has no end."""
    with attacker.connect() as client:
        client.sendall(b"GET /")
        attacker.send_endlessly(client, b"a" * (1 << 16), 1 << 28)


def huge_headers(attacker: Attacker) -> None:
    """Attack with headers that have no end."""
    with attacker.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        attacker.send_endlessly(client, b"X-Header: " + b"a" * 4000 + b"\r\n", 1 << 28)


def huge_body(attacker: Attacker) -> None:
    """Attack with a body of a gigabyte."""
    with attacker.connect() as client:
        client.sendall(JSON_HEAD + b"Content-Length: 1000000000\r\n\r\n")
        attacker.send_endlessly(client, b" " * (1 << 16), 1 << 30)


def endless_chunks(attacker: Attacker) -> None:
    """Attack with a chunked body that has no end."""
    with attacker.connect() as client:
        client.sendall(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        attacker.send_endlessly(client, b"1\r\n \r\n" * 8000, 1 << 28)


def disconnects(attacker: Attacker) -> None:
    """Attack with large requests whose client leaves at once."""
    body = b'{"texts": [' + b",".join([b'"' + b"good bad film " * 60 + b'"'] * 50) + b"]}"
    with attacker.connect() as client:
        client.sendall(JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def deep_json(attacker: Attacker) -> None:
    """Attack with deeply nested JSON."""
    body = b"[" * 100_000
    with attacker.connect() as client:
        client.sendall(JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        client.recv(1000)


def reset_storm(attacker: Attacker) -> None:
    """Attack with connections that are opened and reset at once."""
    for _ in range(100):
        with attacker.connect() as client:
            linger = b"\1\0\0\0\0\0\0\0"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.send(b"GET /healthz HTTP/1.1\r\n")


def never_reading(attacker: Attacker) -> None:
    """Attack with pipelined requests whose answers are never read."""
    with attacker.connect() as client:
        client.settimeout(2)
        attacker.send_endlessly(
            client, b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100, 1 << 26
        )


def silent_handshakes(attacker: Attacker) -> None:
    """Attack with connections that never start their TLS handshake."""
    clients = attacker.open_many(CONNECTIONS, b"", attacker.connect_plainly)
    attacker.drip(clients, b"")
    _close(clients)


def unfinished_handshakes(attacker: Attacker) -> None:
    """Attack with connections that never answer the server's part of the TLS handshake."""
    clients = attacker.open_many(CONNECTIONS, client_hello(), attacker.connect_plainly)
    attacker.drip(clients, b"")
    _close(clients)


def slow_handshakes(attacker: Attacker) -> None:
    """Attack with connections that send the TLS handshake one byte at a time."""
    clients = attacker.open_many(CONNECTIONS, client_hello()[:6], attacker.connect_plainly)
    attacker.drip(clients, b"\0")
    _close(clients)


def garbage_for_handshakes(attacker: Attacker) -> None:
    """Attack with random bytes and with plain HTTP instead of a TLS handshake."""
    for start in (b"", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\xff\xff", b"\x80\x2e\x01\x00\x02"):
        with suppress(OSError), attacker.connect_plainly() as client:
            client.sendall(start)
            attacker.send_endlessly(client, attacker.draw.randbytes(1 << 16), 1 << 24)


def endless_client_hello(attacker: Attacker) -> None:
    """Attack with a TLS handshake message of 16 MB in many records."""
    record = b"\x16\x03\x01\x40\x00" + b"\0" * 16384
    with attacker.connect_plainly() as client:
        client.sendall(b"\x16\x03\x01\x00\x04\x01\xff\xff\xff")
        attacker.send_endlessly(client, record, 1 << 28)


def handshake_storm(attacker: Attacker) -> None:
    """Attack with connections that leave after their TLS handshake."""
    for _ in range(20):
        attacker.connect().close()


def client_hello() -> bytes:
    """Return the first message of a TLS client."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="x")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


PLAIN_ATTACKS: dict[str, Attack] = {
    "slow headers": slow_headers,
    "slow bodies": slow_body,
    "idle connections": idle_connections,
    "endless URL": endless_url,
    "huge headers": huge_headers,
    "huge body": huge_body,
    "endless chunks": endless_chunks,
    "disconnects": disconnects,
    "deep JSON": deep_json,
    "resets": reset_storm,
    "answers never read": never_reading,
}
# The prefix of a name says how the attacked server was started.
TLS, WORKERS = "TLS: ", "2 workers: "
ATTACKS: dict[str, Attack] = {
    **PLAIN_ATTACKS,
    f"{TLS}handshakes never started": silent_handshakes,
    f"{TLS}handshakes never finished": unfinished_handshakes,
    f"{TLS}slow handshakes": slow_handshakes,
    f"{TLS}no handshake": garbage_for_handshakes,
    f"{TLS}endless handshake": endless_client_hello,
    f"{TLS}many handshakes": handshake_storm,
    **{f"{TLS}{name}": attack for name, attack in PLAIN_ATTACKS.items()},
    **{f"{WORKERS}{name}": attack for name, attack in PLAIN_ATTACKS.items()},
}


def run_server_campaign(
    models: list[Path], seconds: float, seed: int, names: tuple[str, ...] = (), rounds: int = 1
) -> list[AttackResult]:
    """Run rounds of each attack for ``seconds``, half of them against the control server."""
    results = []
    for name in names or ATTACKS:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            certificate = make_certificate(folder) if name.startswith(TLS) else None
            workers = 2 if name.startswith(WORKERS) else 1
            server, control = (
                stack.enter_context(
                    running_server(*models, files=files, workers=workers, certificate=certificate)
                )
                for files in (FILES, 0)
            )
            result = AttackResult(name, seed, seconds, rounds)
            results.append(measure_attack(result, server, control))
    return results


def measure_attack(
    result: AttackResult, server: ServerProcess, control: ServerProcess
) -> AttackResult:
    """Measure a polite client while the attack hits the control server, then its own server."""
    before = server.memory_mb()
    peaks, p99s, p99s_of_control, failures = [before], [], [], []
    for number in range(result.rounds):
        for target in (control, server):
            attacker = Attacker(ATTACKS[result.attack], target, result.seed + number)
            with attacker, PoliteClient(server) as polite:
                end = time.monotonic() + result.seconds / 2
                while time.monotonic() < end:
                    time.sleep(0.1)
                    if server.is_alive():
                        peaks.append(server.memory_mb())
            if target is control:
                p99s_of_control.append(polite.p99())
        p99s.append(polite.p99())
        result.requests += len(polite.latencies)
        failures += polite.failures
    result.failures = len(failures)
    result.p99_ms = round(median(p99s), 2)
    result.p99_control_ms = round(median(p99s_of_control), 2)
    result.growth_mb = round(max(peaks) - before, 1)
    result.problems = _problems(result, server, failures)
    return result


def measure_soak(
    models: list[Path], seconds: float, seed: int, connections: int = 64
) -> AttackResult:
    """Load a server with polite requests on many connections and watch its memory."""
    result = AttackResult(f"{connections} connections", seed, seconds)
    with running_server(*models) as server:
        clients = [PoliteClient(server, rate=8) for _ in range(connections)]
        for client in clients:
            client.__enter__()
        time.sleep(seconds / 10)  # buffers and threads have grown to their usual size
        before, end = server.memory_mb(), time.monotonic() + 0.9 * seconds
        while time.monotonic() < end:
            time.sleep(0.2)
        result.growth_mb = round(server.memory_mb() - before, 1)
        for client in clients:
            client.__exit__()
        result.requests = sum(len(client.latencies) for client in clients)
        result.failures = sum(len(client.failures) for client in clients)
        result.p99_ms = round(p99_ms([t for client in clients for t in client.latencies]), 2)
        if result.growth_mb > 0.1 * before:
            result.problems.append(f"memory grew from {before:.0f} MB by {result.growth_mb} MB")
        if result.failures:
            result.problems.append(f"{result.failures} of {result.requests} requests failed")
    return result


def _problems(result: AttackResult, server: ServerProcess, failures: list[str]) -> list[str]:
    problems = []
    if result.ratio > MAX_RATIO:
        problems.append(f"p99 is {result.ratio:.1f} times that of the control")
    if failures:
        kinds = ", ".join(sorted(set(failures)))
        problems.append(f"{len(failures)} polite requests failed: {kinds}")
    if result.growth_mb > MAX_GROWTH_MB:
        problems.append(f"memory grew by {result.growth_mb} MB")
    try:
        if request(server, "GET", "/healthz")[0] != 200:
            problems.append("/healthz does not answer 200 after the attack")
    except OSError as error:
        problems.append(f"/healthz fails after the attack: {type(error).__name__}")
    return problems


def _close(clients: list[socket.socket]) -> None:
    for client in clients:
        client.close()
