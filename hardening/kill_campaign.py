"""The kill campaign: ``kill -9`` at moments spread over a command, then resume and compare.

Half of the kills come at times spread evenly before and after the first checkpoint; the other half
before the file operations of the command, spread evenly, which covers each step of writing a
checkpoint, the cache, the final save and the metrics.
"""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hardening.command_runs import (
    CommandResult,
    Workspace,
    kill,
    model_files,
    names_below,
    problem_of_folder,
    write_reviews,
)
from hardening.kill_points import LOG

CHECKPOINT = "checkpoint.safetensors"
POLL_SECONDS = 0.005
SECOND_KILL_EVERY = 3  # of the kills, one in so many is followed by another during the resume
OLD_MODEL_EVERY = 4  # so often the folder holds an older model at the start


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: seconds after the start or the first checkpoint, or a file operation."""

    seconds: float = 0.0
    after_checkpoint: bool = False
    operation: int = 0  # a file operation from 1; 0 for a time


@dataclass(slots=True)
class KillResult:
    """Counts of a kill campaign and the problems that it found."""

    command: str
    seed: int
    run_seconds: float = 0.0
    kills: int = 0
    after_checkpoint: int = 0
    second_kills: int = 0
    ended_before: int = 0  # the command ended before its kill; not counted as a kill
    by_phase: dict[str, int] = field(default_factory=dict)
    leftovers: int = 0  # kills that left temporary files, until the resume
    problems: list[str] = field(default_factory=list)


class TrainingKills:
    """Kills of ``lamatext train``, each resumed and compared with an uninterrupted run."""

    def __init__(self, workspace: Workspace, seed: int) -> None:
        self.workspace, self.draw = workspace, random.Random(seed)
        self.result = KillResult("train", seed)
        old = workspace.train_arguments("old", "--seed", "1")
        _require(workspace.run(old, cache="old-cache"))  # also compiles the kernels
        self.old_files = model_files(workspace.folder / "old")
        self.whole = self._new_place("whole")
        self.checkpoint_after = self._run_whole()
        self.reference = model_files(self.whole / "run")
        self.operations = len((self.whole / LOG).read_text(encoding="utf-8").splitlines())

    def run(self, count: int, end: float) -> KillResult:
        """Kill training runs until ``count`` kills have hit, or until the time is over."""
        for number, moment in enumerate(self.moments(count)):
            if self.result.kills >= count or time.monotonic() > end:
                break
            self._kill_and_resume(number, moment)
        return self.result

    def moments(self, count: int) -> Iterator[Moment]:
        """Yield the moments of the kills, spread evenly; more than ``count`` as some may miss."""
        timed, operations = _spread((count + 3) // 4), _spread((count + 1) // 2)
        left = self.result.run_seconds - self.checkpoint_after
        while True:
            early = [Moment(part * self.checkpoint_after) for part in timed]
            late = [Moment(part * left, after_checkpoint=True) for part in timed]
            steps = [Moment(operation=1 + int(part * self.operations)) for part in operations]
            order = early + late + steps
            self.draw.shuffle(order)
            yield from order

    def _run_whole(self) -> float:
        """Train without a kill; return the time of the first checkpoint."""
        started = time.monotonic()
        arguments = self.workspace.train_arguments("whole/run")
        module = ("hardening.kill_points", "0", str(self.whole))
        process = self.workspace.start(arguments, module=module, cache="whole/cache")
        checkpoint = self.whole / "run" / CHECKPOINT
        while process.poll() is None and not checkpoint.is_file():
            time.sleep(POLL_SECONDS)
        first = time.monotonic() - started
        _, messages = process.communicate()
        self.result.run_seconds = round(time.monotonic() - started, 1)
        _require(CommandResult(process.returncode, messages, self.result.run_seconds))
        return first

    def _new_place(self, name: str) -> Path:
        place = self.workspace.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def _command(self, place: Path, operation: int, *more: str) -> CommandResult:
        arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
        module = ("hardening.kill_points", str(operation), str(place))
        return self.workspace.run(arguments, module=module, cache=f"{place.name}/cache")

    def _kill_and_resume(self, number: int, moment: Moment) -> None:
        place = self._new_place(f"trial-{number}")
        has_old_model = number % OLD_MODEL_EVERY == OLD_MODEL_EVERY - 1
        if has_old_model:
            shutil.copytree(self.workspace.folder / "old", place / "run")
        allowed = [self.reference, self.old_files] if has_old_model else [self.reference]
        where = f"kill {number} ({moment})"
        replacing = ["--force"] if has_old_model else []
        if not self._kill_once(place, moment, *replacing):
            self.result.ended_before += 1
            shutil.rmtree(place)
            return
        self._check_folder(where, place, allowed)
        if number % SECOND_KILL_EVERY == SECOND_KILL_EVERY - 1:
            again = Moment(operation=1 + self.draw.randrange(max(1, self.operations // 2)))
            if self._kill_once(place, again, *self._continuing(place), is_second=True):
                self.result.second_kills += 1
                self._check_folder(f"second {where}", place, allowed)
        self._resume(where, place)
        shutil.rmtree(place)

    def _kill_once(self, place: Path, moment: Moment, *more: str, is_second: bool = False) -> bool:
        """Start a run and kill it; return whether it was still running."""
        if moment.operation:
            result = self._command(place, moment.operation, *more)
            was_killed, messages = result.status == -9, result.messages
        else:
            arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
            process = self.workspace.start(arguments, cache=f"{place.name}/cache")
            _wait(process, moment, place / "run" / CHECKPOINT)
            was_killed = process.poll() is None
            messages = kill(process)
        if was_killed and not is_second:
            self.result.kills += 1
            self.result.after_checkpoint += "epoch 1/" in messages
            phase = phase_of(place / "run", messages)
            self.result.by_phase[phase] = self.result.by_phase.get(phase, 0) + 1
            self.result.leftovers += bool(temporary_names(place))
        return was_killed

    def _continuing(self, place: Path) -> list[str]:
        """Return the option that continues a killed run; a kill may have left the old model."""
        folder = place / "run"
        if not folder.is_dir():
            return []
        is_untouched = not (folder / CHECKPOINT).is_file() and model_files(folder) == self.old_files
        return ["--force"] if is_untouched else ["--resume"]

    def _check_folder(self, where: str, place: Path, allowed: list[dict[str, bytes]]) -> None:
        problem = problem_of_folder(place / "run", *allowed)
        if problem:
            self.result.problems.append(f"{where}: {problem}")

    def _resume(self, where: str, place: Path) -> None:
        arguments = self.workspace.train_arguments(f"{place.name}/run", *self._continuing(place))
        result = self.workspace.run(arguments, cache=f"{place.name}/cache")
        problem = result.problem(0)
        if problem is None and "the run is finished" in result.messages:
            # An older model and a kill before the first change: the run has to start anew.
            problem = None if model_files(place / "run") == self.reference else "nothing resumed"
        if problem is None and model_files(place / "run") != self.reference:
            problem = "other weights than the uninterrupted run"
        names = names_below(self.whole / "run")
        if problem is None and names_below(place / "run") != names:
            problem = f"other files than the uninterrupted run: {names_below(place / 'run')}"
        if problem is None and temporary_names(place):
            problem = f"files left: {temporary_names(place)}"
        if problem:
            self.result.problems.append(f"{where}: {problem}")


class OutputKills:
    """Kills of ``predict``, ``export`` and ``report``, each repeated and compared."""

    def __init__(self, workspace: Workspace, command: str, model: Path, seed: int) -> None:
        self.workspace, self.command, self.model = workspace, command, model
        self.draw, self.result = random.Random(seed), KillResult(command, seed)
        write_reviews(workspace.folder / "new.csv", workspace.size.texts * 4, seed=1)
        write_reviews(workspace.folder / "test.csv", 200, seed=2)
        self.workspace.run(self._arguments("warm-up"))
        result = self.workspace.run(self._arguments("whole"))
        _require(result)
        self.result.run_seconds = round(result.seconds, 1)
        place = self._new_place("operations")
        workspace.run(self._arguments("operations"), module=self._module(place, 0))
        self.operations = len((place / LOG).read_text(encoding="utf-8").splitlines())

    def run(self, count: int, end: float) -> KillResult:
        """Kill the command until ``count`` kills have hit, or until the time is over."""
        for number in range(3 * count):
            if self.result.kills >= count or time.monotonic() > end:
                break
            if number % 2:
                part = (number // 2 % max(1, count // 2) + 0.5) / max(1, count // 2)
                moment = Moment(part * self.result.run_seconds)
            else:
                moment = Moment(operation=1 + number // 2 % max(1, self.operations))
            self._kill_and_repeat(number, moment)
        return self.result

    def _arguments(self, place: str) -> list[str]:
        (self.workspace.folder / place).mkdir(exist_ok=True)
        model = str(self.model)
        match self.command:
            case "predict":
                return ["predict", model, "new.csv", "--out", f"{place}/out.csv"]
            case "report":
                return ["report", model, "test.csv", "--out", f"{place}/out.html"]
            case _:
                return ["export", model, "--out", f"{place}/out", "--web", f"{place}/out.html"]

    def _module(self, place: Path, operation: int) -> tuple[str, ...]:
        return ("hardening.kill_points", str(operation), str(place))

    def _new_place(self, name: str) -> Path:
        place = self.workspace.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def _kill_and_repeat(self, number: int, moment: Moment) -> None:
        place = self._new_place(f"{self.command}-{number}")
        arguments = self._arguments(place.name)
        module = self._module(place, moment.operation) if moment.operation else ("lamatext",)
        process = self.workspace.start(arguments, module=module)
        if moment.operation:
            process.communicate()
            was_killed = process.returncode == -9
        else:
            _wait(process, moment, place / "none")
            was_killed = process.poll() is None
            kill(process)
        if not was_killed:
            self.result.ended_before += 1
            shutil.rmtree(place)
            return
        self.result.kills += 1
        self.result.leftovers += bool(temporary_names(place))
        self._check(f"kill {number} ({moment})", place, arguments)
        shutil.rmtree(place)

    def _check(self, where: str, place: Path, arguments: list[str]) -> None:
        whole = self.workspace.folder / "whole"
        problem = None
        for path in place.glob("out.*"):  # written atomically: missing or complete
            if not same_output(path, whole / path.name):
                problem = f"{path.name} is incomplete"
        problem = problem or problem_of_folder(place / "out", model_files(whole / "out"))
        repeated = self.workspace.run(arguments)
        problem = problem or repeated.problem(0)
        if problem is None and not all(
            same_output(path, whole / path.name) for path in place.glob("out.*")
        ):
            problem = "another result than the uninterrupted command"
        (place / LOG).unlink(missing_ok=True)
        if problem is None and names_below(place) != names_below(whole):
            problem = f"files left: {sorted({*names_below(place)} - {*names_below(whole)})}"
        if problem:
            self.result.problems.append(f"{where}: {problem}")


def same_output(path: Path, reference: Path) -> bool:
    """Return whether a killed and repeated command wrote the same; a report contains times."""
    content, expected = path.read_bytes(), reference.read_bytes()
    if reference.suffix == ".html":
        return content.rstrip().endswith(b"</html>") and expected.rstrip().endswith(b"</html>")
    return content == expected


def phase_of(folder: Path, messages: str) -> str:
    """Return the phase of training that a kill has hit."""
    if "texts to train" not in messages:
        return "reading"
    if (folder / ".unfinished").exists():
        return "final save"
    if "together" in messages or (folder / "metrics.json").is_file():
        return "scoring and baselines"
    if any(name.startswith(f".{CHECKPOINT}") for name in names_below(folder)):
        return "checkpoint writing"
    return "epochs" if "epoch 1/" in messages else "word vectors"


def temporary_names(place: Path) -> list[str]:
    """Return the hidden files that a kill has left below a folder."""
    return [name for name in names_below(place) if Path(name).name.startswith(".")]


def _spread(count: int) -> list[float]:
    """Return ``count`` fractions spread evenly between 0 and 1."""
    return [(number + 0.5) / count for number in range(count)]


def _wait(process: "subprocess.Popen[str]", moment: Moment, checkpoint: Path) -> None:
    """Wait until the moment of a kill, or until the process has ended."""
    while moment.after_checkpoint and not checkpoint.is_file() and process.poll() is None:
        time.sleep(POLL_SECONDS)
    end = time.monotonic() + moment.seconds
    while time.monotonic() < end and process.poll() is None:
        time.sleep(POLL_SECONDS)


def _require(result: CommandResult) -> None:
    if problem := result.problem(0):
        raise RuntimeError(f"an uninterrupted command failed: {problem}")


def run_kill_campaign(
    workspace: Workspace, count: int, seed: int, seconds: float
) -> list[KillResult]:
    """Run the kill campaign: training first, then ``predict``, ``export`` and ``report``."""
    end = time.monotonic() + seconds
    training = TrainingKills(workspace, seed)
    results = [training.run(count, end)]
    model = workspace.folder / "old"
    for command in ("predict", "export", "report"):
        folder = workspace.folder / command
        place = Workspace(folder, workspace.size)
        results.append(OutputKills(place, command, model, seed).run(max(2, count // 5), end))
    return results
