"""The server under load beside the bare runtime: peak, latency at half of it, memory."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks.figures import Figure, SkippedError
from benchmarks.load import Figures, Load
from lamatext.errors import DataError
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import VOCAB

DATA = "rotten-tomatoes"
TRAINED_ON = 2000  # texts: enough for a vocabulary and a table of n-grams of the usual size
WORDS = (40, 200)
TEXTS = 512
BATCH = 64  # texts in one call of the bare runtime, as many as there are connections
CONNECTIONS = 64


def figures(*, seconds: float = 60.0, turns: int = 5) -> list[Figure]:
    """The default recipe's model behind ``lamatext serve``.

    Args:
        seconds: how long the load at half of the peak lasts.
        turns: of bare runtime and server, a tenth of that each.
    """
    with TemporaryDirectory() as place:
        model = train(Path(place) / "model")
        return [figure for words in WORDS for figure in measure(model, words, seconds, turns=turns)]


def measure(model: Path, words: int, seconds: float, *, turns: int = 5) -> list[Figure]:
    """Bare runtime and server in turns on the same texts, then the server at half of its peak."""
    predictor, texts = Predictor.load(model), made_up_texts(model, words)
    with serving(model) as (port, process):
        peak = Load(port, texts, max(seconds / 10, 1), CONNECTIONS)
        pairs = [turn(predictor, peak) for _ in range(turns + 1)][1:]  # the first warms up
        half = median(served for served, _ in pairs) / 2
        before = memory(process.pid)
        found = under_load(Load(port, texts, seconds, CONNECTIONS, rate=half))
        after = memory(process.pid)
    served, alone = zip(*pairs, strict=True)
    ratios = [ours / theirs for ours, theirs in pairs]
    failed = sum(found.errors.values())
    about = {
        "rate": half, "seconds": seconds, "requests": found.requests,
        "errors": found.errors, "reopened": found.reopened,
    }  # fmt: skip
    return [
        Figure.of(
            f"peak, bare runtime, {words} words", ratios, served, alone,
            scale=1, unit="texts/s", details={"connections": CONNECTIONS},
        ),
        _single(f"p99, p50, {words} words", found.p99, found.p50, "ms", about),
        _single(f"memory after, before, {words} words", after, before, "MB", about),
        _single(f"errors, requests, {words} words", failed, found.requests, "", about),
    ]  # fmt: skip


def _single(
    what: str, ours: float, theirs: float, unit: str, details: Mapping[str, object]
) -> Figure:
    ratio = ours / theirs
    return Figure(what, ratio, ratio, ratio, ours, theirs, unit, details)


def train(folder: Path) -> Path:
    """A model of the default recipe, trained for an epoch."""
    from lamatext.classifier import TextClassifier
    from lamatext.data.sources import load

    try:
        corpus = load(DATA)
    except DataError as error:
        raise SkippedError(str(error)) from error
    some = corpus.take(np.random.default_rng(0).permutation(len(corpus))[:TRAINED_ON])
    assert some.labels is not None
    TextClassifier(epochs=1).fit(some.texts, some.labels).save(folder)
    return folder


def made_up_texts(model: Path, words: int, *, texts: int = TEXTS) -> list[str]:
    """Texts of the model's own words, frequent ones more often."""
    known = (model / VOCAB).read_text(encoding="utf-8", errors="replace").split("\n")[2:-1]
    draw = np.random.default_rng(0)
    places = np.minimum(draw.zipf(1.3, (texts, words)), len(known)) - 1
    return [" ".join(known[place] for place in row) for row in places]


def bare(predictor: Predictor, texts: Sequence[str], seconds: float) -> float:
    """Texts a second that the runtime answers in this process, ``BATCH`` at a time."""
    start, done = perf_counter(), 0
    while perf_counter() - start < seconds:
        at = done % len(texts)
        done += len(predictor.predict_proba(texts[at : at + BATCH]))
    return done / (perf_counter() - start)


def under_load(load: Load) -> Figures:
    """What the load generator saw."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=True,
    )
    return Figures(**json.loads(told.stdout))


@contextmanager
def serving(model: Path) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """``lamatext serve`` in a process of its own: its port, and the process."""
    command = [sys.executable, "-m", "lamatext", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if line.startswith("Serving"))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(re.findall(r":(\d+)", said)[-1]), process
        finally:
            process.terminate()
            process.wait(30)


def turn(predictor: Predictor, load: Load) -> tuple[float, float]:
    """Answers a second of the server, and of the bare runtime."""
    alone = bare(predictor, load.bodies, load.seconds)
    found = under_load(load)
    return found.requests / found.seconds, alone


def memory(process: int) -> float:
    """The resident memory of a process in MB."""
    status = Path(f"/proc/{process}/status")
    if not status.is_file():
        raise SkippedError("the memory of another process is only told on Linux.")
    return int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0]) / 1000
