"""``evaluate --target-accuracy`` finds and saves a threshold; ``predict --unsure`` uses it."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from lamatext import Predictor
from lamatext.errors import ModelError
from lamatext.saved.format import load_config
from tests.cli.conftest import Command
from tests.corpora import write_csv

UNSURE = {
    "threshold": 0.9,
    "target_accuracy": 0.95,
    "answered": 0.5,
    "accuracy": 0.96,
    "low": 0.9,
    "high": 0.99,
    "texts": 100,
}


def set_threshold(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["unsure"] = UNSURE | values
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def model(place: Path, saved: Path) -> Path:
    """Return a copy of the saved model, which a test may change."""
    shutil.copytree(saved, place / "own")
    return place / "own"


def test_a_threshold_is_found_printed_and_saved(model: Path, lamatext: Command) -> None:
    write_csv(Path("held-out.csv"), 60, seed=7)

    answer = lamatext("evaluate", str(model), "held-out.csv", "--target-accuracy", "0.9", "--save")

    assert answer.status == 0, answer.err
    assert "Target accuracy 90.0 %: answer if the probability is at least" in answer.out
    assert "95 % interval" in answer.out
    unsure = load_config(model)["unsure"]
    assert unsure["target_accuracy"] == 0.9
    assert unsure["texts"] == 60
    assert unsure["low"] <= unsure["accuracy"] <= unsure["high"]
    assert Predictor.load(model).threshold == unsure["threshold"]
    assert "## When it is unsure" in (model / "README.md").read_text()
    assert "--unsure" in answer.err
    assert f"Saved the threshold in {model}/config.json, and the model card" in answer.err


def test_without_save_the_model_stays_as_it_is(model: Path, lamatext: Command) -> None:
    write_csv(Path("held-out.csv"), 60, seed=7)
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    answer = lamatext(
        "evaluate", str(model), "held-out.csv", "--target-accuracy", "0.9", "--json", "-q"
    )

    threshold = json.loads(answer.out)["threshold"]
    assert threshold["accuracy"] >= 0.9
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


@pytest.mark.parametrize(
    ("target", "message"),
    [("95", r"--target-accuracy (95) must be above 0 and at most 1"), ("0", "must be above 0")],
)
def test_a_target_out_of_range_is_an_error(
    target: str, message: str, model: Path, lamatext: Command
) -> None:
    answer = lamatext("evaluate", str(model), "reviews.csv", "--target-accuracy", target)

    assert answer.status == 2
    assert message in answer.err


def test_a_target_that_no_threshold_reaches_names_the_best(model: Path, lamatext: Command) -> None:
    write_csv(Path("held-out.csv"), 60, seed=7)
    rows = list(csv.reader(Path("held-out.csv").read_text().splitlines()))
    swap = {"pos": "neg", "neg": "pos"}
    with Path("wrong.csv").open("w") as file:
        csv.writer(file).writerows([rows[0], *([text, swap[label]] for text, label in rows[1:])])

    answer = lamatext("evaluate", str(model), "wrong.csv", "--target-accuracy", "0.99")

    assert answer.status == 2
    assert "no threshold reaches an accuracy of 99.0 % on 60 texts" in answer.err
    assert "Choose a lower --target-accuracy" in answer.err


def test_texts_that_the_model_was_trained_on_give_no_threshold(
    model: Path, lamatext: Command
) -> None:
    from lamatext.data.dataset import dataset_fingerprint
    from lamatext.data.sources import load_dataset

    config = json.loads((model / "config.json").read_text())
    fingerprint = dataset_fingerprint(load_dataset("reviews.csv"))
    config["data"]["validation_fingerprint"] = fingerprint
    (model / "config.json").write_text(json.dumps(config))

    answer = lamatext("evaluate", str(model), "reviews.csv", "--target-accuracy", "0.9")

    assert answer.status == 2
    assert "the model was trained on these texts" in answer.err


def test_unsure_replaces_the_label_below_the_threshold(model: Path, lamatext: Command) -> None:
    texts = [row["text"] for row in csv.DictReader(Path("reviews.csv").read_text().splitlines())]
    highest = Predictor.load(model).predict_proba(texts).max(axis=1)
    set_threshold(model, threshold=float(sorted(highest)[20]))

    answer = lamatext("predict", str(model), "reviews.csv", "--unsure", "ask a person")
    plain = lamatext("predict", str(model), "reviews.csv")

    labels = [row["predicted_label"] for row in csv.DictReader(answer.out.splitlines())]
    assert labels.count("ask a person") == 20
    without = [row["predicted_label"] for row in csv.DictReader(plain.out.splitlines())]
    assert set(without) == {"neg", "pos"}
    kept = [label for label in labels if label != "ask a person"]
    sure = Predictor.load(model).predict(texts, unsure="ask a person").tolist()
    assert sure == labels
    assert kept == [label for label, mine in zip(without, labels, strict=True) if mine == label]


def test_unsure_applies_to_texts_of_the_command_line_too(model: Path, lamatext: Command) -> None:
    set_threshold(model, threshold=1.0)

    shown = lamatext("predict", str(model), "--text", "a film", "--unsure", "?")
    as_json = lamatext("predict", str(model), "--text", "a film", "--unsure", "?", "--json")

    assert re.fullmatch(r"\? \d\d\.\d %\n", shown.out)
    assert json.loads(as_json.out)["label"] == "?"
    assert set(json.loads(as_json.out)["probabilities"]) == {"neg", "pos"}


def test_unsure_without_a_threshold_names_the_command_that_finds_one(lamatext: Command) -> None:
    for more in (["--text", "a film"], ["reviews.csv"]):
        answer = lamatext("predict", "model", *more, "--unsure", "?")

        assert answer.status == 2
        assert "lamatext evaluate MODEL DATA --target-accuracy 0.95 --save" in answer.err


@pytest.mark.parametrize("value", [1.5, -0.1, "0.9", None, True])
def test_a_saved_threshold_out_of_range_is_an_error(model: Path, value: object) -> None:
    set_threshold(model, threshold=value)

    with pytest.raises(ModelError, match=r"unsure\.threshold to be a number from 0 to 1"):
        Predictor.load(model)
