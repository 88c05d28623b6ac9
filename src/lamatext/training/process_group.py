"""Process group for training on several devices or hosts, based on Hugging Face Accelerate.

Process 0 runs the whole command: it reads the data, builds vocabulary, word vectors and n-grams,
and writes files. The others wait for training loops. For each loop they receive the network and the
encoded texts, and then take their share of every mini-batch; gradients are summed over the group,
so all processes hold the same weights. ``torchrun`` and ``accelerate launch`` start the processes;
``--devices`` starts them itself, and they then exchange gradients through shared memory on the CPU.

Shapes: B texts in a mini-batch, C classes.
"""

import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lamatext.data.token_ids import Indices
from lamatext.errors import ConfigError, ProcessError, plural, require
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.training.batching import Batch

# Process 0 may read and prepare data for long; a process that ends is noticed without a timeout.
TIMEOUT = timedelta(days=7)
EXIT_SECONDS = 5.0  # time for process 0 to notice that another one has ended
LOST_CONNECTION = 75  # exit status of a worker that ended because another process did
# Environment variables of a process's place in the group, as torchrun defines them.
PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SHARED = "LAMATEXT_SHARED"  # environment: file descriptors of shared memory and of the connections
SHARED_BYTES = 1 << 22  # of memory for the tensor of one process; longer ones are summed in parts
SHARED_PROCESSES = 16  # at most; each reads the summands of all, and is connected to all others
PROCESSES_PER_CORE = 4  # more are refused: they only take memory and wait for each other
POLL_SECONDS = 1e-3  # time for which a process polls for the others in each step before it sleeps
T = TypeVar("T")


class OneProcess:
    """Process group of an ordinary training run, which has only one process."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process reads the data and writes the results of the group."""
        return self.rank == 0

    @contextmanager
    def job(self, job: object) -> Iterator[None]:  # noqa: ARG002 - sent in a group
        """Run a job in a ``with`` block; a process group of several processes shares its work."""
        yield

    def share(self, batch: Batch) -> Batch:
        """Return the part of a mini-batch that this process of the group trains on."""
        return batch

    def share_of_rows(self, count: int) -> Indices:
        """Return the indices of the rows (of ``count``) that this process of the group predicts."""
        return np.arange(self.rank, count, self.size)

    def sum_joined(self, parts: list[Tensor], out: Tensor) -> None:
        """Concatenate flat tensors and write their sum over the process group to ``out``."""
        torch.cat(parts, out=out)

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes of the group."""
        return value

    def gather_rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Gather the result rows of all processes of the group and restore their original order."""
        return values

    def from_main(self, value: T) -> T:
        """Broadcast a value from process 0 to all processes of the group."""
        return value


ONE_PROCESS = OneProcess()
_current: ContextVar[OneProcess] = ContextVar("training processes", default=ONE_PROCESS)


def current_processes() -> OneProcess:
    """Return the process group of the current training run, by default a single process."""
    return _current.get()


class SharedMemory:
    """Shared memory through which training processes on one machine sum their tensors.

    The processes wait for each other by exchanging single bytes.

    Gloo would send the tensors through the loopback interface, with two more threads in each
    process, which takes milliseconds. Two buffers are used in turn, so that the processes have to
    wait for each other only once per sum: a process that reaches the next sum has already read the
    last one.
    """

    def __init__(self, rank: int, memory: int, *others: int) -> None:
        self._rank, self._turn = rank, 0
        self._others = others
        for other in others:
            os.set_blocking(other, False)
        self._memory = mmap.mmap(memory, 2 * (len(others) + 1) * SHARED_BYTES)
        self._views: dict[torch.dtype, Tensor] = {}

    def sum_joined(self, parts: list[Tensor], out: Tensor) -> None:
        """Concatenate flat CPU tensors, and write the sum across all processes to ``out``."""
        buffers = self._buffers(out.dtype)
        if len(out) <= buffers.shape[2]:
            self._add(buffers[self._turn, :, : len(out)], parts, out)
        else:
            torch.cat(parts, out=out)
            self.sum(out)

    def sum(self, value: Tensor) -> None:
        """Replace a flat CPU tensor with its sum over the processes, in parts if it is long."""
        buffers = self._buffers(value.dtype)
        for part in torch.split(value, buffers.shape[2]):
            self._add(buffers[self._turn, :, : len(part)], [part], part)

    def _add(self, summands: Tensor, parts: list[Tensor], out: Tensor) -> None:
        """Write the parts to this process's row of the shared memory, then sum all rows."""
        rows = summands.unbind()
        torch.cat(parts, out=rows[self._rank])
        self._meet()
        torch.add(rows[0], rows[1], out=out)
        for row in rows[2:]:
            out += row
        self._turn = 1 - self._turn

    def _buffers(self, dtype: torch.dtype) -> Tensor:
        """View the shared memory as a tensor of one dtype (2 turns, processes, numbers)."""
        if dtype not in self._views:
            numbers = torch.frombuffer(self._memory, dtype=dtype)
            self._views[dtype] = numbers.view(2, len(self._others) + 1, -1)
        return self._views[dtype]

    def _meet(self) -> None:
        """Wait until all training processes have written their tensors to the shared memory.

        Raises:
            ConnectionError: if a process has ended.
        """
        for other in self._others:
            os.write(other, b".")
        for other in self._others:
            if not _read_byte(other):
                raise ConnectionResetError


