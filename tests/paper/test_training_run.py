"""Training runs of the protocol: data, records, and resuming after an interruption."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from paper.confidence_intervals import unpack_bits
from paper.datasets import load_tokenized
from paper.experiments import Options, train_all
from paper.records import Records
from paper.training_run import TEST_SCORES, TrainingRun, encode, train
from tests.paper.tiny_datasets import write_datasets

FEW_EPOCHS = (("training.epochs", 2),)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_tokenized_data_set_is_read_back_unchanged(folder: Path) -> None:
    tokenized = load_tokenized("r8", folder)

    again = load_tokenized("r8", folder)

    assert (again.train_size, again.classes) == (60, ("money-fx", "ship"))
    assert again.tokens.types == tokenized.tokens.types
    assert again.tokens.rows.ids.tolist() == tokenized.tokens.rows.ids.tolist()
    assert again.labels.tolist() == tokenized.labels.tolist()


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_folds_validate_every_training_row_once_and_never_use_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    folds = [encode(TrainingRun("heads", "r8", "avg", 0, fold), data) for fold in range(3)]

    validation = [row for fold in folds for row in fold.split.validation.tolist()]
    assert sorted(validation) == list(range(data.train_size))
    assert all(
        not set(fold.split.train.tolist()) & set(fold.split.validation.tolist()) for fold in folds
    )


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_fold_is_not_scored_on_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    outcome = train(TrainingRun("heads", "r8", "avg", 0, 1, FEW_EPOCHS), data, torch.device("cpu"))

    assert outcome.correct is None
    assert {record.metric for record in outcome.records} == {
        "validation_accuracy",
        "validation_curve",
    }


@pytest.mark.filterwarnings("ignore:.*texts in its.*")
def test_a_run_without_a_fold_is_scored_on_the_test_part(folder: Path) -> None:
    data = load_tokenized("r8", folder)

    outcome = train(
        TrainingRun("accuracy", "r8", "avg", settings=FEW_EPOCHS), data, torch.device("cpu")
    )

    metrics = {record.metric: record.value for record in outcome.records}
    assert set(metrics) == {"validation_accuracy", "validation_curve", *TEST_SCORES}
    assert outcome.correct is not None
    correct = unpack_bits(outcome.correct, len(data.test_rows))
    assert metrics["accuracy"] == correct.mean()


def options(folder: Path, reports: list[str], *, minutes: float = 5) -> Options:
    records = Records(folder / "records")
    return Options(records, folder, "cpu", minutes=minutes, report=reports.append)


@pytest.mark.slow
def test_a_deleted_record_is_computed_again_with_the_same_result(folder: Path) -> None:
    reports: list[str] = []

    def runs(_: Records) -> Iterator[TrainingRun]:
        for model in ("avg", "lama-ctx"):
            yield TrainingRun("accuracy", "r8", model, settings=FEW_EPOCHS)

    train_all(options(folder, reports), runs)
    first = {record.key: record.value for record in Records(folder / "records").of("accuracy")}
    path = folder / "records" / "accuracy.json"
    remaining = [line for line in path.read_text().splitlines() if '"lama-ctx"' not in line]
    path.write_text("\n".join(remaining).replace("},\n]", "}\n]"))
    reports.clear()

    train_all(options(folder, reports), runs)

    assert not [line for line in reports if "avg" in line]  # it still has its records
    again = {record.key: record.value for record in Records(folder / "records").of("accuracy")}
    assert again == first
    assert reports[-1] == "0 jobs remain, 0 failed"


def test_a_call_that_is_out_of_time_reports_what_is_left(folder: Path) -> None:
    reports: list[str] = []

    def runs(_: Records) -> Iterator[TrainingRun]:
        yield TrainingRun("accuracy", "r8", "avg", settings=FEW_EPOCHS)

    train_all(options(folder, reports, minutes=0), runs)

    assert reports == ["1 jobs remain, 0 failed"]
