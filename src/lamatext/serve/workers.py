"""Worker processes of the server: a supervisor forks workers and restarts any worker that dies.

Each worker has its own listening socket on the same port (``SO_REUSEPORT``), and the kernel
distributes the connections. The supervisor keeps all sockets open: connections that wait for a
killed worker are accepted by its successor. If the successor cannot start, for example because its
model is gone, the socket is replaced by one that does not listen yet, and the kernel gives new
connections to the other workers until a successor is ready.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from lamatext.errors import ConfigError, LamatextError

POLL_SECONDS = 0.02
STABLE_SECONDS = 5.0  # a worker that lived longer is restarted at once
MAX_DELAY = 10.0  # seconds between two starts of a worker that dies immediately

log = logging.getLogger("lamatext.serve")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Context that the supervisor passes to a new worker process.

    Args:
        number: the worker's number, from 0; its successor has the same number.
        listener: its listening socket.
        supervisor: a file descriptor that reaches its end when the supervisor dies.
        on_ready: to be called when the worker accepts connections.
    """

    number: int
    listener: socket.socket
    supervisor: int
    on_ready: Callable[[], None]


@dataclass(slots=True)
class _Worker:
    number: int
    process: int
    ready_pipe: int
    started: float
    is_ready: bool = False


class Supervisor:
    """Supervisor that starts, restarts and signals the worker processes of the server.

    SIGHUP is forwarded, so that the workers reload their models. SIGINT and SIGTERM stop all
    workers; a second signal kills them. The signals may be sent to the whole process group.

    Args:
        listeners: one listening socket per worker.
        serve: runs a worker until it stops; called in its process.
        on_ready: called when all workers accept connections.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        serve: Callable[[WorkerContext], None],
        on_ready: Callable[[], None],
    ) -> None:
        if sys.platform == "win32":
            raise ConfigError("--workers: Windows has one worker only. Leave the option out.")
        self.listeners, self.serve, self.on_ready = list(listeners), serve, on_ready
        self.workers: dict[int, _Worker] = {}  # by process id
        # When to start a worker, by its number. The first one starts alone: it checks the models.
        self.due = dict.fromkeys(range(1, len(listeners)), 0.0)
        self.failures = [0] * len(listeners)
        self.can_start = self.is_announced = self.is_stopping = False
        self.status = 0
        self.alive_pipe = os.pipe()

    def run(self) -> int:
        """Run the workers until a signal stops them, and return the exit status."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._forward)
        self._start(0)
        while self.workers or (self.due and not self.is_stopping):
            self._check_ready()
            self._reap()
            self._restart()
            time.sleep(POLL_SECONDS)
        return self.status

    def _start(self, number: int) -> None:
        ready_read, ready_write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(ready_read)
            os._exit(self._run_worker(number, ready_write))
        os.close(ready_write)
        os.set_blocking(ready_read, False)
        self.workers[process] = _Worker(number, process, ready_read, time.monotonic())

    def _run_worker(self, number: int, ready_pipe: int) -> int:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_DFL if one == signal.SIGTERM else signal.SIG_IGN)
        os.close(self.alive_pipe[1])
        for other in self.workers.values():
            os.close(other.ready_pipe)
        for index, listener in enumerate(self.listeners):
            if index != number:
                listener.close()
        listener, supervisor = self.listeners[number], self.alive_pipe[0]
        context = WorkerContext(number, listener, supervisor, lambda: _write_and_close(ready_pipe))
        try:
            self.serve(context)
        except LamatextError as error:
            log.error("%s", error)
            return 2
        except BaseException:  # nothing of the supervisor must run in this process
            log.exception("worker %d failed", number + 1)
            return 1
        return 0

    def _check_ready(self) -> None:
        for worker in self.workers.values():
            if not worker.is_ready:
                try:
                    worker.is_ready = os.read(worker.ready_pipe, 1) == b"1"
                except BlockingIOError:
                    continue
        ready = sum(worker.is_ready for worker in self.workers.values())
        self.can_start = self.can_start or ready > 0
        if not self.is_announced and ready == len(self.listeners):
            self.is_announced = True
            self.on_ready()

    def _reap(self) -> None:
        for process, worker in [*self.workers.items()]:
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            del self.workers[process]
            os.close(worker.ready_pipe)
            if self.is_stopping:
                continue
            code = os.waitstatus_to_exitcode(status)
            if not self.is_announced:  # the server cannot start: its worker has said why
                self.status = code if code > 0 else 1
                self._stop(signal.SIGTERM, None)
                continue
            if not worker.is_ready:
                self._stop_listening(worker.number)
            self._schedule(worker, code)

    def _stop_listening(self, number: int) -> None:
        """Close the socket of a worker that cannot start, so that no client waits for it."""
        old = self.listeners[number]
        if sys.platform == "linux":  # elsewhere the workers share one socket
            self.listeners[number] = bind_listener(old.family, old.getsockname())
            old.close()

    def _schedule(self, worker: _Worker, code: int) -> None:
        is_stable = time.monotonic() - worker.started > STABLE_SECONDS
        failures = self.failures[worker.number] = (
            0 if is_stable else 1 + self.failures[worker.number]
        )
        delay = 0.0 if failures <= 1 else min(MAX_DELAY, 0.5 * 2.0 ** (failures - 2))
        reason = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        log.error(
            "worker %d (process %d) %s; starting it again",
            worker.number + 1,
            worker.process,
            reason,
        )
        self.due[worker.number] = time.monotonic() + delay

    def _restart(self) -> None:
        for number, moment in [*self.due.items()]:
            if self.can_start and time.monotonic() >= moment and not self.is_stopping:
                del self.due[number]
                self._start(number)

    def _stop(self, _: int, __: FrameType | None) -> None:
        if self.is_stopping:
            self._forward(signal.SIGKILL, None)
            return
        self.is_stopping = True
        for listener in self.listeners:  # the workers close theirs after draining
            listener.close()
        self._forward(signal.SIGTERM, None)

    def _forward(self, one: int, _: FrameType | None) -> None:
        for process in self.workers:
            os.kill(process, one)


def bind_listener(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Bind a worker's socket to the port shared by all workers, without listening yet."""
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind(address)
    return listener


def _write_and_close(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)
