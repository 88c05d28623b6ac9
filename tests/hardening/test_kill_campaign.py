"""Kills at chosen moments: a short version of the kill campaign."""

import time
from pathlib import Path

import pytest

from hardening.command_runs import SMALL_RUN, Workspace, problem_of_folder
from hardening.kill_campaign import (
    KillResult,
    OutputKills,
    TrainingKills,
    phase_of,
    same_output,
    temporary_names,
)
from hardening.kill_points import KillPoint, is_read

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1"
UNTIDY = ("files left", "other files", "already exists")  # known: a kill leaves temporary files


def serious(result: KillResult) -> list[str]:
    return [problem for problem in result.problems if not any(word in problem for word in UNTIDY)]


@pytest.mark.slow
def test_a_killed_and_resumed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    kills = TrainingKills(Workspace(tmp_path, SMALL_RUN), seed=0)

    result = kills.run(1, time.monotonic() + 300)

    assert result.kills == 1
    assert serious(result) == []


@pytest.mark.slow
def test_a_killed_prediction_leaves_no_incomplete_output(tmp_path: Path) -> None:
    kills = OutputKills(Workspace(tmp_path, SMALL_RUN), "predict", FORMAT_1, seed=0)

    result = kills.run(2, time.monotonic() + 300)

    assert result.kills == 2
    assert serious(result) == []


def test_kill_points_count_only_changes_below_their_folder(tmp_path: Path) -> None:
    point = KillPoint(0, tmp_path)

    point("open", (str(tmp_path / "a"), "wb", 0))
    point("open", (str(tmp_path / "a"), "rb", 0))
    point("os.rename", (str(tmp_path / "a"), str(tmp_path / "b"), -1, -1))
    point("os.remove", ("/elsewhere/a", -1))
    point("import", ("os",))

    assert point.operations == ["open /a", "os.rename /a"]


def test_an_open_by_flags_is_a_read_unless_it_writes() -> None:
    import os

    assert is_read("open", ("a", None, os.O_RDONLY))
    assert not is_read("open", ("a", None, os.O_WRONLY | os.O_CREAT))
    assert not is_read("os.remove", ("a", -1))


@pytest.mark.parametrize(
    ("messages", "files", "phase"),
    [
        ("", [], "reading"),
        ("240 texts to train", [], "word vectors"),
        ("texts to train\nepoch 1/3", [], "epochs"),
        ("texts to train\nepoch 1/3", [".checkpoint.safetensors.12"], "checkpoint writing"),
        ("texts to train\nepoch 1/3", [".unfinished"], "final save"),
        ("texts to train\nepoch 1/3", ["metrics.json"], "scoring and baselines"),
    ],
)
def test_the_phase_of_a_kill_shows_in_messages_and_files(
    messages: str, files: list[str], phase: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).touch()

    assert phase_of(tmp_path, messages) == phase
    assert temporary_names(tmp_path) == [name for name in files if name.startswith(".")]


def test_a_folder_with_a_checkpoint_must_be_called_unfinished(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").touch()

    assert problem_of_folder(tmp_path) is None
    assert problem_of_folder(tmp_path / "missing") is None


def test_a_folder_that_loads_with_other_weights_is_a_problem() -> None:
    assert problem_of_folder(FORMAT_1, {}) == "the folder loads with other weights"


def test_an_incomplete_page_is_not_the_same_output(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.html", tmp_path / "part.html"
    whole.write_text("<html>12 s</html>\n")
    part.write_text("<html>1")

    assert same_output(whole, whole)
    assert not same_output(part, whole)
