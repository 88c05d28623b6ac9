"""Growth of the training cost over made-up data sets."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import growth
from benchmarks.__main__ import main
from benchmarks.growth import Cell, exponents, growth_rows, run_process, write_made_up
from paper.records import Record, Records


def test_made_up_texts_have_their_size_and_depend_on_the_seed_alone(tmp_path: Path) -> None:
    cell = Cell(120, 7, 3)

    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_made_up(tmp_path / name, cell, seed=seed)

    table, again, other = (pq.read_table(tmp_path / name) for name in "abc")
    assert table.num_rows == 120
    assert {len(text.split()) for text in table["text"].to_pylist()} == {7}
    assert len(set(table["label"].to_pylist())) == 3
    assert table == again
    assert table != other


@pytest.mark.parametrize("sweep", ["rows", "classes"])
def test_exponents_are_the_slopes_of_the_log_log_curves(sweep: str) -> None:
    field = Cell._fields.index(sweep)
    records = [
        Record("growth", str(cell), system, "train_cpu_seconds", 3 * cell[field] ** power)
        for cell in growth.SWEEPS[sweep]
        for system, power in (("lamatext", 1.0), ("tfidf", 1.5))
    ]

    found = exponents(records, sweep, "train_cpu_seconds")

    assert found == pytest.approx({"lamatext": 1.0, "tfidf": 1.5})


def test_cpu_seconds_are_added_up_by_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([2.0, 5.0, 6.0, 16.0, 20.0, 21.0])
    monkeypatch.setattr("benchmarks.growth.time.process_time", lambda: next(clock))
    stages = growth.StageSeconds()

    for name in ("reading a.csv", "word vectors", "epoch 1/2", "epoch 2/2", "fitting the n-grams"):
        stages.stage(name)
    stages.stage("end")

    expected = {"reading": 5.0, "word vectors": 1.0, "network": 14.0, "n-grams": 1.0, "scoring": 0}
    assert stages.seconds == expected


def test_estimates_of_the_time_left_are_compared_with_what_was_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.growth.time.monotonic", lambda: clock[0])
    stages = growth.StageSeconds()

    # Of 200 s: in the first minute, right, 15 s for 5 s, 5 s for 35 s, 0 s for 4 s
    reports = ((50, 999.0), (80, 120.0), (195, 15.0), (165, 5.0), (196, 0.0))
    for clock[0], left in reports:
        stages.time_left(left)
    clock[0] = 200.0

    expected = {"time_left_first": 1.0, "time_left_median": 1.9, "time_left_worst": 4.0}
    assert stages.time_left_errors() == pytest.approx(expected)


def test_the_share_of_each_stage_is_shown_by_size() -> None:
    seconds = (1.0, 1.0, 6.0, 2.0, 0.0)
    records = [
        Record("growth", str(cell), "lamatext", f"{stage}_cpu_seconds", value * cell.rows)
        for cell in (Cell(5_000), Cell(20_000))
        for stage, value in zip(growth.STAGES, seconds, strict=True)
    ]

    rows = growth.stage_rows(records)

    assert [row[0] for row in rows] == [str(Cell(5_000)), str(Cell(20_000))]
    assert {row[1:] for row in rows} == {("10 %", "10 %", "60 %", "20 %", "0 %")}


def test_the_tables_of_the_documentation_show_every_size_limits_and_exponents() -> None:
    records = [
        Record("growth", str(cell), system, metric, value * cell.rows)
        for cell in (Cell(5_000), Cell(20_000))
        for system in ("lamatext", "tfidf")
        for metric, value in zip(growth.METRICS, (0.01, 0.02, 0.1, 0.001), strict=True)
    ]
    stages = dict.fromkeys(growth.STAGES, 2.0)
    records += [
        Record("growth", str(Cell(5_000)), "lamatext", f"{stage}_cpu_seconds", value)
        for stage, value in stages.items()
    ]
    records.append(Record("growth", str(Cell(5_000)), "lamatext", "time_left_worst", 1.3))
    records.append(Record("growth", str(Cell(5_000)), "fasttext", growth.OVER_LIMIT, 1800.0))

    table = growth.growth_table(records).splitlines()

    assert table[2] == "| 5,000 × 20, 4 | 50 | over 30 min | 50 | 500 | – | 500 | 5 | – | 5 |"
    assert table[3].startswith("| 20,000 × 20, 4 | 200 | – | 200 | 2,000 |")
    stages_shown = growth.stage_table(records).splitlines()[2]
    assert stages_shown == "| 5,000 × 20, 4 | 20 % | 20 % | 20 % | 20 % | 20 % | 1.30 |"
    exponents_shown = growth.exponent_table(records).splitlines()
    assert exponents_shown[2] == "| CPU s over rows | 1.00 | – | 1.00 |"
    assert exponents_shown[4] == "| CPU s over words | – | – | – |"


def test_a_process_over_the_limit_is_stopped_and_shown_as_such(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]

    assert run_process(sleep, tmp_path, limit=1) is None
    stopped = Record("growth", str(Cell(9)), "lamatext", growth.OVER_LIMIT, 1.0)
    assert "stopped" in growth_rows([stopped])[0]


def test_the_command_records_every_metric_and_draws_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (Cell(60, 5, 2), Cell(120, 5, 2))
    monkeypatch.setattr(growth, "SWEEPS", dict.fromkeys(("rows", "words", "classes"), sizes))
    monkeypatch.setattr(growth, "TEST_ROWS", 20)
    monkeypatch.setattr(growth, "SYSTEMS", {"tfidf": "TF-IDF (1,2) + LR"})
    arguments = ["growth", "--sweeps", "rows", "--systems", "tfidf", "--records"]

    assert main([*arguments, str(tmp_path / "records")]) == 0

    records = json.loads((tmp_path / "records" / "growth.json").read_text())
    assert {record["metric"] for record in records} == {*growth.METRICS, "accuracy"}
    assert len(records) == len(sizes) * 5
    assert (tmp_path / "figures" / "growth.svg").is_file()
    assert len(growth_rows(Records(tmp_path / "records").of("growth"))) == 2
