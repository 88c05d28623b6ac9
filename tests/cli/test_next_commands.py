"""Every command that is printed under "Next:" works when it is pasted into a shell."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Command
from tests.cli.test_commands import SMALL
from tests.training.test_cross_fitting import fruit

ODD_COLUMNS = ("--text-column", "my text", "--label-column", "Urteil (1-5)")
TRAIN = ("train", "my reviews.csv", "--out", "my runs/new", "--baselines", "none", *SMALL)


def next_commands(answer: Answer) -> list[list[str]]:
    assert answer.status == 0, answer.err
    _, _, after = answer.err.partition("Next:\n")
    return [shlex.split(line) for line in after.splitlines()]


@pytest.fixture
def odd_names(place: Path, saved: Path) -> None:
    """A file and a model whose names need quoting, and columns that are not found by name."""
    content = (place / "reviews.csv").read_text().replace("text,label", "my text,Urteil (1-5)", 1)
    (place / "my reviews.csv").write_text(content)
    shutil.copytree(saved, place / "my model")


@pytest.mark.usefixtures("odd_names")
@pytest.mark.parametrize(
    "command",
    [
        (*TRAIN, *ODD_COLUMNS),
        ("evaluate", "my model", "my reviews.csv", *ODD_COLUMNS),
        ("predict", "my model", "my reviews.csv", "--text-column", "my text", "--out", "o.csv"),
        ("explain", "my model", "--text", "it's a superb film"),
        ("report", "my model", "my reviews.csv", "--out", "p.html", *ODD_COLUMNS),
        ("export", "my model", "--out", "my copy", "--web", "page.html"),
        ("info", "my model"),
        ("drift", "my model", "my reviews.csv", "--text-column", "my text"),
    ],
    ids=lambda command: command[0],
)
def test_the_next_commands_work_when_pasted(command: tuple[str, ...], lamatext: Command) -> None:
    commands = next_commands(lamatext(*command))

    assert commands
    for program, *arguments in commands:
        assert program == "lamatext"
        answer = lamatext(*arguments)
        assert answer.status == 0, answer.err


@pytest.mark.parametrize("command", ["train", "clean"])
def test_labels_in_two_spellings_come_first_in_the_next_commands(
    command: str, lamatext: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (place / "reviews.csv").read_text().splitlines()
    content[1::3] = [row.replace(",pos", ",POS ").replace(",neg", ",NEG ") for row in content[1::3]]
    (place / "reviews.csv").write_text("\n".join(content))
    out = ("--out", "suspects.csv") if command == "clean" else ("--out", "run", *SMALL)
    arguments = [command, "reviews.csv", *out]
    monkeypatch.setattr(sys, "argv", ["lamatext", *arguments])

    first, *_ = next_commands(lamatext(*arguments))

    assert first == ["lamatext", *arguments, "--force", "--merge-labels"]
    again = lamatext(*first[1:])
    assert again.status == 0
    assert "differ only in case" not in again.err


def test_after_reading_stdin_no_command_reads_it_again(lamatext: Command, place: Path) -> None:
    content = (place / "reviews.csv").read_bytes()

    trained = lamatext("train", "-", "--format", "csv", "--out", "run", *SMALL, stdin=content)
    scored = lamatext("evaluate", "run", "-", "--format", "csv", stdin=content)

    for answer in (trained, scored):
        assert all("-" not in command for command in next_commands(answer))


def test_the_data_command_suggests_a_data_set_that_is_available(lamatext: Command) -> None:
    answer = lamatext("data")

    for command in next_commands(answer):
        name = command[2]
        (row,) = [line for line in answer.out.splitlines() if line.startswith(f"{name} ")]
        assert "not found" not in row


@pytest.mark.parametrize("columns", [(), ("--group-column", "buyer", "--time-column", "day")])
def test_after_training_on_wrong_labels_the_command_that_lists_them_works(
    columns: tuple[str, ...], lamatext: Command, place: Path
) -> None:
    texts, labels = fruit(300, wrong=0.3)
    rows = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    rows = [f"{row},{number},2024-01-{number % 28 + 1:02}" for number, row in enumerate(rows)]
    (place / "fruit.csv").write_text("\n".join(["text,label,buyer,day", *rows]))

    trained = lamatext(
        "train", "fruit.csv", "--out", "run", "--baselines", "none", "--test", "fruit.csv",
        *SMALL, "--set", "ngrams.enabled=true", *columns,
    )  # fmt: skip

    assert "of the labels look wrong" in trained.err
    (clean,) = [command for command in next_commands(trained) if command[1] == "clean"]
    assert lamatext(*clean[1:]).status == 0
