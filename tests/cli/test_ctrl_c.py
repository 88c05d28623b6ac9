"""Ctrl-C at chosen moments of ``lamatext train``: the message agrees with what was saved."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lamatext.saved.format import CHECKPOINT
from tests.cli.conftest import Answer, Command
from tests.corpora import TINY

SMALL = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}".lower())]
TRAIN = ("train", "reviews.csv", "--out", "run", "--baselines", "none", *SMALL)
NOTHING = "lamatext: interrupted; no epoch was finished, so nothing is saved. Start again with:"
EPOCHS = "lamatext: interrupted; finished epochs are saved in run. Continue with:"
READING, FITTING = "lamatext.pipeline.load_dataset", "lamatext.pipeline.fit_recipe"
SAVING = "lamatext.classifier.TextClassifier.save"


@pytest.fixture
def interrupted(lamatext: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line and press Ctrl-C when it calls a function."""

    def call(where: str, *arguments: str) -> Answer:
        def press(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sys, "argv", ["lamatext", *arguments])
        with monkeypatch.context() as patched:
            patched.setattr(where, press)
            answer = lamatext(*arguments)
        assert answer.status == 130
        return answer

    return call


def message_of(answer: Answer) -> tuple[str, list[str]]:
    """Return the message and the command that it recommends."""
    sentence, command = answer.err.splitlines()[-2:]
    return sentence, shlex.split(command)


def test_while_reading_nothing_is_saved(interrupted: Command, place: Path) -> None:
    answer = interrupted(READING, *TRAIN)

    assert message_of(answer) == (NOTHING, ["lamatext", *TRAIN])
    assert not (place / "run").exists()


def test_after_an_epoch_the_printed_command_continues(
    interrupted: Command, lamatext: Command
) -> None:
    answer = interrupted(SAVING, *TRAIN)

    assert message_of(answer) == (EPOCHS, ["lamatext", *TRAIN, "--resume"])
    assert message_of(interrupted(READING, *TRAIN, "--resume")) == message_of(answer)
    assert lamatext(*TRAIN, "--resume").status == 0


def test_the_checkpoint_of_another_run_is_not_offered(interrupted: Command, place: Path) -> None:
    interrupted(SAVING, *TRAIN)

    answer = interrupted(READING, *TRAIN, "--force")

    assert message_of(answer) == (NOTHING, ["lamatext", *TRAIN, "--force"])
    assert (place / "run" / CHECKPOINT).is_file()


def test_a_run_that_replaces_a_model_is_continued_without_force(interrupted: Command) -> None:
    interrupted(SAVING, *TRAIN)

    answer = interrupted(SAVING, *TRAIN, "--force")

    assert message_of(answer) == (EPOCHS, ["lamatext", *TRAIN, "--resume"])


def test_a_resumed_run_without_an_epoch_starts_again(interrupted: Command, place: Path) -> None:
    (place / "run").mkdir()

    assert message_of(interrupted(FITTING, *TRAIN, "--resume")) == (NOTHING, ["lamatext", *TRAIN])


def test_after_training_the_model_is_saved(interrupted: Command, lamatext: Command) -> None:
    answer = interrupted(
        "lamatext.views.report.report_page.write_report", *TRAIN, "--report", "page.html"
    )

    sentence, again = message_of(answer)
    assert sentence == (
        "lamatext: interrupted; the model is complete and saved in run, but a page was not "
        "written. Write it with:"
    )
    assert again == ["lamatext", *TRAIN, "--report", "page.html", "--resume"]
    assert lamatext("info", "run").status == 0


DROPPED = """
import os, signal, time, weakref
from lamatext.cli import main as program

class Thing: pass

def run(_):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing  # Python ignores what is raised in this callback
    time.sleep(20)
    return 0

program.run = run
program.main()
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that receives Ctrl-C even if the tests run in the background of a shell."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_an_interrupt_that_python_drops_is_heeded() -> None:
    ended = python(DROPPED)

    assert ended.returncode == -signal.SIGINT, ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("option", ["--html", "--report"])
def test_the_resumed_command_writes_the_page_of_a_finished_run(
    option: str, lamatext: Command, place: Path
) -> None:
    assert lamatext(*TRAIN, option, "whole.html").status == 0
    weights = (place / "run" / "model.safetensors").stat()

    answer = lamatext(*TRAIN, option, "page.html", "--resume")

    assert answer.status == 0, answer.err
    assert "the run is already finished; only page.html had to be written." in answer.err
    pages = [(place / name).read_text() for name in ("page.html", "whole.html")]
    page, whole = (re.sub(r"[\d.,]+", "0", page) for page in pages)  # a report has durations
    assert page == whole
    assert (place / "run" / "model.safetensors").stat() == weights


def test_an_interrupt_is_not_repeated_after_the_command_has_ended() -> None:
    heeded = DROPPED.replace("    time.sleep(20)\n", "").replace(
        "program.main()", "try: program.main()\nfinally: time.sleep(2)"
    )

    ended = python(heeded)

    assert ended.returncode == 0, ended.stderr
