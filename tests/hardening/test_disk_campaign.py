"""Disk faults: a short version of the disk campaign."""

import os
from pathlib import Path

import pytest

from hardening.clock_jumps import jumping_clock
from hardening.command_runs import SMALL_RUN, CommandResult, Workspace
from hardening.disk_campaign import SCENARIOS, UnavailableError, read_only_folder, run_disk_campaign

SHORT = ("read-only folder", "two predictions, one file")


@pytest.mark.slow
def test_disk_faults_end_in_one_line_and_leave_nothing_wrong(tmp_path: Path) -> None:
    results = run_disk_campaign(Workspace(tmp_path, SMALL_RUN), 1, 0, 300, SHORT)

    assert [result.scenario for result in results] == list(SHORT)
    assert [problem for result in results for problem in result.problems] == []
    assert all(result.effective or result.skipped for result in results)


def test_every_scenario_says_what_it_does() -> None:
    assert all(scenario.__doc__ for scenario in SCENARIOS.values())


def test_a_read_only_folder_cannot_be_written(tmp_path: Path) -> None:
    try:
        with read_only_folder(tmp_path), pytest.raises(OSError, match=r"[Rr]ead-only|denied"):
            (tmp_path / "a").touch()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    (tmp_path / "a").touch()


def test_the_clock_jumps_back_and_forth() -> None:
    clock = jumping_clock(lambda: 1e6)

    assert [next(iter([clock()])) for _ in range(3)] == [1e6, 1e6 + 86_400, 1e6 - 86_400]


def test_a_traceback_is_a_problem_whatever_the_status() -> None:
    assert CommandResult(2, "lamatext: disk full", 1.0).problem(0, 2) is None
    assert "exit status 1" in str(CommandResult(1, "x", 1.0).problem(0, 2))
    trace = "Traceback (most recent call last):\nKeyError: 1"
    assert CommandResult(0, trace, 1.0).problem(0) == "traceback: KeyError: 1"


def test_a_command_in_a_workspace_reports_status_and_messages(tmp_path: Path) -> None:
    result = Workspace(tmp_path, SMALL_RUN).run(["predict", "missing", "--text", "a"])

    assert result.problem(2) is None
    assert "no such folder" in result.messages
    assert os.listdir(tmp_path) == ["reviews.csv"]  # noqa: PTH208 - names only
