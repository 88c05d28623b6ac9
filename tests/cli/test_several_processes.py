"""``lamatext train`` on several processes: the same model, a killed process, resuming, errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.corpora import TINY, write_csv

SETTINGS = TINY | {
    "training.epochs": 12,
    "training.patience": 12,
    "training.batch_size": 30,
    "training.learning_rate": 0.0003,  # with a larger one rounding grows to 1e-4
    "model.dropout": 0,
    "model.embedding_dropout": 0,
    "model.name": "lama-encoder",
}
SMALL = [
    part
    for key, value in SETTINGS.items()
    if key != "model.hidden_size"
    for part in ("--set", f"{key}={value}".lower())
]


def command(*more: str, launcher: tuple[str, ...] = ()) -> list[str]:
    given = ("train", "reviews.csv", "--baselines", "none", "--device", "cpu", *SMALL, *more)
    return [sys.executable, *launcher, "-m", "lamatext", *given]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_csv(tmp_path / "reviews.csv", 2_200)  # enough to hold out 200 test texts
    return tmp_path


def losses(folder: Path) -> list[float]:
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return [epoch["loss"] for epoch in metrics["history"]]


@pytest.mark.slow
def test_a_killed_process_ends_the_run_and_another_number_of_processes_resumes_it(
    folder: Path,
) -> None:
    subprocess.run(command("--out", "whole", "-q"), cwd=folder, check=True, capture_output=True)
    run = started(folder, "--devices", "3")
    killed = workers_of(run.pid)[0]
    os.kill(killed, signal.SIGKILL)

    _, message = run.communicate(timeout=120)

    assert run.returncode == 1
    assert "Traceback" not in message
    assert f"(pid {killed}) was killed by signal 9 (SIGKILL), so all have stopped." in message
    assert "Finished epochs are saved in run. Continue with:" in message
    assert message.splitlines()[-1].endswith("--resume")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    again = command("--out", "run", "--resume", "-q", launcher=torchrun)
    subprocess.run(again, cwd=folder, check=True, capture_output=True)
    assert losses(folder / "run") == pytest.approx(losses(folder / "whole"), abs=1e-4)
    assert not list((folder / "run").glob("*checkpoint*"))


def started(folder: Path, *more: str) -> "subprocess.Popen[str]":
    """Start a run on several processes and wait until it has finished an epoch."""
    run = subprocess.Popen(
        command("--out", "run", *more),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stderr is not None
    next(line for line in run.stderr if line.strip().startswith("epoch 2/"))
    return run


@pytest.mark.slow
def test_the_others_end_when_process_0_is_killed(folder: Path) -> None:
    run = started(folder, "--devices", "2")
    (worker,) = workers_of(run.pid)
    run.kill()

    _, message = run.communicate(timeout=120)  # until the worker closes stderr, too

    assert f"Process 0 (pid {run.pid}) has ended." in message
    assert not Path(f"/proc/{worker}").exists() or state_of(worker) == "Z"


@pytest.mark.slow
def test_the_others_end_when_process_0_is_killed_while_they_start(folder: Path) -> None:
    run = subprocess.Popen(
        command("--out", "run", "--devices", "2"), cwd=folder, stderr=subprocess.PIPE
    )
    while not workers_of(run.pid):
        time.sleep(0.05)
    run.kill()

    run.communicate(timeout=60)  # until the worker closes stderr, too

    assert run.returncode == -signal.SIGKILL


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def workers_of(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_gpus_that_are_not_there_are_an_error(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)

    answer = lamatext("train", "reviews.csv", "--out", "r", "--devices", "2", "--device", "cuda")

    assert answer.status == 2
    assert "PyTorch finds 0 GPUs on this machine" in answer.err
    assert not Path("r").exists()


def test_devices_without_accelerate_are_an_error(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)

    answer = lamatext("train", "reviews.csv", "--out", "r", "--devices", "2", "--device", "cpu")

    assert answer.status == 2
    assert "Install it with: pip install 'lamatext[multi]'" in answer.err
