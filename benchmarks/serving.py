"""``lamatext serve`` under load: throughput against the bare runtime, latency, memory, errors."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks.comparison import Comparison, SkippedError
from benchmarks.http_load import Load, LoadResult
from lamatext.errors import DataError
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.runtime.predictor import Predictor
from lamatext.saved.format import VOCAB

DATA = "rotten-tomatoes"
TRAINING_TEXTS = 2000  # enough for a vocabulary and an n-gram table of the usual size
VOCABULARY = 20_000  # different made-up words, most of them rare
WORDS = (40, 200)
TEXTS = 512
BATCH = 64  # texts per call of the bare runtime, as many as there are connections
CONNECTIONS = 64


def measure(*, seconds: float = 60.0, rounds: int = 5) -> list[Comparison]:
    """Measure the server with a model of the default recipe, at two text lengths.

    Args:
        seconds: duration of the load at half of the peak.
        rounds: alternations of bare runtime and server, a tenth of ``seconds`` each.
    """
    with TemporaryDirectory() as folder:
        model = train_model(Path(folder) / "model")
        return [
            comparison
            for words in WORDS
            for comparison in measure_server(model, words, seconds, rounds=rounds)
        ]


def measure_server(model: Path, words: int, seconds: float, *, rounds: int) -> list[Comparison]:
    """Find the server's peak next to the bare runtime, then load the server with half of it."""
    predictor, texts = Predictor.load(model), synthetic_texts(model, words)
    with running_server(model) as (port, process):
        peak_load = Load(port, texts, max(seconds / 10, 1), CONNECTIONS)
        pairs = [_peak_pair(predictor, peak_load) for _ in range(rounds + 1)][1:]  # warm-up first
        half = median(served for served, _ in pairs) / 2
        before = resident_memory(process.pid)
        result = generate_load(Load(port, texts, seconds, CONNECTIONS, rate=half))
        after = resident_memory(process.pid)
    served, bare = zip(*pairs, strict=True)
    errors = sum(result.errors.values())
    details = {
        "rate": half,
        "seconds": seconds,
        "requests": result.requests,
        "errors": result.errors,
        "reopened": result.reopened,
    }
    return [
        Comparison.throughput(
            f"peak, bare runtime, {words} words",
            (served, bare),
            "texts/s",
            details={"connections": CONNECTIONS},
        ),
        Comparison.single(f"p99, p50, {words} words", (result.p99, result.p50), "ms", details),
        Comparison.single(f"memory after, before, {words} words", (after, before), "MB", details),
        Comparison.single(
            f"errors, requests, {words} words", (errors, result.requests), "", details
        ),
    ]


def measure_workers(*, seconds: float = 3.0, rounds: int = 5) -> list[Comparison]:
    """Measure the peak of the server with several worker processes against that of one.

    The load generators, as many as there are workers, run on the same machine. The number of
    workers is doubled up to the number of cores, and is at least 2.

    Args:
        seconds: duration of each load.
        rounds: alternations of the numbers of workers.
    """
    counts = [2**power for power in range(1, max(2, usable_cores().bit_length()))]
    with TemporaryDirectory() as folder:
        model = save_synthetic_model(Path(folder) / "model")
        return [
            comparison
            for words in WORDS
            for comparison in _measure_workers(model, words, (seconds, rounds), counts)
        ]


