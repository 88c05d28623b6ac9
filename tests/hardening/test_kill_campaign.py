"""Kills at chosen moments: a short version of the kill campaign."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from hardening.command_runs import (
    DATA,
    SMALL_RUN,
    CommandResult,
    RunSize,
    Workspace,
    problem_of_folder,
)
from hardening.kill_campaign import (
    RUN_SECONDS,
    START,
    KillResult,
    Limits,
    Moment,
    OutputKills,
    Stage,
    TrainingKills,
    fit_run_size,
    same_output,
    stage_of,
    temporary_names,
    training_stages,
)
from hardening.kill_points import KillPoint, is_read

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format-1"


@pytest.mark.slow
def test_a_killed_and_resumed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    kills = TrainingKills(Workspace(tmp_path, SMALL_RUN), seed=0)

    result = kills.run(1, Limits(time.monotonic() + 300))

    assert result.kills == 1
    assert result.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "clean"])
def test_a_killed_command_leaves_no_incomplete_output(command: str, tmp_path: Path) -> None:
    kills = OutputKills(Workspace(tmp_path, SMALL_RUN), command, FORMAT_1, seed=0)

    result = kills.run(2, Limits(time.monotonic() + 300))

    assert result.kills == 2
    assert result.problems == []


def test_kill_points_count_only_changes_below_their_folder(tmp_path: Path) -> None:
    point = KillPoint(0, tmp_path)

    point("open", (str(tmp_path / "a"), "wb", 0))
    point("open", (str(tmp_path / "a"), "rb", 0))
    point("os.rename", (str(tmp_path / "a"), str(tmp_path / "b"), -1, -1))
    point("os.remove", ("/elsewhere/a", -1))
    point("import", ("os",))

    assert [line.split(" ", 1)[1] for line in point.operations] == ["open /a", "os.rename /a"]


def test_an_open_by_flags_is_a_read_unless_it_writes() -> None:
    import os

    assert is_read("open", ("a", None, os.O_RDONLY))
    assert not is_read("open", ("a", None, os.O_WRONLY | os.O_CREAT))
    assert not is_read("os.remove", ("a", -1))


@pytest.mark.parametrize(
    ("messages", "files", "stage"),
    [
        ("", [], "reading"),
        ("", ["cache/tokens-1.safetensors"], "word vectors"),
        ("epoch 1/3", ["run/checkpoint.safetensors"], "epochs"),
        ("epoch 1/3", ["run/.checkpoint.safetensors.12"], "checkpoint writing"),
        ("epoch 1/3", ["run/.unfinished"], "final save"),
        ("epoch 1/3\nnetwork and n-grams together", ["run/metrics.json"], "scoring and baselines"),
    ],
)
def test_the_stage_of_a_kill_shows_in_messages_and_files(
    messages: str, files: list[str], stage: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()

    assert stage_of(tmp_path, messages) == stage
    assert temporary_names(tmp_path) == [name for name in files if "/." in name]


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


def test_moments_are_spread_evenly_over_the_time_and_the_operations_of_a_stage() -> None:
    both = Stage("reading", START, 2.0, 6.0, (3, 4, 5))
    writes = Stage("final save", operations=(7, 8, 9, 10))

    assert both.moments(4) == [Moment(3.0), Moment(5.0), Moment(operation=3), Moment(operation=5)]
    assert [moment.operation for moment in writes.moments(4)] == [7, 8, 9, 10]


def test_the_stages_of_a_run_follow_from_its_file_operations() -> None:
    checkpoint = "/run/.checkpoint.safetensors.0bbfd16a-7.lamatext"
    log = [
        "0.5 os.remove /run/.checkpoint.safetensors.teacher",
        *("1.0 os.mkdir /run", "2.0 open /cache/.tokens-1", "2.5 os.rename /cache/.tokens-1"),
        *("3.0 open /cache/.word2vec-1", f"4.0 open {checkpoint}", f"4.2 os.rename {checkpoint}"),
        *("9.0 os.mkdir /run/.unfinished", "9.5 os.rename /run/.unfinished/config.json"),
        "9.6 open /run/.metrics.json",
    ]

    stages = {stage.name: stage for stage in training_stages(log, 12.0)}

    assert stages["reading"].operations == (1, 2, 3, 4)
    assert (stages["word vectors"].end, stages["word vectors"].operations) == (1.5, (5,))
    assert stages["epochs"].end == 5.0
    assert stages["checkpoint writing"].operations == (7,)
    assert stages["checkpoint writing"].writes == (6,)
    assert stages["checkpoint writing"].writing == pytest.approx(0.2)
    assert stages["final save"].operations == (8, 9)
    assert stages["scoring and baselines"].end == 2.5
    assert stages["scoring and baselines"].operations == (10,)


def test_a_stage_of_writing_is_killed_on_the_way() -> None:
    stage = Stage("checkpoint writing", operations=(7, 10), writes=(6, 9), writing=0.2)

    points = [moment.kill_point for moment in stage.moments(6)]

    assert points == ["7", "7", "10", "10", "6+0.0500", "9+0.1500"]


def test_the_next_kill_aims_at_the_stage_with_the_fewest_kills() -> None:
    kills = object.__new__(TrainingKills)
    kills.lock, kills.seed, kills.result = threading.Lock(), 0, KillResult("train", 0)
    kills.stages = [Stage("reading", end=1.0), Stage("epochs", end=1.0)]
    kills.aims = Counter()
    kills.result.by_stage = {"reading": 3, "epochs": 1}
    moments = kills.moments(12, earlier={"reading": 2, "epochs": 1})

    aims = [next(moments).stage for _ in range(4)]

    assert aims == ["epochs", "epochs", "epochs", "reading"]


@pytest.mark.parametrize(("start", "per_text"), [(1.0, 0.0004), (6.0, 0.003), (9.0, 0.02)])
def test_the_size_of_a_run_is_fitted_to_the_machine(
    start: float, per_text: float, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, RunSize())

    def train() -> CommandResult:
        return CommandResult(0, "", start + per_text * workspace.size.texts)

    result = fit_run_size(workspace, train, RUN_SECONDS)

    assert 10 < result.seconds < 20
    assert train() == result  # with the size of that run
    lines = (tmp_path / DATA).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + workspace.size.texts


def test_no_run_is_killed_that_cannot_have_the_right_length(tmp_path: Path) -> None:
    def train() -> CommandResult:
        return CommandResult(0, "", 60.0)

    with pytest.raises(RuntimeError, match=r"takes 60\.0 s with 200 texts, expected 11 to 18 s"):
        fit_run_size(Workspace(tmp_path, RunSize()), train, RUN_SECONDS)


def test_a_run_is_timed_next_to_as_many_others_as_there_are_kills_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3)

    def pretend(_: TrainingKills, place: Path, moment: Moment) -> CommandResult:
        together.wait(timeout=10)
        return CommandResult(0, "", 1.0 if place.name == "whole" else 2.0, moment.operation)

    monkeypatch.setattr(TrainingKills, "_command", pretend)
    kills = object.__new__(TrainingKills)
    kills.workspace, kills.result = Workspace(tmp_path, SMALL_RUN), KillResult("train", 0, jobs=3)

    assert kills._train_whole().seconds == 1.0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["whole"]