def _read_byte(connection: int) -> bytes:
    """Read a byte from another training process, or nothing if that process has ended.

    Most waits are shorter than it takes to wake a sleeping process, so this function polls at
    first.
    """
    ends = time.monotonic() + POLL_SECONDS
    while True:
        try:
            return os.read(connection, 1)
        except BlockingIOError:
            if time.monotonic() < ends:
                os.sched_yield()  # to whatever else needs this core
            else:
                _sleep_until_readable(connection)


def _sleep_until_readable(connection: int) -> None:
    """Sleep until another training process has sent a byte or has ended."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.poll()


class ProcessGroup(OneProcess):
    """Group of training processes that exchange gradients over NCCL (GPU) or gloo (CPU).

    On the CPU, processes that ``--devices`` has started use shared memory instead where possible.
    """

    def __init__(self, device: torch.device) -> None:
        from accelerate import PartialState

        with warnings.catch_warnings():  # about threads, which are set here
            warnings.simplefilter("ignore", UserWarning)
            state = PartialState(cpu=device.type == "cpu", timeout=TIMEOUT)
        self.rank, self.size = state.process_index, state.num_processes
        self.device = torch.device("cpu") if device.type == "cpu" else state.device
        self._messages = torch.distributed.new_group(backend="gloo", timeout=TIMEOUT)
        self._shared = None
        if SHARED in os.environ:
            self._shared = SharedMemory(self.rank, *map(int, os.environ[SHARED].split(",")))
        self.is_in_job = False
        if not self.is_main:
            torch.set_num_threads(min(torch.get_num_threads(), _threads_per_process()))

    @contextmanager
    def job(self, job: object) -> Iterator[None]:
        """Send a job to the other processes of the group and run this process's share."""
        self.from_main(job)
        self.is_in_job = True
        threads = torch.get_num_threads()
        torch.set_num_threads(min(threads, _threads_per_process()))
        try:
            yield
        finally:
            torch.set_num_threads(threads)
        self.is_in_job = False

    def receive_job(self) -> Any:
        """Wait for the next job from process 0 of the group; return None after the last one."""
        return self.from_main(None)

    def dismiss(self) -> None:
        """Tell the other processes of the group that training is over."""
        self.from_main(None)

    def share(self, batch: Batch) -> Batch:
        """Return every ``size``-th row of a mini-batch as the share of this process.

        If a mini-batch has too few rows for this process, the share is its first row, whose loss
        then has the weight 0.
        """
        first = self.rank if self.rank < len(batch.ids) else 0
        rows = slice(first, None, self.size) if first == self.rank else slice(1)
        lengths = batch.lengths[rows]
        return Batch(
            batch.ids[rows, : max(1, int(lengths.max()))],
            lengths,
            batch.labels[rows],
            None if batch.sample_weight is None else batch.sample_weight[rows],
        )

    def sum_joined(self, parts: list[Tensor], out: Tensor) -> None:
        """Concatenate flat tensors and write their sum over the process group to ``out``."""
        if self._shared is None:
            torch.cat(parts, out=out)
            self.sum(out)
            return
        with self._connected():
            self._shared.sum_joined(parts, out)

    def sum(self, value: Tensor) -> Tensor:
        """Replace a contiguous tensor with its sum over the processes of the group; return it."""
        with self._connected():
            if self._shared is None:
                torch.distributed.all_reduce(value)
            else:
                self._shared.sum(value.view(-1))
        return value

    def gather_rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Gather the result rows of all processes of the group and restore their original order."""
        parts: list[Any] = [None] * self.size
        with self._connected():
            torch.distributed.all_gather_object(parts, values, group=self._messages)
        rows = np.empty((sum(map(len, parts)), *values.shape[1:]), values.dtype)
        for rank, part in enumerate(parts):
            rows[rank :: self.size] = part
        return rows

    def from_main(self, value: T) -> T:
        """Broadcast a value from process 0 to all processes of the group."""
        values = [value]
        with self._connected():
            torch.distributed.broadcast_object_list(values, src=0, group=self._messages)
        return values[0]

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Convert communication errors of the process group to a ProcessError."""
        try:
            yield
        except (RuntimeError, ConnectionError) as error:
            raise ProcessError(
                f"training process {self.rank} of {self.size} lost the connection to another "
                "process of the training, so it has stopped."
            ) from error


