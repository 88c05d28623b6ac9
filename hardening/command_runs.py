"""Commands of lamatext in processes of their own, on a made-up data set, for kills and faults."""

import contextlib
import csv
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from lamatext.errors import ModelError
from lamatext.runtime.predictor import Predictor

ROOT = Path(__file__).parents[1]
DATA = "reviews.csv"
COMPARED = ("model.safetensors", "ngrams.safetensors", "vocab.txt", "model.onnx", "tokenizer.json")
GOOD, BAD = ("wonderful", "moving", "superb"), ("dull", "boring", "dreadful")
LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class RunSize:
    """Sizes of a training run: the campaigns use a run of 10 to 20 s, the tests a shorter one."""

    texts: int = 2500
    epochs: int = 8
    word_vectors: str = "word2vec" if find_spec("gensim") else "svd"
    baselines: str = "tfidf,avg"


SMALL_RUN = RunSize(texts=300, epochs=3, word_vectors="random", baselines="tfidf")


@dataclass(slots=True)
class Workspace:
    """A folder with the data of a campaign, in which its commands run."""

    folder: Path
    size: RunSize
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.resize(self.size)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def resize(self, size: RunSize) -> None:
        """Set the size of training runs and write their data."""
        self.size = size
        write_reviews(self.folder / DATA, size.texts)

    def train_arguments(self, out: str, *more: str) -> list[str]:
        """Return the arguments of ``lamatext train`` in this workspace."""
        settings = {
            "training.epochs": self.size.epochs,
            "training.patience": self.size.epochs,
            "text.min_count": 1,
            "text.vector_width": 50,
            "text.word_vectors": self.size.word_vectors,
            "model.hidden_size": 24,
        }
        pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        baselines = ["--baselines", self.size.baselines]
        return ["train", DATA, "--out", out, "--device", "cpu", *baselines, *pairs, *more]

    def start(
        self,
        arguments: Sequence[str],
        *,
        cache: str = "cache",
        module: Sequence[str] = ("lamatext",),
        setup: Callable[[], None] | None = None,
    ) -> "subprocess.Popen[str]":
        """Start a command of lamatext in the workspace, in a process group of its own."""
        environment = {**self.environment, "LAMATEXT_CACHE": str(self.folder / cache)}
        return subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            cwd=self.folder, env=environment, text=True, preexec_fn=setup,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(
        self,
        arguments: Sequence[str],
        *,
        cache: str = "cache",
        module: Sequence[str] = ("lamatext",),
        setup: Callable[[], None] | None = None,
    ) -> "CommandResult":
        """Run a command of lamatext in the workspace to its end."""
        started, cpu_before = time.monotonic(), cpu_seconds_of_children()
        process = self.start(arguments, cache=cache, module=module, setup=setup)
        try:
            _, messages = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            kill(process)
            messages = f"Traceback: no end after {LIMIT_SECONDS:g} s"
        seconds, cpu = time.monotonic() - started, cpu_seconds_of_children() - cpu_before
        return CommandResult(process.returncode, messages, seconds, cpu)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit status, messages and duration of a command."""

    status: int
    messages: str
    seconds: float
    cpu_seconds: float = 0.0  # of this process's children: meaningless if commands run in parallel

    def problem(self, *expected: int) -> str | None:
        """Return what is wrong with the command's end: a traceback or an unexpected status."""
        if "Traceback" in self.messages:
            return f"traceback: {self.messages.strip().splitlines()[-1][:200]}"
        if self.status not in expected:
            return f"exit status {self.status}: {self.messages.strip()[-200:]}"
        return None


def cpu_seconds_of_children() -> float:
    """Return the CPU time of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_reviews(path: Path, count: int, *, seed: int = 0, wrong: float = 0.0) -> None:
    """Write made-up reviews with two labels; each has one word that tells its label.

    A share ``wrong`` of them has the other label.
    """
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for number in range(count):
            words = [f"w{min(2999, int(draw.expovariate(1 / 300)))}" for _ in range(20)]
            words[draw.randrange(20)] = draw.choice((BAD, GOOD)[number % 2])
            number += wrong > 0 and draw.random() < wrong
            writer.writerow((" ".join(words), ("neg", "pos")[number % 2]))


def kill(process: "subprocess.Popen[str]") -> str:
    """Kill a command with SIGKILL and return the messages that it printed before."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _, messages = process.communicate()
    return messages or ""


def model_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a saved model that must be bit-equal after a kill."""
    return {name: (folder / name).read_bytes() for name in COMPARED if (folder / name).is_file()}


def names_below(folder: Path) -> list[str]:
    """Return the relative names of all files and folders below a folder, hidden ones included."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def problem_of_folder(folder: Path, *allowed: dict[str, bytes]) -> str | None:
    """Return what is wrong with the model folder of an interrupted command.

    It must load, and then be one of the ``allowed`` models, or be rejected as unfinished.
    """
    if not folder.exists():
        return None
    try:
        Predictor.load(folder).predict(["a film"])
    except ModelError as error:
        if "unfinished" not in str(error) and "--resume" not in str(error):
            return f"the message does not say that the run is unfinished: {error}"
        return None
    except Exception as error:
        return f"loading ends with {type(error).__name__}: {error}"
    if model_files(folder) not in allowed:
        return "the folder loads with other weights"
    return None
