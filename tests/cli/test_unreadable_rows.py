"""Rows that cannot be read are skipped, counted and listed by every command that reads texts."""

import csv
import json
from pathlib import Path

import pytest

from lamatext.data.read_options import Layout
from tests.cli.conftest import Command

GOOD = "".join(f"{number},a superb film\n" for number in range(199))
SKIPPED = (
    "1 row that cannot be used was skipped: expected 2 fields as in the header, got a different "
    "number"
)


@pytest.fixture
def broken(place: Path) -> Path:
    """Write a table of 200 rows, of which the one in line 3 has a field too many."""
    path = place / "broken.csv"
    path.write_text(f"id,text\n0,a dull film\n7,too,many\n{GOOD}")
    return path


def test_predict_skips_a_row_with_a_wrong_number_of_fields_and_names_its_line(
    lamatext: Command, broken: Path
) -> None:
    answer = lamatext("predict", "model", broken.name, "--out", "p.csv", "--quiet")

    assert answer.status == 0, answer.err
    assert SKIPPED in answer.err
    assert "(line 3). It is not in the result." in answer.err
    with (broken.parent / "p.csv").open(newline="") as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    assert ids == ["0", *map(str, range(199))]


def test_more_bad_rows_than_allowed_stop_predict_and_a_higher_share_continues(
    lamatext: Command, broken: Path
) -> None:
    refused = lamatext("predict", "model", broken.name, "--out", "p.csv", "--max-bad-rows", "0.1%")
    repeated = lamatext("predict", "model", broken.name, "--out", "p.csv", "--max-bad-rows", "0.5%")

    assert refused.status == 2
    assert "1 of 201 rows cannot be used, more than the allowed 0.1 %" in refused.err
    assert "skip them with --max-bad-rows 0.5%" in refused.err
    assert repeated.status == 0, repeated.err


def test_explain_and_drift_skip_such_rows_too(lamatext: Command, broken: Path) -> None:
    explained = lamatext("explain", "model", broken.name, "--out", "reasons.jsonl")
    drift = lamatext("drift", "model", broken.name)

    assert explained.status == drift.status == 0, explained.err + drift.err
    assert SKIPPED in explained.err
    assert SKIPPED in drift.err
    lines = (broken.parent / "reasons.jsonl").read_text().splitlines()
    assert len(lines) == 200
    assert json.loads(lines[0])["text"] == "a dull film"


def test_explain_says_which_column_it_reads_instead_of_the_trained_one(
    lamatext: Command, place: Path
) -> None:
    (place / "new.csv").write_text("nr,message\n1,a superb film\n2,a dull film\n")
    config = json.loads((place / "model" / "config.json").read_text())
    (place / "copy").mkdir()
    for path in (place / "model").iterdir():
        (place / "copy" / path.name).write_bytes(path.read_bytes())
    config["data"]["layout"] = Layout(("Inhalt",), ("Art",)).as_json()
    (place / "copy" / "config.json").write_text(json.dumps(config))

    answer = lamatext("explain", "copy", "new.csv")

    assert answer.status == 0, answer.err
    assert "new.csv: texts from 'message'" in answer.err
    assert "no column 'Inhalt', from which the texts were read in training" in answer.err