@contextmanager
def training_processes(devices: int | None, device: torch.device) -> Iterator[OneProcess]:
    """Start or join the process group of a distributed training run.

    Inside the block, training loops run on the whole group. A process that a launcher started reads
    its place in the group from the environment, as ``torchrun`` defines it; otherwise this process
    starts ``devices`` − 1 others and ends them with the block.

    Raises:
        ConfigError: if there are fewer devices than processes.
        ProcessError: if another process has ended too early.
    """
    is_launched = "LOCAL_RANK" in os.environ
    if not is_launched and (devices or 1) == 1:
        yield ONE_PROCESS
        return
    require("accelerate", extra="multi", purpose="training on several devices")
    _check_devices(devices, device)
    workers = _Workers([] if is_launched or devices is None else _start(devices, device))
    with workers.failure_explained():
        try:
            group = ProcessGroup(device)
            if is_launched and group.is_main:
                signal.signal(signal.SIGTERM, _stop_for_launcher)
            with _as_current(group):
                yield group
            workers.wait()
        finally:
            workers.stop()
            _leave()


def _stop_for_launcher(*_: object) -> None:
    """Raise ProcessError because the launcher terminates process 0 of the group (SIGTERM)."""
    raise ProcessError("the launcher has ended this training process with the others.")


@contextmanager
def _as_current(group: ProcessGroup) -> Iterator[None]:
    """Make a process group current inside a ``with`` block, then dismiss its other processes."""
    token = _current.set(group)
    is_broken = False
    try:
        yield
    except ProcessError:
        is_broken = True
        raise
    finally:
        _current.reset(token)
        if group.is_main and not is_broken and not group.is_in_job:
            group.dismiss()


def _check_devices(devices: int | None, device: torch.device) -> None:
    """Raise ConfigError if the processes of the group do not fit the available devices."""
    launched = int(os.environ.get("WORLD_SIZE", 1)) if "LOCAL_RANK" in os.environ else None
    if None not in (launched, devices) and launched != devices:
        raise ConfigError(
            f"--devices {devices}: the launcher has started "
            f"{plural(launched or 1, 'process', 'processes')}. Leave it out."
        )
    if device.index is not None:
        raise ConfigError(f"several processes choose their GPU themselves; {device} names one.")
    local = int(os.environ.get("LOCAL_WORLD_SIZE", launched or devices or 1))
    if device.type == "cuda" and local > torch.cuda.device_count():
        raise ConfigError(
            f"{local} processes were asked for, but PyTorch finds "
            f"{plural(torch.cuda.device_count(), 'GPU')} on this machine. Ask for as many, or "
            "train on processor cores with --device cpu."
        )
    most = PROCESSES_PER_CORE * usable_cores()
    if device.type == "cpu" and launched is None and local > most:
        raise ConfigError(
            f"--devices {local}: at most {most} processes can train on "
            f"{plural(usable_cores(), 'processor core')}. One per core is the fastest."
        )


