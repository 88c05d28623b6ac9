"""Commands that need only the core dependencies; ``make test-floors`` runs them at the floors."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from tests.serve.saved import save, validation_facts

ROOT = Path(__file__).parents[1]
FIXTURES = Path(__file__).parent / "fixtures"
MODEL = str(FIXTURES / "format-1")

COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "help": (("--help",), "small, fast, explainable"),
    "version": (("--version",), "lamatext "),
    "help of a command": (("predict", "--help"), "--text"),
    "data": (("data",), "rotten-tomatoes"),
    "info": (("info", MODEL), "onnxruntime"),
    "predict": (("predict", MODEL, "--text", "a superb film"), "pos 86.9 %"),
    "predict a table": (("predict", MODEL, "reviews.csv", "--out", "out.csv"), ""),
    "explain": (("explain", MODEL, "--text", "a superb film"), "Words for (+) and against (−) pos"),
    "explain as a page": (
        ("explain", MODEL, "--text", "a superb film", "--html", "page.html"),
        "",
    ),
    "evaluate": (("evaluate", MODEL, "reviews.csv"), "accuracy 100.0 %"),
    "drift": (("drift", "with-statistics", "reviews.csv"), ""),
    "export as one ONNX file": (("export", MODEL, "--onnx", "model.onnx"), ""),
    "report": (("report", MODEL, "reviews.csv", "--out", "report.html"), ""),
    "export for the web": (("export", MODEL, "--web", "web.html"), ""),
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lamatext", *arguments]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reviews.csv").write_text("text,label\na superb film,pos\na dull film,neg\n")
    save(tmp_path / "with-statistics", facts=validation_facts(0.5))
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_runs_with_the_core_dependencies(name: str, folder: Path) -> None:
    arguments, expected = COMMANDS[name]

    done = run(folder, *arguments)

    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict",), "Missing argument"),
        (("predict", MODEL, "--colour", "red"), "No such option: --colour"),
        (("predict", "nowhere", "--text", "x"), "nowhere: no such folder"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_status_2(
    arguments: tuple[str, ...], message: str, folder: Path
) -> None:
    done = run(folder, *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_predictions_equal_the_recorded_ones() -> None:
    expected = json.loads((FIXTURES / "expected-format-1.json").read_text(encoding="utf-8"))

    probabilities = Predictor.load(MODEL).predict_proba(expected["texts"])

    np.testing.assert_allclose(probabilities, expected["probabilities"], atol=1e-5)


def test_the_lowest_versions_are_those_that_pyproject_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.partition("  #")[0] for line in lines if not line.startswith("#")]

    floors = [re.sub(r">=([\w.]+)(,<[\w.]+)?", r"==\1", requirement) for requirement in declared]
    assert sorted(pins) == sorted(floors)
