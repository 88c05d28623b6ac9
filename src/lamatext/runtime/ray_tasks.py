"""Ray tasks: function calls with a deadline that each run on one core (extra ``ray``).

``lamatext tune --engine ray`` trains its trials as Ray tasks. Several threads each wait for one
task. Ray repeats a task elsewhere if its worker or node dies.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lamatext.errors import ConfigError, ProcessError
from lamatext.runtime.ray_engine import MAX_LOSSES, connect, import_ray

POLL_SECONDS = 0.5  # between two checks of the deadline while a task runs


class RayTasks:
    """Wrapper of a Python function whose calls run as tasks on a Ray cluster.

    Several threads may use the wrapper at the same time.
    """

    def __init__(self, ray: Any, function: Callable[..., Any]) -> None:
        self.ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=MAX_LOSSES)(function)
        self._losses = 0  # tasks in a row that were lost after all retries
        self._is_stopped = threading.Event()

    @property
    def cores(self) -> int:
        """Number of CPU cores in the Ray cluster."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def call(self, *arguments: Any, deadline: float) -> Any:
        """Run the function as a Ray task and return its result.

        Raises:
            TimeoutError: the task has not ended by the deadline, a value of ``time.monotonic()``.
            ConfigError: the workers of the task were lost.
            ProcessError: the workers of several tasks in a row were lost, or ``stop`` was called.
        """
        reference = self._remote.remote(*arguments)
        while not self.ray.wait([reference], timeout=POLL_SECONDS)[0]:
            if self._is_stopped.is_set() or time.monotonic() > deadline:
                self.ray.cancel(reference, force=True)
                raise ProcessError("stopped.") if self._is_stopped.is_set() else TimeoutError
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            raise  # an error of the function itself
        except self.ray.exceptions.RayError as error:
            self._count_loss(error)
        self._losses = 0
        return answer

    def stop(self) -> None:
        """Cancel all pending Ray tasks."""
        self._is_stopped.set()

    def _count_loss(self, error: Exception) -> None:
        """Record a lost Ray task and raise ConfigError, or ProcessError after several in a row."""
        self._losses += 1
        reason = str(error).strip().splitlines()[0]
        if self._losses < MAX_LOSSES:
            raise ConfigError(f"the Ray worker was lost: {reason}") from error
        raise ProcessError(
            f"{MAX_LOSSES} tasks in a row lost their Ray workers: {reason}. What is finished is "
            "kept: repeat the command when the cluster is up, or on larger nodes."
        ) from error


@contextmanager
def ray_tasks(
    function: Callable[..., Any], address: str | None, cores: int | None
) -> Iterator[RayTasks]:
    """Connect to a Ray cluster (or start one locally) to run a function as tasks."""
    ray = import_ray(address)
    connect(ray, address, cores)
    try:
        yield RayTasks(ray, function)
    finally:
        ray.shutdown()
