"""The kill campaign: ``kill -9`` at moments spread over a command, then resume and compare.

The kills are spread evenly over the stages of training: the next one is aimed at the stage that has
been hit least often, by earlier campaigns too. Within a stage the moments are spread over its
duration and over its file operations: every step of writing the cache, a checkpoint, the final save
and the metrics is hit. The size of the run is fitted to the machine and to the number of kills at
the same time, so that an uninterrupted run takes 10 to 20 seconds.
"""

import itertools
import math
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from hardening.command_runs import (
    DATA,
    CommandResult,
    Workspace,
    cpu_seconds_of_children,
    kill,
    model_files,
    names_below,
    problem_of_folder,
    write_reviews,
)
from hardening.kill_points import LOG

CHECKPOINT = "checkpoint.safetensors"
START, TOKENS = "", "cache/tokens-*"  # anchors of a moment
FIRST_CHECKPOINT, SAVED = f"run/{CHECKPOINT}", "run/config.json"
COMMANDS = ("predict", "export", "report", "clean", "compare", "train")
RUN_SECONDS = (11.0, 18.0)  # of the training run that is killed: 10 to 20 with a margin
FEWEST_TEXTS, SIZE_ATTEMPTS = 200, 8  # of a fitted training run
POLL_SECONDS = 0.005
SECOND_KILL_EVERY = 3  # of the kills, one in so many is followed by another during the resume
OLD_MODEL_EVERY = 4  # so often the folder holds an older model at the start


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: seconds after a file is written, or after the start, or a file operation."""

    seconds: float = 0.0  # after the anchor or the operation
    anchor: str = START  # a pattern of the file, relative to the folder of the run and its cache
    operation: int = 0  # a file operation from 1; 0 for a time
    stage: str = ""  # that it is meant for

    @property
    def kill_point(self) -> str:
        """Return the moment as ``hardening.kill_points`` expects it."""
        return f"{self.operation}+{self.seconds:.4f}" if self.seconds else str(self.operation)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of training: its duration after an anchor and its file operations."""

    name: str
    anchor: str = START
    begin: float = 0.0  # seconds after the anchor
    end: float = 0.0
    operations: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()  # operations that are also killed on the way
    writing: float = 0.0  # seconds that each of them takes

    def moments(self, count: int) -> list[Moment]:
        """Return moments spread evenly over the operations and over the duration of the stage."""
        on_the_way = count // 3 if self.writes else 0
        count -= on_the_way
        by_time = 0 if self.end <= self.begin else count - min(count // 2, len(self.operations))
        times = [self.begin + part * (self.end - self.begin) for part in _spread(by_time)]
        places = [int(part * len(self.operations)) for part in _spread(count - by_time)]
        return [
            *(Moment(seconds, self.anchor) for seconds in times),
            *(Moment(operation=self.operations[place]) for place in places),
            *(
                Moment(part * self.writing, operation=self.writes[int(part * len(self.writes))])
                for part in _spread(on_the_way)
            ),
        ]


@dataclass(slots=True)
class KillResult:
    """Counts of a kill campaign and the problems that it found."""

    command: str
    seed: int
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of such a run: its duration on an idle core
    kills: int = 0
    after_checkpoint: int = 0
    second_kills: int = 0
    ended_before: int = 0  # the command ended before its kill; not counted as a kill
    by_stage: dict[str, int] = field(default_factory=dict)
    leftovers: int = 0  # kills that left temporary files, until the resume
    problems: list[str] = field(default_factory=list)
    jobs: int = 1  # training runs at the same time, also while the uninterrupted one was timed
    texts: int = 0  # of a training run


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a kill campaign, and what to do with its result after each kill."""

    end: float  # of the monotonic clock
    jobs: int = 1  # kills at the same time
    save: Callable[[KillResult], object] = lambda _: None
    earlier: Mapping[str, int] = field(default_factory=dict)  # recorded kills of training by stage


class TrainingKills:
    """Kills of ``lamatext train``, each resumed and compared with an uninterrupted run.

    Args:
        workspace: where to train.
        seed: chooses the moments of the kills.
        jobs: how many kills will take place at the same time.
        seconds: how long an uninterrupted run may take, at least and at most; the number of texts
            is changed until it does.
    """

    def __init__(
        self,
        workspace: Workspace,
        seed: int,
        jobs: int = 1,
        seconds: tuple[float, float] = (0.0, math.inf),
    ) -> None:
        self.workspace, self.seed, self.lock = workspace, seed, threading.Lock()
        self.result = KillResult("train", seed, jobs=jobs)
        self.old_files = model_files(train_old_model(workspace))  # also compiles the kernels
        self.whole = workspace.folder / "whole"
        whole = fit_run_size(workspace, self._train_whole, seconds)
        self.result.run_seconds = round(whole.seconds, 1)
        self.result.cpu_seconds = round(whole.cpu_seconds, 1)
        self.result.texts = workspace.size.texts
        self.reference = model_files(self.whole / "run")
        log = (self.whole / LOG).read_text(encoding="utf-8").splitlines()
        self.operations = len(log)
        self.stages = training_stages(log, whole.seconds)
        self.aims = Counter[str]()  # kills on their way to a stage

    def _train_whole(self) -> CommandResult:
        """Train without a kill, next to as many runs as there are during the kills."""
        names = ["whole", *(f"load-{number}" for number in range(1, self.result.jobs))]
        places = [self._new_place(name) for name in names]
        cpu_before = cpu_seconds_of_children()
        with ThreadPoolExecutor(len(places)) as pool:
            results = list(pool.map(lambda place: self._command(place, Moment()), places))
        for result in results:
            _require(result)
        for place in places[1:]:
            shutil.rmtree(place)
        cpu_seconds = (cpu_seconds_of_children() - cpu_before) / len(places)
        return replace(results[0], cpu_seconds=cpu_seconds)

    def run(self, count: int, limits: Limits) -> KillResult:
        """Kill training runs until ``count`` kills have hit, or until the time is over."""
        moments = self.moments(count, limits.earlier)
        _run_until(self.result, self._kill_and_resume, moments, count, limits)
        return self.result

    def moments(self, count: int, earlier: Mapping[str, int]) -> Iterator[Moment]:
        """Yield a moment in the stage with the fewest kills, again and again, as some may miss."""
        share, draw = -(-count // len(self.stages)), random.Random(self.seed)
        waiting: dict[str, list[Moment]] = {stage.name: [] for stage in self.stages}
        while True:
            with self.lock:
                hits = self.aims + Counter(self.result.by_stage) + Counter(earlier)
                stage = min(self.stages, key=lambda stage: hits[stage.name])
                self.aims[stage.name] += 1
            if not waiting[stage.name]:
                waiting[stage.name] = stage.moments(share)
                draw.shuffle(waiting[stage.name])
            yield replace(waiting[stage.name].pop(), stage=stage.name)

    def _new_place(self, name: str) -> Path:
        place = self.workspace.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def _command(self, place: Path, moment: Moment, *more: str) -> CommandResult:
        arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
        module = ("hardening.kill_points", moment.kill_point, str(place))
        return self.workspace.run(arguments, module=module, cache=f"{place.name}/cache")

    def _kill_and_resume(self, number: int, moment: Moment) -> None:
        place = self._new_place(f"trial-{number}")
        has_old_model = number % OLD_MODEL_EVERY == OLD_MODEL_EVERY - 1
        if has_old_model:
            shutil.copytree(self.workspace.folder / "old", place / "run")
        allowed = [self.reference, self.old_files] if has_old_model else [self.reference]
        where = f"kill {number} ({moment})"
        replacing = ["--force"] if has_old_model else []
        was_killed = self._kill_once(place, moment, *replacing)
        with self.lock:
            self.aims[moment.stage] -= 1
            self.result.ended_before += not was_killed
        if not was_killed:
            shutil.rmtree(place)
            return
        self._check_folder(where, place, allowed)
        if number % SECOND_KILL_EVERY == SECOND_KILL_EVERY - 1:
            draw = random.Random(f"{self.seed}/{number}")
            again = Moment(operation=1 + draw.randrange(max(1, self.operations // 2)))
            if self._kill_once(place, again, *self._continuing(place), is_second=True):
                self.result.second_kills += 1
                self._check_folder(f"second {where}", place, allowed)
        self._resume(where, place)
        shutil.rmtree(place)

    def _kill_once(self, place: Path, moment: Moment, *more: str, is_second: bool = False) -> bool:
        """Start a run and kill it; return whether it was still running."""
        if moment.operation:
            result = self._command(place, moment, *more)
            was_killed, messages = result.status == -9, result.messages
        else:
            started = time.time()
            arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
            process = self.workspace.start(arguments, cache=f"{place.name}/cache")
            _wait(process, moment, place, started)
            was_killed = process.poll() is None
            messages = kill(process)
        if was_killed and not is_second:
            self._count(place, messages)
        return was_killed

    def _count(self, place: Path, messages: str) -> None:
        with self.lock:
            self.result.kills += 1
            self.result.after_checkpoint += "epoch 1/" in messages
            stage = stage_of(place, messages)
            self.result.by_stage[stage] = self.result.by_stage.get(stage, 0) + 1
            self.result.leftovers += bool(temporary_names(place))

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
    """Kills of commands that write files, such as ``predict``, each repeated and compared."""

    def __init__(self, workspace: Workspace, command: str, model: Path, seed: int) -> None:
        self.workspace, self.command, self.model = workspace, command, model
        self.result, self.lock = KillResult(command, seed), threading.Lock()
        write_reviews(workspace.folder / "new.csv", workspace.size.texts * 4, seed=1)
        write_reviews(workspace.folder / "test.csv", 200, seed=2)
        write_reviews(workspace.folder / "noisy.csv", 300, seed=3, wrong=0.1)
        self.workspace.run(self._arguments("warm-up"))
        result = self.workspace.run(self._arguments("whole"))
        _require(result)
        self.result.run_seconds = round(result.seconds, 1)
        self.result.cpu_seconds = round(result.cpu_seconds, 1)
        place = self._new_place("operations")
        workspace.run(
            self._arguments("operations"), module=("hardening.kill_points", "0", str(place))
        )
        self.operations = len((place / LOG).read_text(encoding="utf-8").splitlines())

    def run(self, count: int, limits: Limits) -> KillResult:
        """Kill the command until ``count`` kills have hit, or until the time is over."""
        moments = itertools.islice(self.moments(count), 3 * count)
        _run_until(self.result, self._kill_and_repeat, moments, count, limits)
        return self.result

    def moments(self, count: int) -> Iterator[Moment]:
        """Yield moments spread evenly over the command's duration and its file operations."""
        operations = tuple(range(1, self.operations + 1))
        while True:
            yield from Stage("", START, 0.0, self.result.run_seconds, operations).moments(count)

    def _arguments(self, place: str) -> list[str]:
        (self.workspace.folder / place).mkdir(exist_ok=True)
        model = str(self.model)
        match self.command:
            case "predict":
                return ["predict", model, "new.csv", "--out", f"{place}/out.csv"]
            case "clean":
                return ["clean", "noisy.csv", "--out", f"{place}/out.csv", "--seed", "1"]
            case "compare":
                sizes = ["--set", "training.epochs=1", "--set", "text.word_vectors=random"]
                outputs = ["--html", f"{place}/out.html", "--json", f"{place}/out.json"]
                return ["compare", DATA, "--with", "tfidf", *sizes, *outputs]
            case "report":
                return ["report", model, "test.csv", "--out", f"{place}/out.html"]
            case _:
                return ["export", model, "--out", f"{place}/out", "--web", f"{place}/out.html"]

    def _new_place(self, name: str) -> Path:
        place = self.workspace.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def _kill_and_repeat(self, number: int, moment: Moment) -> None:
        place = self._new_place(f"{self.command}-{number}")
        arguments = self._arguments(place.name)
        kill_point = ("hardening.kill_points", moment.kill_point, str(place))
        module = kill_point if moment.operation else ("lamatext",)
        process = self.workspace.start(arguments, module=module)
        if moment.operation:
            process.communicate()
            was_killed = process.returncode == -9
        else:
            _wait(process, moment, place, 0.0)
            was_killed = process.poll() is None
            kill(process)
        if not was_killed:
            self.result.ended_before += 1
            shutil.rmtree(place)
            return
        with self.lock:
            self.result.kills += 1
            self.result.leftovers += bool(temporary_names(place))
        self._check(f"kill {number} ({moment})", place, arguments)
        shutil.rmtree(place)

    def _check(self, where: str, place: Path, arguments: list[str]) -> None:
        whole = self.workspace.folder / "whole"
        problem = None
        for path in _outputs(place):  # written atomically: missing or complete
            if not same_output(path, whole / path.name):
                problem = f"{path.name} is incomplete"
        problem = problem or problem_of_folder(place / "out", model_files(whole / "out"))
        is_complete = {path.name for path in whole.iterdir()} <= {p.name for p in place.iterdir()}
        repeated = self.workspace.run(arguments)
        if is_complete and "already exists" in repeated.messages:
            for path in place.glob(".*"):  # hidden names of complete files, which the next
                path.unlink()  # write into the folder deletes
        else:
            problem = problem or repeated.problem(0)
        if problem is None and not all(
            same_output(path, whole / path.name) for path in _outputs(place)
        ):
            problem = "another result than the uninterrupted command"
        (place / LOG).unlink(missing_ok=True)
        if problem is None and names_below(place) != names_below(whole):
            problem = f"files left: {sorted({*names_below(place)} - {*names_below(whole)})}"
        if problem:
            self.result.problems.append(f"{where}: {problem}")


def _outputs(place: Path) -> list[Path]:
    return [
        place / name for name in ("out.csv", "out.html", "out.json") if (place / name).is_file()
    ]


def same_output(path: Path, reference: Path) -> bool:
    """Return whether a killed and repeated command wrote the same, apart from numbers on a page."""
    content, expected = path.read_bytes(), reference.read_bytes()
    if reference.suffix in (".html", ".json"):  # a report contains durations
        content, expected = (re.sub(rb"[\d.,]+", b"0", page) for page in (content, expected))
    return content == expected


def training_stages(log: list[str], seconds: float) -> list[Stage]:
    """Return the stages of an uninterrupted training run by the log of its file operations."""
    times = [float(line.split(" ", 1)[0]) for line in log]
    paths = [line.rsplit(" ", 1)[-1] for line in log]
    numbers = range(1, len(log) + 1)
    tokens = _first(paths, "/cache/.tokens-")
    is_checkpoint = [_is_checkpoint(path) for path in paths]
    checkpoint = is_checkpoint.index(True)
    saving = _first(paths, "/run/.unfinished")
    saved = len(paths) - _first(paths[::-1], "/run/.unfinished")
    opened = tuple(n for n in numbers if is_checkpoint[n - 1] and " open " in log[n - 1])
    renamed = tuple(n + 1 for n in opened)  # the next operation, when the file is written
    writing = min(times[n] - times[n - 1] for n in opened)
    first_checkpoint, tokenized = times[checkpoint], times[tokens + 1]
    return [
        Stage("reading", START, 0.0, times[tokens], tuple(numbers[: tokens + 2])),
        Stage(
            "word vectors", TOKENS, 0.0, first_checkpoint - tokenized,
            tuple(numbers[tokens + 2 : checkpoint]),
        ),
        Stage("epochs", FIRST_CHECKPOINT, 0.0, times[saving] - first_checkpoint),
        Stage("checkpoint writing", operations=renamed, writes=opened, writing=writing),
        Stage("final save", operations=tuple(numbers[saving:saved])),
        Stage(
            "scoring and baselines", SAVED, 0.0, seconds - times[saved - 1],
            tuple(numbers[saved:]),
        ),
    ]  # fmt: skip


def _is_checkpoint(path: str) -> bool:
    """Return whether a path is the temporary file of a checkpoint, until it is complete."""
    return path.startswith(f"/run/.{CHECKPOINT}.") and path.endswith(".lamatext")


def _first(paths: list[str], prefix: str) -> int:
    return next(place for place, path in enumerate(paths) if path.startswith(prefix))


def stage_of(place: Path, messages: str) -> str:
    """Return the stage of training that a kill has hit, by the files of its run and its cache."""
    run_names = names_below(place / "run")
    if "checkpoint.safetensors" not in run_names and "epoch 1/" not in messages:
        has_tokens = any(name.startswith("tokens-") for name in names_below(place / "cache"))
        return "word vectors" if has_tokens else "reading"
    if ".unfinished" in run_names:
        return "final save"
    if "metrics.json" in run_names and "together" in messages:
        return "scoring and baselines"
    is_writing = any(name.startswith(f".{CHECKPOINT}") for name in run_names)
    return "checkpoint writing" if is_writing else "epochs"


def temporary_names(place: Path) -> list[str]:
    """Return the hidden files that a kill has left below a folder."""
    return [name for name in names_below(place) if Path(name).name.startswith(".")]


def _spread(count: int) -> list[float]:
    """Return ``count`` fractions spread evenly between 0 and 1."""
    return [(number + 0.5) / count for number in range(count)]


def _wait(process: "subprocess.Popen[str]", moment: Moment, place: Path, started: float) -> None:
    """Wait until the moment of a kill, or until the process has ended."""
    while moment.anchor and process.poll() is None:
        if any(_is_written(path, started) for path in place.glob(moment.anchor)):
            break
        time.sleep(POLL_SECONDS)
    end = time.monotonic() + moment.seconds
    while time.monotonic() < end and process.poll() is None:
        time.sleep(POLL_SECONDS)


def _is_written(path: Path, started: float) -> bool:
    try:
        return path.stat().st_mtime >= started
    except OSError:
        return False


def _run_until(
    result: KillResult,
    attempt: Callable[[int, Moment], None],
    moments: Iterable[Moment],
    count: int,
    limits: Limits,
) -> None:
    """Attempt kills at the moments, several at a time, until ``count`` have hit or the time ends.

    Attempts of one round run in parallel; the next round replaces those that missed.
    """
    numbered = enumerate(moments)
    lock = threading.Lock()

    def attempt_next() -> bool:
        with lock:
            item = next(numbered, None)
        if item is None or time.monotonic() >= limits.end:
            return False
        attempt(*item)
        with lock:
            limits.save(result)
        return True

    with ThreadPoolExecutor(limits.jobs) as pool:
        while result.kills < count and time.monotonic() < limits.end:
            batch = range(count - result.kills)
            if not any(list(pool.map(lambda _: attempt_next(), batch))):
                return


def train_old_model(workspace: Workspace) -> Path:
    """Train the model that a killed training replaces, and that killed commands read."""
    shutil.rmtree(workspace.folder / "old", ignore_errors=True)
    arguments = workspace.train_arguments("old", "--seed", "1")
    _require(workspace.run(arguments, cache="old-cache"))
    return workspace.folder / "old"


def fit_run_size(
    workspace: Workspace, train: Callable[[], CommandResult], seconds: tuple[float, float]
) -> CommandResult:
    """Change the number of texts until a training run takes so many seconds; return that run."""
    shortest, longest = seconds
    for _ in range(SIZE_ATTEMPTS):
        result = train()
        if shortest <= result.seconds <= longest:
            return result
        scale = math.sqrt(shortest * longest) / result.seconds
        texts = max(FEWEST_TEXTS, round(scale * workspace.size.texts))
        workspace.resize(replace(workspace.size, texts=texts))
    raise RuntimeError(
        f"a training run takes {result.seconds:.1f} s with {workspace.size.texts} texts, "
        f"expected {shortest:g} to {longest:g} s. Use fewer --jobs, or a less busy machine."
    )


def _require(result: CommandResult) -> None:
    if problem := result.problem(0):
        raise RuntimeError(f"an uninterrupted command failed: {problem}")


def run_kill_campaign(
    workspace: Workspace, count: int, seed: int, limits: Limits, commands: Sequence[str] = COMMANDS
) -> Iterator[KillResult]:
    """Run the kill campaign for some of the commands; yield the result of each."""
    for command in commands:
        if command == "train":
            yield TrainingKills(workspace, seed, limits.jobs, RUN_SECONDS).run(count, limits)
            continue
        model = workspace.folder / "old"
        if not model.is_dir():
            train_old_model(workspace)
        place = Workspace(workspace.folder / command, workspace.size)
        outputs = OutputKills(place, command, model, seed)
        yield outputs.run(max(2, count // 5), limits)
