"""The disk campaign: full disk, quota, read-only and vanishing folders, clock jumps, two writers.

Each scenario runs commands of lamatext and returns its problems. A command may fail, but with one
line that names the fault; the old result stays or is reported as unfinished; and when the fault is
gone, the same command gives the same weights as an undisturbed run.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hardening.base_models import BASE_MODELS, save_random_model
from hardening.command_runs import (
    Workspace,
    model_files,
    problem_of_folder,
    write_reviews,
)
from lamatext.errors import ModelError
from lamatext.runtime.predictor import Predictor

CHECKPOINT = "checkpoint.safetensors"
OVERWRITES_SECONDS = 3.0


@dataclass(slots=True)
class DiskResult:
    """Rounds and problems of one scenario of the disk campaign."""

    scenario: str
    seed: int
    rounds: int = 0
    effective: int = 0  # rounds in which the fault hit a command; the others prove nothing
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    skipped: str = ""


class DiskFaults:
    """The scenarios of the disk campaign, with an undisturbed run to compare with."""

    def __init__(self, workspace: Workspace, seed: int) -> None:
        self.workspace, self.draw = workspace, random.Random(seed)
        result = workspace.run(workspace.train_arguments("whole"))
        if problem := result.problem(0):
            raise RuntimeError(f"an undisturbed run failed: {problem}")
        self.reference = model_files(workspace.folder / "whole")
        self.bytes = sum(path.stat().st_size for path in (workspace.folder / "whole").iterdir())
        cache = workspace.folder / "cache"
        self.needed = self.bytes + sum(path.stat().st_size for path in cache.iterdir())
        self.largest = max(path.stat().st_size for path in (workspace.folder / "whole").iterdir())
        self.seconds = result.seconds
        self.is_effective = True  # set to False by a scenario whose fault hit nothing
        write_reviews(workspace.folder / "new.csv", 2000, seed=1)

    def full_disk(self, fraction: float) -> Iterator[str | None]:
        """Train on a full disk of a fraction of the bytes needed, then with enough space."""
        yield from self._train_with_less_space("full", max(1, int(fraction * self.needed)))

    def quota(self, fraction: float) -> Iterator[str | None]:
        """Train with a limit on the size of a file, then without it."""
        limit = max(1, int(fraction * self.largest))

        def set_limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        place = self._place("quota")
        arguments = self.workspace.train_arguments(f"{place.name}/run")
        result = self.workspace.run(arguments, cache=f"{place.name}/cache", setup=set_limit)
        self.is_effective = result.status != 0
        yield result.problem(0, 2)
        yield problem_of_folder(place / "run", self.reference)
        yield from self._finish(place)
        out = ["predict", "whole", "new.csv", "--out", f"{place.name}/out.csv"]
        yield self.workspace.run(out, setup=set_limit).problem(0, 2)

    def read_only(self, _: float) -> Iterator[str | None]:
        """Train and predict into a read-only folder."""
        place = self._place("read-only")
        with read_only_folder(place):
            arguments = self.workspace.train_arguments(f"{place.name}/run")
            yield self.workspace.run(arguments, cache=f"{place.name}/cache").problem(2)
            out = ["predict", "whole", "new.csv", "--out", f"{place.name}/out.csv"]
            yield self.workspace.run(out).problem(2)
            export = ["export", "whole", "--out", f"{place.name}/export"]
            yield self.workspace.run(export).problem(2)

    def read_only_cache(self, _: float) -> Iterator[str | None]:
        """Train with a cache folder that cannot be written."""
        place = self._place("read-only-cache")
        (place / "cache").mkdir()
        with read_only_folder(place / "cache"):
            yield from self._finish(place)

    def corrupt_cache(self, _: float) -> Iterator[str | None]:
        """Train with cache entries in which bytes have changed."""
        place = self._place("corrupt-cache")
        shutil.copytree(self.workspace.folder / "cache", place / "cache")
        for path in (place / "cache").iterdir():
            content = bytearray(path.read_bytes())
            for _ in range(8):
                content[self.draw.randrange(len(content) // 2, len(content))] ^= 0x55
            path.write_bytes(content)
        yield from self._finish(place)

    def vanishing_folder(self, fraction: float) -> Iterator[str | None]:
        """Delete the output folder during training."""
        place = self._place("vanishing")
        arguments = self.workspace.train_arguments(f"{place.name}/run")
        process = self.workspace.start(arguments, cache=f"{place.name}/cache")
        with suppress(subprocess.TimeoutExpired):
            process.wait(fraction * self.seconds)
        self.is_effective = process.poll() is None and (place / "run").is_dir()
        shutil.rmtree(place / "run", ignore_errors=True)
        _, messages = process.communicate()
        if "Traceback" in messages or process.returncode not in (0, 2):
            yield f"status {process.returncode}: {messages.strip()[-200:]}"
        yield problem_of_folder(place / "run", self.reference)

    def clock_jumps(self, _: float) -> Iterator[str | None]:
        """Train under a wall clock that jumps by a day."""
        place = self._place("clock")
        arguments = self.workspace.train_arguments(f"{place.name}/run")
        module = ("hardening.clock_jumps",)
        result = self.workspace.run(arguments, cache=f"{place.name}/cache", module=module)
        yield result.problem(0)
        yield self._compare(place)

    def two_writers(self, fraction: float) -> Iterator[str | None]:
        """Train twice into one folder at the same time: one is refused, or both end well."""
        place = self._place("two")
        arguments = self.workspace.train_arguments(f"{place.name}/run")
        other = self.workspace.train_arguments(f"{place.name}/run", "--seed", "1")
        first = self.workspace.start(arguments, cache=f"{place.name}/cache")
        time.sleep(fraction * min(2.0, self.seconds / 2))
        second = self.workspace.start(other, cache=f"{place.name}/cache")
        ends = [(process.communicate()[1], process.returncode) for process in (first, second)]
        for messages, status in ends:
            if "Traceback" in messages or status not in (0, 2):
                yield f"status {status}: {messages.strip()[-200:]}"
        try:
            Predictor.load(place / "run").predict(["a film"])
        except Exception as error:
            yield f"after two writers the folder does not load: {error}"

    def two_predictions(self, _: float) -> Iterator[str | None]:
        """Write predictions twice to one file at the same time: one is refused, or both end."""
        place = self._place("predictions")
        out = ["predict", "whole", "new.csv", "--out", f"{place.name}/out.csv", "--force"]
        processes = [self.workspace.start(out) for _ in range(2)]
        ends = [(process.communicate()[1], process.returncode) for process in processes]
        for messages, status in ends:
            if status and "another process is writing" not in messages:
                yield f"status {status}: {messages.strip()[-200:]}"
        if sorted(path.name for path in place.iterdir()) != ["out.csv"]:
            yield f"files left: {sorted(path.name for path in place.iterdir())}"

    def changed_data(self, _: float) -> Iterator[str | None]:
        """Resume a finished run after the data file has changed: it must not be called finished."""
        place = self._place("changed")
        yield from self._finish(place)
        data = self.workspace.folder / "reviews.csv"
        content = data.read_bytes()
        try:
            write_reviews(data, self.workspace.size.texts, seed=9)
            arguments = self.workspace.train_arguments(f"{place.name}/run", "--resume")
            result = self.workspace.run(arguments, cache=f"{place.name}/cache")
            yield result.problem(0, 2)
            if result.status == 0 and model_files(place / "run") == self.reference:
                yield "--resume keeps the model of other data and ends with status 0"
        finally:
            data.write_bytes(content)

    def overwritten_while_loading(self, _: float) -> Iterator[str | None]:
        """Load a folder again and again while another process saves two models into it in turn."""
        place = self._place("overwritten")
        writer = subprocess.Popen(
            [sys.executable, "-m", "hardening.disk_campaign", str(place / "run")],
            env=self.workspace.environment,
        )
        end = time.monotonic() + 60
        while not (place / "run" / "2-models").is_file() and time.monotonic() < end:
            time.sleep(0.05)
        loads, end = 0, time.monotonic() + OVERWRITES_SECONDS
        while time.monotonic() < end:
            try:
                if Predictor.load(place / "run").predict_proba(["a film"]).shape[1] not in (2, 3):
                    yield "a folder of two models was loaded"
                loads += 1
            except ModelError:
                continue
            except Exception as error:
                yield f"loading during a save: {type(error).__name__}: {str(error)[:150]}"
                break
        writer.kill()
        writer.wait()
        if not loads:
            yield "no load succeeded during the saves"

    def training_into_served_folder(self, _: float) -> Iterator[str | None]:
        """Train into the folder of a running server: it answers with the old or the new model."""
        from hardening.http_client import request, running_server

        place = self._place("served")
        shutil.copytree(self.workspace.folder / "whole", place / "run")
        body = b'{"text": "a wonderful w1 w2", "proba": true}'
        with running_server(place / "run") as server:
            answers = {request(server, "POST", "/predict", body)}
            more = ("--seed", "1", "--force")
            arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
            process = self.workspace.start(arguments, cache=f"{place.name}/cache")
            while process.poll() is None:
                answer = request(server, "POST", "/predict", body)
                answers.add(answer)
                if answer[0] != 200 or len(answers) > 2:
                    yield f"a third answer during training: {answer}"
                    break
                time.sleep(0.05)
            messages = process.communicate()[1]
            if process.returncode not in (0, 2):
                yield f"training: {messages.strip()[-200:]}"

    def _train_with_less_space(self, name: str, size: int) -> Iterator[str | None]:
        place = self._place(name)
        with small_disk(place, size) as resize:
            arguments = self.workspace.train_arguments(f"{place.name}/run")
            result = self.workspace.run(arguments, cache=f"{place.name}/cache")
            self.is_effective = result.status != 0
            yield result.problem(0, 2)
            yield problem_of_folder(place / "run", self.reference)
            resize(1 << 30)
            yield from self._finish(place)

    def _finish(self, place: Path) -> Iterator[str | None]:
        """Run or resume training without a fault and compare the weights."""
        more = ["--resume"] if (place / "run").is_dir() else []
        arguments = self.workspace.train_arguments(f"{place.name}/run", *more)
        yield self.workspace.run(arguments, cache=f"{place.name}/cache").problem(0)
        yield self._compare(place)

    def _compare(self, place: Path) -> str | None:
        same = model_files(place / "run") == self.reference
        return None if same else "other weights than the undisturbed run"

    def _place(self, name: str) -> Path:
        place = self.workspace.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place


SCENARIOS: dict[str, Callable[[DiskFaults, float], Iterator[str | None]]] = {
    "full disk": DiskFaults.full_disk,
    "quota": DiskFaults.quota,
    "read-only folder": DiskFaults.read_only,
    "read-only cache": DiskFaults.read_only_cache,
    "corrupt cache": DiskFaults.corrupt_cache,
    "vanishing folder": DiskFaults.vanishing_folder,
    "clock jumps": DiskFaults.clock_jumps,
    "two trainings, one folder": DiskFaults.two_writers,
    "two predictions, one file": DiskFaults.two_predictions,
    "resume with changed data": DiskFaults.changed_data,
    "loading while overwritten": DiskFaults.overwritten_while_loading,
    "training into a served folder": DiskFaults.training_into_served_folder,
}
REPEATED = (
    *("full disk", "quota", "vanishing folder", "two trainings, one folder"),
    "loading while overwritten",
)


class UnavailableError(Exception):
    """A disk fault that this system or user cannot produce."""


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Callable[[int], None]]:
    """Mount a small disk in memory at a folder; yield a function that changes its size."""

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise UnavailableError("a small disk needs the right to mount one")

    mount(f"size={max(4096, size)}")
    try:
        yield lambda more: mount(f"remount,size={more}")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


@contextmanager
def read_only_folder(place: Path) -> Iterator[None]:
    """Make a folder read-only, also for root: by a read-only mount where that is possible."""
    if os.geteuid():
        place.chmod(0o555)
        try:
            yield
        finally:
            place.chmod(0o755)
        return
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=4096", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise UnavailableError("a read-only folder needs the right to mount one")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def run_disk_campaign(
    workspace: Workspace, count: int, seed: int, seconds: float, names: tuple[str, ...] = ()
) -> list[DiskResult]:
    """Run the scenarios of the disk campaign; those with a moment or a size ``count`` times."""
    faults = DiskFaults(workspace, seed)
    end = time.monotonic() + seconds
    results = []
    for name in names or SCENARIOS:
        result = DiskResult(name, seed)
        started = time.monotonic()
        for number in range(count if name in REPEATED else 1):
            if time.monotonic() > end:
                break
            fraction = (number + 0.5) / count
            faults.is_effective = True
            try:
                problems = list(filter(None, SCENARIOS[name](faults, fraction)))
            except UnavailableError as reason:
                result.skipped = str(reason)
                break
            result.rounds += 1
            result.effective += faults.is_effective
            result.problems += [f"at {fraction:.2f}: {problem}" for problem in problems]
        result.seconds = round(time.monotonic() - started, 1)
        results.append(result)
    return results


def save_in_turn(folder: Path) -> None:
    """Save two models into one folder in turn, until the process is killed."""
    names = list(BASE_MODELS)[:2]
    while True:
        for name in names:
            save_random_model(folder, name)
        (folder / "2-models").touch()


if __name__ == "__main__":
    save_in_turn(Path(sys.argv[1]))
