"""Fixtures of the command-line tests: a folder with a CSV of reviews and a saved model."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lamatext import TextClassifier
from lamatext.cli.main import run
from lamatext.data.sources import load_dataset
from lamatext.pipeline import score_saved_model
from tests.corpora import TINY, reviews, write_csv


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a small trained model with test scores."""
    folder = tmp_path_factory.mktemp("cli")
    plain = {
        "model.embedding_dropout": 0.0,
        "training.learning_rate": 0.02,
    }
    settings = (
        TINY | plain | {"training.epochs": 12, "ngrams.enabled": True, "model.classifier_width": 0}
    )
    classifier = TextClassifier(settings=settings, device="cpu").fit(*reviews(80))
    model = classifier.save(folder / "model")
    scores, _ = score_saved_model(
        model, load_dataset(str(write_csv(folder / "test.csv", 20, seed=4)))
    )
    return classifier.save(model, metrics={"test": scores.as_dict()}, data={"source": "made up"})


@pytest.fixture(autouse=True)
def _test_sets_may_be_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold out a test set of few texts instead of training a model per fold."""
    monkeypatch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 1)


@pytest.fixture
def place(tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with reviews.csv and a link to the model."""
    (tmp_path / "model").symlink_to(saved)
    write_csv(tmp_path / "reviews.csv", 60)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def lamatext(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run a command line in ``place`` and return its status, stdout and stderr."""
    assert place.is_dir()

    def call(*arguments: str, stdin: str | bytes = b"") -> Answer:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        capsys.readouterr()
        status = run(list(arguments))
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return call
