"""A generator of HTTP requests for ``bench serve``, in a process of its own.

    python -m benchmarks.load < settings.json > figures.json

With a rate, requests are due at set times and their latency counts from then, so a server that
falls behind cannot hide it; without one, each connection asks again as soon as it is answered.
"""

import asyncio
import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

TICK = 0.001  # seconds between two looks at what is due
PATIENCE = 15.0  # seconds that the last answers may take: the server gives up after 10


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

    requests: int  # answered, whatever the answer was
    errors: Mapping[str, int]  # by kind
    reopened: int  # connections, after the server had closed them
    seconds: float
    p50: float
    p99: float
    longest: float


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(
        self,
        on_answer: Callable[["Connection", int], None],
        on_lost: Callable[["Connection", Exception | None], None],
    ) -> None:
        self.on_answer, self.on_lost, self.received = on_answer, on_lost, b""
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
            assert self.transport is not None
            self.received = b""
            if b"\r\nconnection: close" in head.lower():
                self.transport.close()
            self.on_answer(self, int(head.split(b" ", 2)[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is gone, or has had enough of this connection."""
        self.on_lost(self, exc)


class Run:
    """One load on its way."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.requests = [_request(load.path, body) for body in load.bodies]
        self.asked = self.reopened = 0
        self.errors: Counter[str] = Counter()
        self.latencies: list[float] = []
        self.since: dict[Connection, float] = {}  # when each request under way was due
        self.idle: deque[Connection] = deque()  # in turns, so that every connection is in use
        self.due: deque[float] = deque()
        self.opening: set[asyncio.Task[None]] = set()
        self.end = 0.0

    async def go(self) -> Figures:
        """Open the connections, ask, and wait for the last answers."""
        for _ in range(self.load.connections):
            await self.connect()
        start = perf_counter()
        self.end = start + self.load.seconds
        if self.load.rate is None:
            self.due.extend([start] * self.load.connections)
            self.ask()
            await asyncio.sleep(self.load.seconds)
        else:
            await self.at_rate(start, self.load.rate)
        seconds = perf_counter() - start
        while (self.since or self.due) and perf_counter() < self.end + PATIENCE:
            await asyncio.sleep(TICK)
        return self.figures(seconds)

    async def connect(self) -> None:
        """Open one more connection, and put it to use."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            lambda: Connection(self.answered, self.lost), "127.0.0.1", self.load.port
        )
        self.idle.append(made)
        self.ask()

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
            connection = self.idle.popleft()
            assert connection.transport is not None
            if connection.transport.is_closing():
                continue  # another is being opened in its place
            self.since[connection] = self.due.popleft()
            connection.transport.write(self.requests[self.asked % len(self.requests)])
            self.asked += 1

    def answered(self, connection: Connection, status: int) -> None:
        """Note one answer."""
        now = perf_counter()
        self.latencies.append(1000 * (now - self.since.pop(connection)))
        if status != 200:
            self.errors[f"status {status}"] += 1
        self.idle.append(connection)
        self.go_on(now)

    def lost(self, connection: Connection, error: Exception | None) -> None:
        """Open another connection. A request that was on this one is an error, never repeated."""
        now = perf_counter()
        if now < self.end:
            task = asyncio.get_running_loop().create_task(self.reopen())
            self.opening.add(task)
            task.add_done_callback(self.opening.discard)
        if connection in self.since:
            del self.since[connection]
            self.errors[type(error).__name__ if error else "closed without an answer"] += 1
            self.go_on(now)

    async def reopen(self) -> None:
        """As any client does when the server has closed a connection."""
        self.reopened += 1
        try:
            await self.connect()
        except OSError as error:
            self.errors[type(error).__name__] += 1

    def go_on(self, now: float) -> None:
        """Without a rate, each request that is over makes place for the next."""
        if self.load.rate is None and now < self.end:
            self.due.append(now)
        self.ask()

    def figures(self, seconds: float) -> Figures:
        """What came of it; a request without an answer is an error."""
        times = sorted(self.latencies) or [0.0]
        p50, p99 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        errors = self.errors + Counter({"no answer": len(self.since), "not sent": len(self.due)})
        return Figures(
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
    """Read the settings, print the figures."""
    found = asyncio.run(Run(Load(**json.load(sys.stdin))).go())
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