def _threads_per_process() -> int:
    """Return how many CPU threads each process of the group on this machine may use."""
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def _start(count: int, device: torch.device) -> list["subprocess.Popen[bytes]"]:
    """Start the worker processes of a group on this machine; this process becomes process 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    interface = "lo0" if sys.platform == "darwin" else "lo"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)  # nothing leaves this machine
    places = [
        dict(zip(PLACE, map(str, (rank, rank, count, count, "127.0.0.1", port)), strict=True))
        for rank in range(count)
    ]
    shared = _shared_files(count) if device.type == "cpu" else [[] for _ in places]
    for place, files in zip(places, shared, strict=True):
        place.update({SHARED: ",".join(map(str, files))} if files else {})
    worker = "lamatext.training.process_worker"
    command = [sys.executable, "-m", worker, device.type, str(os.getpid())]
    workers = [
        subprocess.Popen(  # nosec B603 # our own module
            command,
            env={**os.environ, **place},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches process 0 alone, which ends the others
            pass_fds=files,
        )
        for place, files in zip(places[1:], shared[1:], strict=True)
    ]
    for number in {number for files in shared[1:] for number in files} - set(shared[0]):
        os.close(number)  # so that the end of a process closes its connections
    os.environ.update(places[0])
    return workers


def _shared_files(count: int) -> list[list[int]]:
    """Create the shared memory and the sockets with which the process group sums tensors.

    Return the file descriptors for each process: that of the memory, then a connection to each
    other process. The lists are empty if there are more than ``SHARED_PROCESSES`` processes, and on
    systems other than Linux.
    """
    if count > SHARED_PROCESSES or not hasattr(os, "memfd_create"):
        return [[] for _ in range(count)]
    memory = os.memfd_create("lamatext")
    os.ftruncate(memory, 2 * count * SHARED_BYTES)
    files = [[memory] for _ in range(count)]
    for one in range(count):
        for other in range(one):
            ends = socket.socketpair()
            files[one].append(ends[0].detach())
            files[other].append(ends[1].detach())
    return files


def _leave() -> None:
    """Leave the process group, so that this process can join another one later."""
    from accelerate import PartialState

    if torch.distributed.is_initialized():
        with suppress(RuntimeError):
            torch.distributed.destroy_process_group()
    PartialState._reset_state()


class _Workers:
    """Worker processes of a group that process 0 has started for ``--devices``."""

    def __init__(self, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._processes = processes
        self._is_over = threading.Event()
        if processes:
            threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def failure_explained(self) -> Iterator[None]:
        """Raise an error that names the failed process if the group has lost a connection."""
        try:
            yield
        except (ProcessError, torch.distributed.DistError) as error:
            failure = self._failure(seconds=1.0)
            if failure is None:
                raise
            raise ProcessError(failure) from error

    def wait(self) -> None:
        """Wait briefly for the other processes of the group to exit."""
        self._is_over.set()
        ends = time.monotonic() + EXIT_SECONDS
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends - time.monotonic()))

    def stop(self) -> None:
        """Kill the other processes of the group and remove its environment variables."""
        self._is_over.set()
        for process in self._processes:
            process.kill()
            process.wait()
        if self._processes:
            for name in PLACE:
                os.environ.pop(name, None)
            for number in filter(None, os.environ.pop(SHARED, "").split(",")):
                os.close(int(number))

    def _failure(self, seconds: float = 0.0) -> str | None:
        """Describe which process of the group failed and how; return None if none has failed."""
        ends = time.monotonic() + seconds
        while True:
            for rank, process in enumerate(self._processes, start=1):
                if process.poll() not in (None, 0, LOST_CONNECTION):
                    return _describe_exit(rank, len(self._processes) + 1, process)
            if time.monotonic() >= ends:
                return None
            time.sleep(0.05)

    def _watch(self) -> None:
        """Watch the worker processes of the group and stop this process if one fails.

        Processes on GPUs would otherwise wait for a lost process without an error.
        """
        while not self._is_over.wait(0.5):
            failure = self._failure()
            if failure is not None and not self._is_over.wait(EXIT_SECONDS):
                sys.stderr.write(f"lamatext: {failure}\n")
                sys.stderr.flush()
                for process in self._processes:
                    process.kill()
                os._exit(1)


def _describe_exit(rank: int, size: int, process: "subprocess.Popen[bytes]") -> str:
    code = process.returncode
    how = f"ended with exit status {code}"
    if code < 0:
        how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"training process {rank} of {size} (pid {process.pid}) {how}, so all have stopped."
