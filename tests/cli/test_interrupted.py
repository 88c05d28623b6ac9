"""Training runs in their own processes that are killed or interrupted, then resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.corpora import TINY, write_csv

SETTINGS = TINY | {"training.epochs": 12, "ngrams.enabled": True, "model.name": "lama-encoder"}
SMALL = [
    part
    for key, value in SETTINGS.items()
    if key != "model.hidden_size"  # this model has no GRU
    for part in ("--set", f"{key}={value}".lower())
]

pytestmark = pytest.mark.slow


def command(*more: str) -> list[str]:
    given = ("train", "reviews.csv", "--baselines", "none", *SMALL, *more)
    return [sys.executable, "-m", "lamatext", *given]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_csv(tmp_path / "reviews.csv", 2_200)  # enough to hold out 200 test texts
    return tmp_path


MOMENTS = (None, "epoch 1/", "epoch 2/", "epoch 5/", "epoch 9/", "epoch 12/")


def test_a_run_killed_at_random_moments_ends_with_the_same_weights(place: Path) -> None:
    subprocess.run(command("--out", "whole", "-q"), cwd=place, check=True, capture_output=True)
    draw = random.Random(0)
    for moment in MOMENTS:
        again = ["--resume"] if (place / "killed").is_dir() else []
        run = started(place, "--out", "killed", *again)
        wait_for(run, moment)
        time.sleep(draw.uniform(0, 0.4 if moment else 3))
        run.send_signal(signal.SIGKILL)
        run.communicate()

    subprocess.run(command("--out", "killed", "--resume"), cwd=place, check=True)

    for name in ("model.safetensors", "ngrams.safetensors", "vocab.txt", "model.onnx"):
        assert (place / "killed" / name).read_bytes() == (place / "whole" / name).read_bytes()
    assert not list((place / "killed").glob("*checkpoint*"))
    assert not list((place / "killed").glob(".*"))


def started(place: Path, *more: str) -> subprocess.Popen[str]:
    """Start a run that receives Ctrl-C even if the tests run in the background of a shell."""
    return subprocess.Popen(
        command(*more),
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(run: subprocess.Popen[str], moment: str | None) -> None:
    """Wait until the run prints a line that starts with ``moment``, or has ended."""
    assert run.stderr is not None
    if moment is not None:
        for line in run.stderr:
            if line.strip().startswith(moment):
                return


LONG = ("--set", "training.epochs=30")  # so that the signal comes before the end


def test_the_command_printed_on_ctrl_c_ends_with_the_same_weights(place: Path) -> None:
    whole = command("--out", "whole", "-q", *LONG)
    subprocess.run(whole, cwd=place, check=True, capture_output=True)
    run = started(place, "--out", "run", *LONG)
    wait_for(run, "epoch 2/")
    os.killpg(run.pid, signal.SIGINT)

    _, message = run.communicate(timeout=120)

    assert run.returncode == 130
    assert "Traceback" not in message
    assert "finished epochs are saved in run. Continue with:" in message
    again = message.splitlines()[-1].strip()
    assert again.startswith("lamatext train reviews.csv")
    assert again.endswith("--resume")
    subprocess.run(
        [sys.executable, "-m", *again.split()], cwd=place, check=True, capture_output=True
    )
    ours, theirs = (place / name / "model.safetensors" for name in ("run", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()
