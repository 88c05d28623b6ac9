"""A generator of HTTP requests for ``bench serve``, in a process of its own.

    python -m lamatext.bench.load < settings.json > figures.json

With a rate, requests are due at set times and their latency counts from then, so a server that
falls behind cannot hide it; without one, each connection asks again as soon as it is answered.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter

TICK = 0.001  # seconds between two looks at what is due


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked, how often and how long."""

    port: int
    bodies: list[str]
    seconds: float
    connections: int = 64
    rate: float | None = None  # requests a second; None: as many as are answered
    path: str = "/predict"


@dataclass(frozen=True, slots=True)
class Figures:
    """What came back; latencies in milliseconds."""

    requests: int
    errors: int
    seconds: float
    p50: float
    p99: float
    longest: float


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, on_answer: Callable[["Connection", int], None]) -> None:
        self.on_answer, self.received = on_answer, b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of an answer, or all of it."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(body) >= length:
            self.received = b""
            self.on_answer(self, int(head.split(b" ", 2)[1]))


class Run:
    """One load on its way."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.requests = [_request(load.path, body) for body in load.bodies]
        self.asked = self.errors = 0
        self.latencies: list[float] = []
        self.since: dict[Connection, float] = {}  # when each request under way was due
        self.idle: list[Connection] = []
        self.due: deque[float] = deque()
        self.end = 0.0

    async def go(self) -> Figures:
        """Open the connections, ask, and wait for the last answers."""
        loop = asyncio.get_running_loop()
        for _ in range(self.load.connections):
            _, made = await loop.create_connection(
                lambda: Connection(self.answered), "127.0.0.1", self.load.port
            )
            self.idle.append(made)
        start = perf_counter()
        self.end = start + self.load.seconds
        if self.load.rate is None:
            self.due.extend([start] * self.load.connections)
            self.ask()
            await asyncio.sleep(self.load.seconds)
        else:
            await self.at_rate(start, self.load.rate)
        seconds = perf_counter() - start
        for _ in range(5000):
            if not self.since and not self.due:
                break
            await asyncio.sleep(TICK)
        return self.figures(seconds)

    async def at_rate(self, start: float, rate: float) -> None:
        """Ask at even times."""
        planned = 0
        while (now := perf_counter()) < self.end:
            while start + planned / rate <= now:
                self.due.append(start + planned / rate)
                planned += 1
            self.ask()
            await asyncio.sleep(TICK)

    def ask(self) -> None:
        """Send what is due on the connections that are free."""
        while self.idle and self.due:
            connection = self.idle.pop()
            self.since[connection] = self.due.popleft()
            assert connection.transport is not None
            connection.transport.write(self.requests[self.asked % len(self.requests)])
            self.asked += 1

    def answered(self, connection: Connection, status: int) -> None:
        """Note one answer."""
        now = perf_counter()
        self.latencies.append(1000 * (now - self.since.pop(connection)))
        self.errors += status != 200
        self.idle.append(connection)
        if self.load.rate is None and now < self.end:
            self.due.append(now)
        self.ask()

    def figures(self, seconds: float) -> Figures:
        """What came of it; a request without an answer is an error."""
        times = sorted(self.latencies) or [0.0]
        lost = len(self.since) + len(self.due)
        p50, p99 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        return Figures(len(self.latencies), self.errors + lost, seconds, p50, p99, times[-1])


def _request(path: str, body: str) -> bytes:
    content = json.dumps({"text": body}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def main() -> None:
    """Read the settings, print the figures."""
    found = asyncio.run(Run(Load(**json.load(sys.stdin))).go())
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
