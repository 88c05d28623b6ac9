import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import SMALL
from tests.corpora import write_csv


@pytest.fixture
def own(place: Path) -> Path:
    """A model that may be written to."""
    return Path(shutil.copytree(place / "model", place / "own"))


def test_the_report_is_written_and_its_verdict_printed(
    lamatext: Command, place: Path, own: Path
) -> None:
    write_csv(place / "held-out.csv", 60, seed=7)

    answer = lamatext("report", own.name, "held-out.csv", "--out", "page.html")

    assert answer.status == 0, answer.err
    assert "For this model, removing the 20 % most attended words" in answer.out
    assert "Written to page.html: open it in a browser." in answer.out
    assert "accuracy " in answer.out
    assert "60 texts" in answer.err
    assert (place / "page.html").read_text().startswith("<!doctype html>")


def test_user_errors_are_reported_in_a_sentence(lamatext: Command, place: Path) -> None:
    (place / "odd.csv").write_text("text,label\nsuperb,unheard\n")

    assert lamatext("report", "nowhere", "reviews.csv", "--out", "p.html").status == 2
    answer = lamatext("report", "model", "odd.csv", "--out", "p.html")
    assert answer.status == 2
    assert ":2 has the label 'unheard', which is not among" in answer.err
    assert not (place / "p.html").exists()


def test_training_can_write_the_report_too(lamatext: Command, place: Path) -> None:
    answer = lamatext(
        *("train", "reviews.csv", "--out", "run", "--report", "run/page.html", *SMALL)
    )

    assert answer.status == 0, answer.err
    page = (place / "run/page.html").read_text()
    assert "6 texts that it was not trained on" in page
    assert "TF-IDF + LR" in page
    assert "explanations faithful?" not in (place / "run/README.md").read_text()


def test_the_held_out_texts_are_found_again(lamatext: Command, place: Path) -> None:
    assert place.is_dir()
    lamatext("train", "reviews.csv", "--out", "run", "--baselines", "none", *SMALL)

    answer = lamatext("evaluate", "run", "reviews.csv", "--json")

    assert json.loads(answer.out)["texts"] == 6
    assert "the 6 texts that were held out when the model was trained" in answer.err


def test_faithfulness_is_measured_and_stored_on_request(lamatext: Command, own: Path) -> None:
    answer = lamatext("evaluate", own.name, "reviews.csv", "--faithfulness")

    assert answer.status == 0, answer.err
    assert "comprehensiveness" in answer.out
    assert "integrated gradients" in answer.out
    assert "For this model, removing" in answer.out
    assert "faithfulness" not in json.loads((own / "metrics.json").read_text())

    told = json.loads(lamatext("evaluate", own.name, "reviews.csv", "--save", "--json").out)
    kept = json.loads((own / "metrics.json").read_text())["faithfulness"]
    assert told["faithfulness"] == kept
    assert lamatext("info", own.name).status == 0