def _measure_workers(
    model: Path, words: int, duration: tuple[float, int], counts: Sequence[int]
) -> Iterator[Comparison]:
    """Yield the comparison of each number of workers with one worker, at one text length."""
    texts, (seconds, rounds) = synthetic_texts(model, words), duration
    connections = max(8, CONNECTIONS // max(counts))  # of each load generator
    with ExitStack() as stack:
        ports = {
            count: stack.enter_context(running_server(model, "--workers", str(count)))[0]
            for count in (1, *counts)
        }
        peaks: dict[int, list[float]] = {count: [] for count in ports}
        for _ in range(rounds + 1):  # warm-up first
            for count, port in ports.items():
                load = Load(port, texts, seconds, connections)
                peaks[count].append(_peak(load, generators=max(counts)))
    for count in counts:
        yield Comparison.throughput(
            f"{count} workers, 1 worker, {words} words",
            (peaks[count][1:], peaks[1][1:]),
            "texts/s",
            details={"connections": connections * max(counts), "load generators": max(counts)},
        )


def _peak(load: Load, *, generators: int) -> float:
    """Return the requests per second that the server answers to several load generators."""
    with ThreadPoolExecutor(generators) as threads:
        results = [*threads.map(generate_load, [load] * generators)]
    errors = sum(sum(result.errors.values()) for result in results)
    if errors:
        raise RuntimeError(f"{errors} requests failed: {results}")
    return sum(result.requests / result.seconds for result in results)


def save_synthetic_model(folder: Path) -> Path:
    """Save an untrained model of the default recipe for made-up words, to be served."""
    import pyarrow as pa

    from benchmarks.untrained_models import save_untrained
    from lamatext.data.dataset import Dataset
    from lamatext.recipes import resolve_recipe

    ranks = np.random.default_rng(0).zipf(1.2, (TRAINING_TEXTS, 40)) % VOCABULARY
    texts = pa.chunked_array([[" ".join(f"w{rank}" for rank in row) for row in ranks.tolist()]])
    labels = pa.chunked_array([[f"label {row % 2}" for row in range(TRAINING_TEXTS)]])
    values = {"ngrams.characters": True}
    recipe = resolve_recipe(model=None, recipe=None, values=values)
    dataset = Dataset(texts.cast(pa.large_string()), labels, "made-up words")
    return save_untrained(folder, recipe, dataset, min_count=1)


def train_model(folder: Path) -> Path:
    """Train a model of the default recipe for one epoch, to be served, and save it."""
    from lamatext.classifier import TextClassifier
    from paper.official_datasets import load_paper_dataset

    try:
        dataset = load_paper_dataset(DATA)
    except DataError as error:
        raise SkippedError(str(error)) from error
    sample = dataset.take(np.random.default_rng(0).permutation(len(dataset))[:TRAINING_TEXTS])
    assert sample.labels is not None
    TextClassifier(epochs=1).fit(sample.texts, sample.labels).save(folder)
    return folder


def synthetic_texts(model: Path, words: int, *, texts: int = TEXTS) -> list[str]:
    """Return texts for the server made of the model's vocabulary, frequent words more often."""
    vocabulary = (model / VOCAB).read_text(encoding="utf-8", errors="replace").split("\n")[2:-1]
    draw = np.random.default_rng(0)
    ranks = np.minimum(draw.zipf(1.3, (texts, words)), len(vocabulary)) - 1
    return [" ".join(vocabulary[rank] for rank in row) for row in ranks]


def bare_throughput(predictor: Predictor, texts: Sequence[str], seconds: float) -> float:
    """Return the texts per second of the runtime in this process, without a server."""
    start, done = perf_counter(), 0
    while perf_counter() - start < seconds:
        at = done % len(texts)
        done += len(predictor.predict_proba(texts[at : at + BATCH]))
    return done / (perf_counter() - start)


def generate_load(load: Load) -> LoadResult:
    """Run the HTTP load generator against the server, in its own process."""
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.http_load"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=True,
    )
    return LoadResult(**json.loads(process.stdout))


@contextmanager
def running_server(model: Path, *options: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """Start ``lamatext serve`` in its own process and yield its port and the process."""
    command = [sys.executable, "-m", "lamatext", "serve", str(model), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            started = next(line for line in process.stderr if line.startswith("Serving"))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(re.findall(r":(\d+)", started)[-1]), process
        finally:
            process.terminate()
            process.wait(30)


def _peak_pair(predictor: Predictor, load: Load) -> tuple[float, float]:
    bare = bare_throughput(predictor, load.bodies, load.seconds)
    result = generate_load(load)
    return result.requests / result.seconds, bare


def resident_memory(process: int) -> float:
    """Return the resident memory of the server process in MB."""
    status = Path(f"/proc/{process}/status")
    if not status.is_file():
        raise SkippedError("the memory of the server process can only be read on Linux.")
    return int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0]) / 1000
