"""Sections of config.json and metrics.json with wrong JSON types end in a ModelError."""

import json
import shutil
from pathlib import Path

import pytest

from lamatext import Predictor, TextClassifier
from lamatext.errors import ModelError
from lamatext.saved.format import CONFIG, METRICS, checksum
from tests.cli.conftest import Command

ROW = {
    "model": "lamatext", "accuracy": 0.9, "macro_f1": 0.9, "calibration_error": 0.1,
    "bytes": 1000, "texts_per_second": 10.0, "seconds": 1.0,
}  # fmt: skip
EPOCH = {"epoch": 1, "loss": 0.5, "accuracy": 0.9, "seconds": 1.0}
TEST = {"accuracy": 0.9, "macro_f1": 0.9, "calibration_error": 0.1, "texts": 20}

CONFIGS: dict[str, object] = {
    "lamatext": [1],
    "saved": "2026-02-31T00:00:00Z",
    "data": ["a", "list"],
    "data.source": 7,
    "data.test_texts": "many",
    "data.training_texts": True,
    "training": "soon",
    "training.best_epoch": "first",
    "training.validation_accuracy": None,
    "parameters": [1, 2],
    "parameters.embedding": "many",
    "versions": 3,
    "architecture": [],
    "labels": ["a", "\ud800"],
}
WRONG_METRICS: dict[str, dict[str, object]] = {
    "history": {"history": 5},
    "history[0]": {"history": [5]},
    "history[1].loss": {"history": [EPOCH, {**EPOCH, "loss": "low"}]},
    "history[0].epoch": {"history": [{**EPOCH, "epoch": 10**400}]},
    "leaderboard": {"leaderboard": {"a": 1}},
    "leaderboard[0].model": {"leaderboard": [{}]},
    "leaderboard[1].accuracy": {"leaderboard": [ROW, {**ROW, "accuracy": 7}]},
    "leaderboard[0].bytes": {"leaderboard": [{**ROW, "bytes": None}]},
    "examples": {"examples": "a film"},
    "examples[0].label": {"examples": [{"text": "a film"}]},
    "test": {"test": "good"},
    "test.accuracy": {"test": {**TEST, "accuracy": "good"}},
    "test.texts": {"test": {**TEST, "texts": -1}},
    "faithfulness": {"faithfulness": [1]},
    "faithfulness.verdict": {"faithfulness": {"texts": 5}},
}


@pytest.fixture
def copy(place: Path) -> Path:
    return shutil.copytree(place / "model", place / "copy")


def change_config(folder: Path, path: str, value: object) -> None:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    *sections, last = path.split(".")
    section = config
    for name in sections:
        section = section[name]
    section[last] = value
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


def change_metrics(folder: Path, values: dict[str, object]) -> None:
    metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    (folder / METRICS).write_text(json.dumps({**metrics, **values}), encoding="utf-8")
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["files"][METRICS] = checksum(folder / METRICS)
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("path", CONFIGS)
def test_a_config_of_wrong_types_is_refused(path: str, copy: Path, lamatext: Command) -> None:
    change_config(copy, path, CONFIGS[path])

    commands = [("info",), ("evaluate", "reviews.csv"), ("explain", "--text", "a film")]
    commands += [("report", "reviews.csv", "--out", "a.html"), ("predict", "--text", "a film")]
    for command, *more in commands:
        answer = lamatext(command, "copy", *more)
        assert answer.status == 2, command
        assert f"config.json: expected {path}" in answer.err
        assert "\n" not in answer.err.strip()


@pytest.mark.parametrize("path", WRONG_METRICS)
def test_metrics_of_wrong_types_are_refused(path: str, copy: Path, lamatext: Command) -> None:
    change_metrics(copy, WRONG_METRICS[path])

    for command in (("info", "copy"), ("report", "copy", "reviews.csv", "--out", "a.html")):
        answer = lamatext(*command)
        assert answer.status == 2, command
        assert f"metrics.json: expected {path} to be" in answer.err
    with pytest.raises(ModelError, match=r"metrics\.json: expected"):
        TextClassifier.load(copy)
    assert Predictor.load(copy).predict(["a film"]).size == 1  # needs no metrics


def test_complete_metrics_are_accepted(copy: Path, lamatext: Command) -> None:
    verdict = {"texts": 5, "verdict": "faithful"}
    change_metrics(copy, {"history": [EPOCH], "leaderboard": [ROW, ROW], "test": TEST})
    change_metrics(copy, {"faithfulness": verdict})

    answer = lamatext("info", "copy")

    assert answer.status == 0
    assert "accuracy: 90.0 %" in answer.out
