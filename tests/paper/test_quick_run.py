"""``python -m paper`` on tiny data sets: every experiment runs and is shown again."""

from pathlib import Path

import pytest

from paper.__main__ import main as run
from paper.experiments import NOT_MEASURED, all_tables
from paper.records import Record, Records
from paper.training_run import TrainingRun
from tests.paper.tiny_datasets import write_datasets


@pytest.mark.slow
def test_every_experiment_runs_with_quick_and_is_shown_again_without_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    command = ["all", "--quick", "--records", str(tmp_path), "--device", "cpu"]

    assert run(command) == 0
    computed = capsys.readouterr()
    assert run([*command, "--show"]) == 0
    shown = capsys.readouterr()

    assert "not how good a system is" in computed.err
    assert shown.out == computed.out
    assert "| LAMA+ctx |" in computed.out
    lines = computed.out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    first = {cells[0]: cells[1:] for cells in rows if cells}
    assert first["as in the paper"][0] != "–"
    assert first["AVG on r8, random vectors"][0] != "–"
    assert first["r8: ship"][1] != "–"
    for name in ("runtime", "params-vs-accuracy", "word-weights", "heads"):
        assert (tmp_path / "quick" / "figures" / f"{name}.svg").is_file()


@pytest.mark.parametrize("protocol", ["seeds", "folds"])
def test_records_of_other_texts_are_not_continued(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
) -> None:
    write_datasets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    Records(tmp_path).add(
        Record("datasets", "r8", "", metric, 7.0, device="CPU") for metric in ("train", "test")
    )

    assert run(["accuracy", "--records", str(tmp_path), "--protocol", protocol]) == 2

    message = capsys.readouterr().err
    assert "BERT-base is skipped: put config.json" in message
    assert f"but the records in {tmp_path} are of 7 and 7. Record the results" in message


def test_an_unknown_experiment_is_an_error_that_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["accurracy"]) == 2

    assert "Expected one of datasets, complexity, choices, accuracy" in capsys.readouterr().err


def test_a_table_without_records_has_dashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["accuracy", "--show", "--records", str(tmp_path)]) == 0

    assert "| LAMA+ctx | – |" in capsys.readouterr().out


def test_the_page_says_which_tables_are_not_measured(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert all_tables(records)["folds"] == NOT_MEASURED

    fold = TrainingRun("folds", "r8", "avg", 0, 1)
    records.add(fold.record(metric, 0.9) for metric in ("accuracy", "validation_accuracy"))

    assert "| AVG | .900 / .795 |" in all_tables(records)["folds"]
