"""Ray tasks with deadlines: answers, errors of the function, lost workers, stopping."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from lamatext.errors import ConfigError, ProcessError
from lamatext.runtime.ray_tasks import RayTasks


class LostWorkerError(Exception):
    """Stands for the errors of Ray itself."""


class FunctionError(LostWorkerError):
    """Stands for an error that the function has raised; Ray derives it from its own, too."""


class FakeRay:
    """Ray without processes: a task answers with ``answer``, raises it, or never ends (None)."""

    exceptions = SimpleNamespace(RayError=LostWorkerError, RayTaskError=FunctionError)

    def __init__(self, answer: Any) -> None:
        self.answer, self.cancelled = answer, 0

    def remote(self, **_: Any) -> Any:
        return lambda function: SimpleNamespace(remote=lambda *arguments: (function, arguments))

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        time.sleep(min(timeout, 0.01))
        return ([], references) if self.answer is None else (references, [])

    def get(self, _: Any) -> Any:
        if isinstance(self.answer, LostWorkerError):
            raise self.answer
        return self.answer

    def cancel(self, _: Any, *, force: bool) -> None:
        self.cancelled += force


def call(tasks: RayTasks, *, seconds: float = 60.0) -> Any:
    return tasks.call(1, 2, deadline=time.monotonic() + seconds)


def test_the_answer_of_a_task_is_returned_and_its_error_raised() -> None:
    assert call(RayTasks(FakeRay("done"), print)) == "done"
    with pytest.raises(FunctionError, match="division"):
        call(RayTasks(FakeRay(FunctionError("division")), print))


def test_five_lost_workers_in_a_row_are_a_process_error() -> None:
    ray = FakeRay(LostWorkerError("node died"))
    tasks = RayTasks(ray, print)

    for answer in (ray.answer, "done", *[ray.answer] * 4):
        ray.answer = answer
        if answer == "done":
            assert call(tasks) == "done"  # the count starts again
            continue
        with pytest.raises(ConfigError, match="the Ray worker was lost: node died"):
            call(tasks)
    with pytest.raises(ProcessError, match="5 tasks in a row lost their Ray workers: node died"):
        call(tasks)


def test_a_task_that_does_not_end_is_cancelled() -> None:
    ray = FakeRay(None)
    tasks = RayTasks(ray, print)

    with pytest.raises(TimeoutError):
        call(tasks, seconds=-1)
    tasks.stop()
    with pytest.raises(ProcessError):
        call(tasks)
    assert ray.cancelled == 2
