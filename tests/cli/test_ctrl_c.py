"""Ctrl-C during ``train``, at moments that a test chooses: what is told is what is there."""

import shlex
import sys
from pathlib import Path

import pytest

from lamatext.saved.format import CHECKPOINT
from tests.cli.conftest import Answer, Command
from tests.corpora import TINY

SMALL = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}".lower())]
TRAIN = ("train", "reviews.csv", "--out", "run", "--baselines", "none", *SMALL)
NOTHING = "lamatext: interrupted; no epoch was done, so nothing is kept. Begin again with:"
EPOCHS = "lamatext: interrupted; the epochs done are in run. Go on with:"
READING, FITTING = "lamatext.data.sources.load_dataset", "lamatext.pipeline.fit_recipe"
SAVING = "lamatext.classifier.TextClassifier.save"


@pytest.fixture
def interrupted(lamatext: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line until it comes to a function, where Ctrl-C is pressed."""

    def call(where: str, *given: str) -> Answer:
        def press(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sys, "argv", ["lamatext", *given])
        with monkeypatch.context() as patched:
            patched.setattr(where, press)
            answer = lamatext(*given)
        assert answer.status == 130
        return answer

    return call


def told(answer: Answer) -> tuple[str, list[str]]:
    """The sentence, and the command that it gives."""
    sentence, command = answer.err.splitlines()[-2:]
    return sentence, shlex.split(command)


def test_while_the_data_is_read_nothing_is_kept(interrupted: Command, place: Path) -> None:
    answer = interrupted(READING, *TRAIN)

    assert told(answer) == (NOTHING, ["lamatext", *TRAIN])
    assert not (place / "run").exists()


def test_after_an_epoch_the_command_goes_on(interrupted: Command, lamatext: Command) -> None:
    answer = interrupted(SAVING, *TRAIN)

    assert told(answer) == (EPOCHS, ["lamatext", *TRAIN, "--resume"])
    assert told(interrupted(READING, *TRAIN, "--resume")) == told(answer)
    assert lamatext(*TRAIN, "--resume").status == 0


def test_the_epochs_of_another_run_are_not_those_of_this_one(
    interrupted: Command, place: Path
) -> None:
    interrupted(SAVING, *TRAIN)

    answer = interrupted(READING, *TRAIN, "--seed", "1")

    assert told(answer) == (NOTHING, ["lamatext", *TRAIN, "--seed", "1"])
    assert (place / "run" / CHECKPOINT).is_file()


def test_a_resumed_run_without_an_epoch_begins_again(interrupted: Command, place: Path) -> None:
    (place / "run").mkdir()

    assert told(interrupted(FITTING, *TRAIN, "--resume")) == (NOTHING, ["lamatext", *TRAIN])


def test_after_the_training_the_model_is_there(interrupted: Command, lamatext: Command) -> None:
    answer = interrupted(
        "lamatext.views.report.report_page.write_report", *TRAIN, "--report", "page.html"
    )

    assert "the model is finished and in run; a page asked for beside it is not." in answer.err
    assert lamatext("info", "run").status == 0
