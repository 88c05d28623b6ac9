"""Batch prediction on Ray: one actor per core, on this machine or a cluster (extra ``ray``).

The calling process reads the input and writes the parts, exactly as without Ray; actors only
compute. They get the model and the rows through Ray's object store and answer with rows, so they
need no shared file system. An actor or a node that is killed has written nothing: its parts are
assigned to other actors. ``docs/decisions.md`` says why this is not a Ray Data pipeline.
"""

import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lamatext.errors import ConfigError, ProcessError, require
from lamatext.kernels.kernel_threads import kernel_threads
from lamatext.runtime.predict_table import predict_batches
from lamatext.runtime.prediction_parts import NumberedParts, PartEngine
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import FILES

CONNECT_SECONDS = 10.0  # for an address to answer
START_SECONDS = 120.0  # for the first actor to load the model, or for one to replace lost ones
PARTS_PER_ACTOR = 2  # one is computed while the next one is on its way
MAX_LOSSES = 5  # of actors with the same part, or actors in a row that fail to start

PredictOptions = dict[str, Any]  # keyword arguments of predict_batches


class PartWorker:
    """Ray actor that loads a saved model and predicts parts of a batch job."""

    def __init__(self, files: dict[str, bytes]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            self._predictor = Predictor.load(folder)

    def is_ready(self) -> bool:
        """Return True; the Ray actor cannot answer this call before it has loaded its model."""
        return True

    def predict(
        self, part: pa.Table, text_columns: tuple[str, ...], options: PredictOptions
    ) -> pa.Table:
        """Predict one part of a batch job in this Ray actor, using one core."""
        with kernel_threads(1):
            batches = predict_batches(
                self._predictor, part.to_batches() or _no_rows(part), text_columns, **options
            )
            return pa.Table.from_batches(list(batches))


def _no_rows(part: pa.Table) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([], part.schema)]


@dataclass
class RayActors:
    """Pool of Ray actors that predict the parts of a batch job in any order."""

    ray: Any  # the module
    files: Any  # object reference of the model's files
    text_columns: tuple[str, ...]
    options: PredictOptions
    ready: list[Any] = field(default_factory=list)  # actors that have loaded the model
    starting: dict[Any, Any] = field(default_factory=dict)  # actor by reference of its readiness
    tasks: dict[Any, "_Task"] = field(default_factory=dict)  # by reference of the result
    lost: Counter[int] = field(default_factory=Counter)  # actors lost by the number of their part
    failed_starts: int = 0

    def start(self, count: int) -> None:
        """Start ``count`` Ray actors, which then load the model."""
        remote = self.ray.remote(num_cpus=1, max_restarts=0)(PartWorker)
        for _ in range(count):
            actor = remote.remote(self.files)
            self.starting[actor.is_ready.remote()] = actor

    def wait_until_ready(self) -> None:
        """Wait until all started Ray actors have loaded the model."""
        while self.starting and not self.tasks:
            list(self._collect())

    def compute(self, parts: NumberedParts) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Predict the parts of a batch job on the Ray actors and yield the finished parts."""
        for number, batches in parts:
            rows = self.ray.put(pa.Table.from_batches(list(batches)))
            while not self._has_room():
                yield from self._collect()
            self._submit(number, rows)
        while self.tasks:
            yield from self._collect()

    def _has_room(self) -> bool:
        return len(self.tasks) < PARTS_PER_ACTOR * len(self.ready)

    def _submit(self, number: int, rows: Any) -> None:
        """Assign a part to the Ray actor with the fewest assigned parts."""
        busy = Counter(task.actor for task in self.tasks.values())
        actor = min(self.ready, key=lambda actor: busy[actor])
        result = actor.predict.remote(rows, self.text_columns, self.options)
        self.tasks[result] = _Task(number, rows, actor)

    def _collect(self) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Wait until a Ray actor finishes a part, starts or dies; yield the part if finished."""
        wait_for = [*self.tasks, *self.starting]
        finished, _ = self.ray.wait(wait_for, num_returns=1, timeout=START_SECONDS)
        if not finished and not self.ready:
            raise ProcessError(
                f"no worker of the Ray cluster has started within {START_SECONDS:.0f} s: all its "
                "cores are taken, or its nodes are gone. Finished parts are kept: repeat the "
                "command when the cluster has free cores."
            )
        for reference in finished:
            if reference in self.starting:
                self._add_actor(reference)
                continue
            task = self.tasks.pop(reference)
            try:
                table = self.ray.get(reference)
            except self.ray.exceptions.RayTaskError:
                raise  # an error of the prediction itself
            except self.ray.exceptions.RayError:
                self._replace_actor(task)
                continue
            yield task.number, table.to_batches() or _no_rows(table)

    def _add_actor(self, reference: Any) -> None:
        actor = self.starting.pop(reference)
        try:
            self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self.failed_starts += 1
            if self.failed_starts >= MAX_LOSSES:
                reason = str(error).strip().splitlines()[-1]
                raise ProcessError(
                    f"{MAX_LOSSES} workers of the Ray cluster could not load the model: {reason}. "
                    "Install the same lamatext and pyarrow on all nodes."
                ) from error
            self.start(1)
            return
        self.failed_starts = 0
        self.ready.append(actor)

    def _replace_actor(self, task: "_Task") -> None:
        """Replace a lost Ray actor and assign its part to another actor."""
        self.lost[task.number] += 1
        if self.lost[task.number] >= MAX_LOSSES:
            raise ProcessError(
                f"{MAX_LOSSES} workers of the Ray cluster died while they computed part "
                f"{task.number}, probably for lack of memory. Finished parts are kept; predict "
                "without --engine ray, which needs less memory, or on larger nodes."
            )
        if task.actor in self.ready:
            self.ready.remove(task.actor)
            self.ray.kill(task.actor)  # if it lives: only its answer was lost
            self.start(1)
        deadline = time.monotonic() + START_SECONDS
        while not self.ready and time.monotonic() < deadline:
            ready, _ = self.ray.wait(list(self.starting), num_returns=1, timeout=1.0)
            for reference in ready:
                self._add_actor(reference)
        if not self.ready:
            raise ProcessError(
                f"all workers of the Ray cluster are lost, and none has started within "
                f"{START_SECONDS:.0f} s. Finished parts are kept: repeat the command."
            )
        self._submit(task.number, task.rows)


