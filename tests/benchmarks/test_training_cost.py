"""CPU seconds of training next to an earlier commit's."""

from pathlib import Path

import pytest

from benchmarks import training_cost
from benchmarks.__main__ import main
from benchmarks.growth import Cell, Usage
from benchmarks.training_cost import BEFORE, NOW, TFIDF, cost_table
from lamatext.errors import DataError
from paper.records import Record, Records


def test_the_table_shows_medians_over_rounds_and_their_ratios() -> None:
    seconds = {NOW: (90.0, 100.0, 400.0), BEFORE: (500.0, 600.0, 500.0), TFIDF: (25.0, 25.0, 25.0)}
    dataset = str(training_cost.MADE_UP["short"])
    records = [
        Record("training_cost", dataset, system, "cpu_seconds", value, number)
        for system, values in seconds.items()
        for number, value in enumerate(values)
    ]

    (row,) = cost_table(records)[1]

    assert row == (dataset, "100.0", "500.0", "25.0", "0.20", "≤ 0.2", "4.0")


def test_systems_alternate_and_each_process_is_recorded_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def process(command: list[str], *_: object) -> Usage:
        started.append(BEFORE if "--rivals" in command else NOW)
        return Usage(3.0, 2.0, 100.0)

    monkeypatch.setattr(training_cost, "run_process", process)
    monkeypatch.setattr(training_cost, "MADE_UP", {"short": Cell(30)})
    monkeypatch.setattr(training_cost, "TEST_ROWS", 10)
    arguments = ["--cells", "short", "--systems", "now,before", "--rounds", "0,1"]
    arguments += ["--before", str(tmp_path), "--records", str(tmp_path)]

    assert main(["training-cost", *arguments]) == 0

    kernels = [NOW, BEFORE]
    assert started == [*kernels, NOW, BEFORE, BEFORE, NOW]
    records = Records(tmp_path).of("training_cost")
    assert {(r.model, r.seed) for r in records} == {(s, n) for s in kernels for n in (0, 1)}
    assert {r.commit for r in records if r.model == BEFORE} == {training_cost.BEFORE_COMMIT}
    assert {r.commit for r in records if r.model == NOW} != {training_cost.BEFORE_COMMIT}


def test_an_unknown_commit_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="git archive no-such-commit failed"):
        training_cost.extract_commit("no-such-commit", tmp_path)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["training-cost", "--cells", "tiny"], "--cells: unknown 'tiny'. Known: short, short-20k"),
        (["training-cost", "--systems", "svm"], "--systems: unknown 'svm'. Known: now, before"),
        (["growth", "--sweeps", "heads"], "--sweeps: unknown 'heads'. Known: rows, words, classes"),
    ],
)
def test_an_unknown_name_is_reported_before_anything_is_trained(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_tfidf_is_trained_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_cost, "MADE_UP", {"short": Cell(60)})
    files = training_cost.cell_files("short", tmp_path)

    cost = training_cost.measure_training(TFIDF, (files, None, tmp_path, 120))

    assert cost is not None
    assert cost["cpu_seconds"] > 0
