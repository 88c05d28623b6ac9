"""Worker processes that end too early, or end with an error of all processes."""

import os
import signal
from pathlib import Path

import pytest

from lamatext.errors import ModelError, ProcessError
from lamatext.training.loop import fit
from lamatext.training.process_group import current_processes, training_processes
from tests.training.test_process_group import CPU, TRAIN, VALID, network, plan


def train_and_kill_a_worker() -> None:
    with training_processes(2, CPU):
        fit(network(), TRAIN, VALID, plan(epochs=1))
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
        fit(network(), TRAIN, VALID, plan(epochs=50, patience=50))


@pytest.mark.slow
def test_a_killed_process_is_named_and_ends_the_training() -> None:
    named = r"training process 1 of 2 \(pid \d+\) was killed by signal 9 \(SIGKILL\), so all have"

    with pytest.raises(ProcessError, match=named):
        train_and_kill_a_worker()

    assert "RANK" not in os.environ
    assert current_processes().size == 1


@pytest.mark.slow
def test_a_diverging_loss_is_reported_once_and_ends_the_workers() -> None:
    with pytest.raises(ModelError, match="diverged"), training_processes(2, CPU):
        fit(network(), TRAIN, VALID, plan(optimizer="sgd", learning_rate=1e30))
