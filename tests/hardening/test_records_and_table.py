"""Records of the campaigns, the generated tables and the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hardening.__main__ import COUNTS, main
from hardening.campaign_records import add_records, read_records
from hardening.disk_campaign import DiskResult
from hardening.fuzz_driver import FuzzResult, active_sanitizers
from hardening.kill_campaign import KillResult
from hardening.results_table import NO_RECORDS, PAGE, fill_tables, fuzzing_table
from hardening.server_attacks import AttackResult


def test_a_record_of_the_same_target_and_seed_is_replaced(tmp_path: Path) -> None:
    add_records("readers", [FuzzResult("csv", "mutation", 0, inputs=1)], tmp_path)
    add_records("readers", [FuzzResult("csv", "mutation", 1, inputs=2)], tmp_path)
    add_records("readers", [FuzzResult("csv", "mutation", 0, inputs=3)], tmp_path)

    records = read_records("readers", tmp_path)

    assert [(record["seed"], record["inputs"]) for record in records] == [(0, 3), (1, 2)]
    assert all(record["device"] and record["versions"]["python"] for record in records)
    assert "commit" in records[0]


def test_the_tables_show_all_campaigns(tmp_path: Path) -> None:
    add_records("readers", [FuzzResult("csv", "mutation", 0, 50_000, 9, 1, 2)], tmp_path)
    add_records(
        "kills",
        [KillResult("train", 0, 32.5, 12.5, 200, 150, 66, by_stage={"epochs": 9})],
        tmp_path,
    )
    add_records("disk", [DiskResult("full disk", 0, 10, 9)], tmp_path)
    once = AttackResult("slow headers", 0, 20.0, 1, 400, 1, 9.0, 8.0)
    add_records("server", [once, replace(once, seed=1, rounds=5)], tmp_path)

    page = fill_tables(PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "| `readers` | `csv` | mutation | 50,000 | 9 | 1 | 2 | 0 |" in page
    assert "| `lamatext train` | 32.5 s | 12.5 s | 200 | 150 | 66 | 0 | 0 |" in page
    assert "Kills by the stage of training (seed 0): epochs 9." in page
    assert "| full disk | 10 | 9 | 0 | 0 |" in page
    assert "| slow headers | 20 s | 400 | 1 | 9.0 ms | 8.0 ms | 0 MB | 0 | 0 |" in page
    assert "| slow headers | 5 × 20 s | 400 | 1 | 9.0 ms | 8.0 ms | 0 MB | 0 | 1 |" in page
    assert NO_RECORDS not in page


def test_a_run_under_sanitizers_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libasan.so /usr/lib/libubsan.so")
    sanitizers = active_sanitizers()
    plain, checked = (FuzzResult("csv", "mutation", 0, sanitizers=s) for s in ("", sanitizers))
    add_records("folders", [plain, checked], tmp_path)

    table = fuzzing_table(tmp_path)

    assert sanitizers == "address,undefined"
    assert "| `csv` | mutation | 0" in table
    assert "| `csv` | mutation, sanitizers | 0" in table


def test_a_campaign_that_was_not_run_has_no_table(tmp_path: Path) -> None:
    assert fuzzing_table(tmp_path) == NO_RECORDS


def test_the_tables_of_the_page_are_current() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert fill_tables(page) == page, "Outdated tables. Run: python -m hardening table"


def test_the_page_names_every_campaign() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert all(f"| `{name}` |" in page for name in COUNTS)


def test_an_unknown_campaign_is_a_named_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["floods"]) == 2
    assert "unknown campaign 'floods'. Known: readers" in capsys.readouterr().err


def test_an_unknown_attack_is_a_named_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["server", "--only", "TLS: flood"]) == 2
    assert "unknown attack 'TLS: flood'. Known: slow headers" in capsys.readouterr().err


def test_the_command_runs_a_campaign_and_writes_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--only", "fasttext", "--count", "50", "--engine", "mutation"]

    status = main(["readers", *options, "--out", str(tmp_path)])

    assert status == 0
    assert "fasttext: 50 inputs" in capsys.readouterr().out
    assert json.loads((tmp_path / "readers.json").read_text())[0]["inputs"] == 50


def test_one_case_can_be_repeated_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.bin").write_bytes(b"text,label\na,b\n")

    assert main(["readers", "--only", "csv", "--case", "0"]) == 0
    assert main(["readers", "--only", "csv", "--input", str(tmp_path / "a.bin")]) == 0
    assert capsys.readouterr().out == "accepted\naccepted\n"
    assert main(["readers", "--case", "0"]) == 2


def test_a_record_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    problem = 'File "/home/me/lib/pathlib.py", line 3: /tmp/x1/run/a.json, two/run/.unfinished, 3/4'

    add_records("disk", [DiskResult("quota", 0, problems=[problem])], tmp_path)

    [record] = read_records("disk", tmp_path)
    shortened = 'File "pathlib.py", line 3: a.json, two/run/.unfinished, 3/4'
    assert record["problems"] == [shortened]
