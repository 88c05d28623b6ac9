"""HTTP load generator for the serving benchmark, run in its own process.

    python -m benchmarks.http_load < load.json > result.json

With a rate, requests are scheduled at fixed times and their latency counts from the scheduled time,
so a server that falls behind cannot hide it. Without a rate, each connection sends its next request
as soon as it has received a response.
"""

import asyncio
import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

TICK = 0.001  # seconds between two checks of the schedule
PATIENCE = 15.0  # seconds to wait for the last responses: the server gives up after 10


@dataclass(frozen=True, slots=True)
class Load:
    """HTTP requests to send: texts, duration, connections and rate."""

    port: int
    bodies: list[str]
    seconds: float
    connections: int = 64
    rate: float | None = None  # requests per second; None: as many as are answered
    path: str = "/predict"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Counts and latencies (in milliseconds) of an HTTP load run."""

    requests: int  # answered, whatever the status
    errors: Mapping[str, int]  # by kind
    reopened: int  # connections that the server had closed
    seconds: float
    p50: float
    p99: float
    longest: float


class Connection(asyncio.Protocol):
    """HTTP client connection with one request in flight at a time."""

    def __init__(
        self,
        on_answer: Callable[["Connection", int], None],
        on_lost: Callable[["Connection", Exception | None], None],
    ) -> None:
        self.on_answer, self.on_lost, self.received = on_answer, on_lost, b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of a new connection to the server under load."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Collect a part of an HTTP response and report it when it is complete."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(body) >= length:
            assert self.transport is not None
            self.received = b""
            if b"\r\nconnection: close" in head.lower():
                self.transport.close()
            self.on_answer(self, int(head.split(b" ", 2)[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report to the load generator that the server has closed this connection."""
        self.on_lost(self, exc)


class LoadRun:
    """A running HTTP load: its connections, schedule, latencies and errors."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.requests = [_request(load.path, body) for body in load.bodies]
        self.sent = self.reopened = 0
        self.errors: Counter[str] = Counter()
        self.latencies: list[float] = []
        self.in_flight: dict[Connection, float] = {}  # the time each request was scheduled for
        self.idle: deque[Connection] = deque()  # round robin, so that every connection is used
        self.due: deque[float] = deque()
        self.opening: set[asyncio.Task[None]] = set()
        self.end = 0.0

    async def run(self) -> LoadResult:
        """Open the connections, generate the load and wait for the last responses."""
        for _ in range(self.load.connections):
            await self.connect()
        start = perf_counter()
        self.end = start + self.load.seconds
        if self.load.rate is None:
            self.due.extend([start] * self.load.connections)
            self.send_due()
            await asyncio.sleep(self.load.seconds)
        else:
            await self.send_at_rate(start, self.load.rate)
        seconds = perf_counter() - start
        while (self.in_flight or self.due) and perf_counter() < self.end + PATIENCE:
            await asyncio.sleep(TICK)
        return self.result(seconds)

    async def connect(self) -> None:
        """Open one more HTTP connection and use it."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(self.on_answer, self.on_lost), "127.0.0.1", self.load.port
        )
        self.idle.append(connection)
        self.send_due()

    async def send_at_rate(self, start: float, rate: float) -> None:
        """Schedule HTTP requests at equal intervals and send them."""
        planned = 0
        while (now := perf_counter()) < self.end:
            while start + planned / rate <= now:
                self.due.append(start + planned / rate)
                planned += 1
            self.send_due()
            await asyncio.sleep(TICK)

    def send_due(self) -> None:
        """Send the HTTP requests that are due on the connections that are idle."""
        while self.idle and self.due:
            connection = self.idle.popleft()
            assert connection.transport is not None
            if connection.transport.is_closing():
                continue  # a replacement is being opened
            self.in_flight[connection] = self.due.popleft()
            connection.transport.write(self.requests[self.sent % len(self.requests)])
            self.sent += 1

    def on_answer(self, connection: Connection, status: int) -> None:
        """Record the latency and HTTP status of one response."""
        now = perf_counter()
        self.latencies.append(1000 * (now - self.in_flight.pop(connection)))
        if status != 200:
            self.errors[f"status {status}"] += 1
        self.idle.append(connection)
        self._continue(now)

    def on_lost(self, connection: Connection, error: Exception | None) -> None:
        """Replace a lost connection; the HTTP request on it is an error and is not repeated."""
        now = perf_counter()
        if now < self.end:
            task = asyncio.get_running_loop().create_task(self.reopen())
            self.opening.add(task)
            task.add_done_callback(self.opening.discard)
        if connection in self.in_flight:
            del self.in_flight[connection]
            self.errors[type(error).__name__ if error else "closed without an answer"] += 1
            self._continue(now)

    async def reopen(self) -> None:
        """Open an HTTP connection in place of one that the server has closed."""
        self.reopened += 1
        try:
            await self.connect()
        except OSError as error:
            self.errors[type(error).__name__] += 1

    def _continue(self, now: float) -> None:
        """Without a rate, schedule the next HTTP request as soon as one has ended."""
        if self.load.rate is None and now < self.end:
            self.due.append(now)
        self.send_due()

    def result(self, seconds: float) -> LoadResult:
        """Summarize the HTTP load run; a request without a response is an error."""
        times = sorted(self.latencies) or [0.0]
        p50, p99 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        unanswered = {"no answer": len(self.in_flight), "not sent": len(self.due)}
        errors = self.errors + Counter(unanswered)
        return LoadResult(
            len(self.latencies), dict(errors), self.reopened, seconds, p50, p99, times[-1]
        )


def _request(path: str, body: str) -> bytes:
    content = json.dumps({"text": body}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def main() -> None:
    """Read an HTTP load from stdin as JSON, run it and print its result as JSON."""
    result = asyncio.run(LoadRun(Load(**json.load(sys.stdin))).run())
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
