"""Every table and figure by its name, small, on made-up sets; and the page of them all."""

from pathlib import Path

import pytest

from paper.__main__ import main as run
from tests.paper.made import write_sets


@pytest.mark.slow
def test_everything_runs_quickly_and_is_shown_again_without_computing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sets(tmp_path / "data")
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "cache"))
    command = ["all", "--quick", "--results", str(tmp_path), "--device", "cpu"]

    assert run(command) == 0
    computed = capsys.readouterr()
    assert run([*command, "--show"]) == 0
    shown = capsys.readouterr()

    assert "not what the systems can do" in computed.err
    assert shown.out == computed.out
    assert "| LAMA+ctx |" in computed.out
    page = (tmp_path / "quick" / "README.md").read_text()
    assert page.startswith("# A quick look")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    first = {cells[0]: cells[1:] for cells in rows if cells}
    assert first["as in the paper"][0] != "–"
    assert first["AVG on r8 from random vectors"][0] != "–"
    assert first["r8: ship"][1] != "–"
    for name in ("runtime", "params-vs-accuracy", "word-weights", "heads"):
        assert (tmp_path / "quick" / "figures" / f"{name}.svg").is_file()


def test_an_unknown_name_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["accurracy"]) == 2

    assert "Known: datasets, complexity, accuracy" in capsys.readouterr().err


def test_a_page_without_records_has_dashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["accuracy", "--show", "--results", str(tmp_path)]) == 0

    assert "| LAMA+ctx | – |" in capsys.readouterr().out
