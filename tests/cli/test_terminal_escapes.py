"""Escape sequences in texts, labels, columns and paths never reach the terminal."""

import csv
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Command
from tests.corpora import TINY, reviews

ESCAPE, BIDI, BELL, C1 = "\x1b[2J", "\u202e", "\x07", "\x9b31m"
LABELS = {"neg": f"n{ESCAPE}eg{BELL}", "pos": f"p{BIDI}os{C1}"}
SMALL = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}".lower())]
COLUMN = f"label{ESCAPE}{BIDI}"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(place: Path) -> str:
    """Return the path of a CSV file whose name, columns, texts and labels hold escape sequences."""
    path = place / f"e{ESCAPE}{BIDI}vil.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", COLUMN))
        for text, label in zip(*reviews(60), strict=True):
            writer.writerow((f"{text} {ESCAPE}", LABELS[label]))
    return path.name


def assert_safe(answer: Answer) -> None:
    for text in (answer.out, answer.err):
        assert not UNSAFE.search(text), UNSAFE.findall(text)


def test_nothing_hostile_reaches_the_terminal(lamatext: Command, hostile: str) -> None:
    out = f"run{ESCAPE}"
    reading = ("--label-column", COLUMN)

    answers = [
        lamatext("train", hostile, "--out", out, *SMALL, *reading, "--baselines", "none"),
        lamatext("info", out),
        lamatext("evaluate", out, hostile, *reading),
        lamatext("predict", out, "--text", f"a {ESCAPE} film", "--proba"),
        lamatext("predict", out, hostile, "--out", f"{ESCAPE}.csv"),
        lamatext("explain", out, "--text", f"a {ESCAPE}{BIDI} film"),
        lamatext("export", out, "--web", f"{ESCAPE}.html"),
    ]

    for answer in answers:
        assert answer.status == 0, answer.err
        assert_safe(answer)
    assert "n␛[2Jeg␇" in answers[3].out
    assert "e␛[2J\ufffdvil.csv" in answers[0].err


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "model", f"no{ESCAPE}\nsuch.csv"),
        ("evaluate", "model", "reviews.csv", "--label-column", COLUMN),
        ("train", "reviews.csv", "--out", "run", "--set", f"{ESCAPE}=1"),
        ("info", f"no{ESCAPE}{C1}model"),
        ("predict", "model", f"--{ESCAPE}"),
    ],
)
def test_error_messages_are_one_line_without_escapes(
    arguments: tuple[str, ...], lamatext: Command
) -> None:
    answer = lamatext(*arguments)

    assert answer.status == 2
    assert answer.err.count("\n") == 1
    assert_safe(answer)


@pytest.mark.filterwarnings("always")
def test_warnings_have_no_escapes(lamatext: Command, place: Path) -> None:
    rows = [json.dumps({"text": "a film"}) + "\n"] * 30_000
    rows.append(json.dumps({"text": "a film", f"k{ESCAPE}": 1}) + "\n")
    (place / "in.jsonl").write_text("".join(rows))

    answer = lamatext("predict", "model", "in.jsonl", "--out", "out.csv", "-q")

    assert "the key 'k␛[2J' does not occur" in answer.err
    assert_safe(answer)


def test_files_and_json_keep_the_labels_as_they_are(lamatext: Command, hostile: str) -> None:
    lamatext("train", hostile, "--out", "run", *SMALL, "--label-column", COLUMN)

    lamatext("predict", "run", hostile, "--out", "out.csv")
    answer = lamatext("predict", "run", "--text", "a film", "--json")

    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        assert {row["label"] for row in csv.DictReader(file)} <= set(LABELS.values())
    assert json.loads(answer.out)["label"] in LABELS.values()
    assert answer.out.isascii()


def test_predictions_printed_to_a_terminal_have_no_escapes(place: Path, hostile: str) -> None:
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "lamatext", "predict", "model", hostile]

    subprocess.run(command, cwd=place, check=True, stdout=terminal)

    os.close(terminal)
    printed = os.read(main, 4096).decode(errors="ignore").replace("\r\n", "\n")
    os.close(main)
    assert "␛[2J" in printed
    assert not UNSAFE.search(printed)