@dataclass(frozen=True)
class _Task:
    """Part of a batch job that is assigned to a Ray actor."""

    number: int
    rows: Any  # object reference of the rows, which this process owns
    actor: Any


def ray_engine(
    model: Path,
    text_columns: tuple[str, ...],
    options: PredictOptions,
    *,
    address: str | None = None,
) -> PartEngine:
    """Return an engine that predicts the parts of a batch job on Ray, one actor per core.

    Ray is started, or connected to, when the first part is requested, and shut down or disconnected
    from after the last one.

    Args:
        model: the folder of the saved model.
        text_columns: names of the columns with the texts.
        options: keyword arguments of ``predict_batches``.
        address: ``HOST:PORT`` of a running cluster, or ``auto`` for the one on this machine; None
            starts Ray on this machine until the job ends.
    """
    ray = import_ray(address)

    def compute(parts: NumberedParts) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        connect(ray, address)
        try:
            actors = RayActors(ray, read_model_files(ray, model), text_columns, options)
            actors.start(max(1, int(ray.cluster_resources().get("CPU", 1))))
            yield from actors.compute(parts)
        finally:
            ray.shutdown()

    return compute


def import_ray(address: str | None) -> Any:
    """Import Ray with usage reporting disabled and check that the cluster address is reachable."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # no telemetry
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning
    ray = require("ray", extra="ray", purpose="--engine ray")
    if address is not None:
        _check_address(address)
    return ray


def read_model_files(ray: Any, model: Path) -> Any:
    """Put the files of a saved model into Ray's object store and return their reference."""
    return ray.put(
        {name: (model / name).read_bytes() for name in FILES if (model / name).is_file()}
    )


def connect(ray: Any, address: str | None, cores: int | None = None) -> None:
    """Connect to a Ray cluster, or start one on this machine if no address is given."""
    started = {"num_cpus": cores, "include_dashboard": False} if address is None else {}
    try:
        with redirect_stdout(None):
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="ERROR",
                **started,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"--address {address or 'local'}: Ray cannot be reached: {reason}. Start it with "
            "`ray start --head`, set RAY_AUTH_TOKEN if the cluster asks for a token, or leave "
            "--address out to use this machine."
        ) from error


def _check_address(address: str) -> None:
    """Check that a server responds at the address of the Ray cluster."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(
            f"--address {address}: expected HOST:PORT of a Ray cluster, such as 10.0.0.5:6379, "
            "or auto."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--address {address}: no answer within {CONNECT_SECONDS:.0f} s ({error}). Start Ray "
            "there with `ray start --head --port PORT`, or leave --address out to use this machine."
        ) from error
