"""``python -m benchmarks training-cost``: CPU seconds of training, next to an earlier commit's.

``lamatext train`` of this checkout and of an earlier commit alternate on the same files, each in a
process of its own, next to TF-IDF with logistic regression. With 1,000 classes one fit of the
n-gram model is timed. Each process is recorded when it ends, so an interrupted run can go on.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer

from benchmarks.accuracy_jobs import RECORDS, Folder, Force, split_known_names, split_names
from benchmarks.costs import describe_cpu
from benchmarks.growth import TEST_ROWS, Cell, run_process, write_made_up
from lamatext.cli import output
from lamatext.data.named_datasets import dataset_folder
from lamatext.errors import DataError
from lamatext.views.terminal_table import TerminalTable
from paper.records import Record, Records

EXPERIMENT = "training_cost"
BEFORE_COMMIT = "c912fba"
BEFORE, NOW, TFIDF = "before", "now", "tfidf"
SYSTEMS = (NOW, BEFORE, TFIDF)
MADE_UP = {
    "short": Cell(80_000),
    "short-20k": Cell(20_000),
    "classes": Cell(20_000, 20, 1_000),
}
NAMED = ("imdb", "mr", "r8")
# Of the ratio now / before; None if there is no target.
TARGETS = {"short": 0.2, "short-20k": None, "classes": 0.1, "imdb": 0.5, "mr": 0.5, "r8": 0.5}
METRICS = ("cpu_seconds", "seconds", "megabytes")
REPOSITORY = Path(__file__).parents[1]

# One fit of the n-gram model, whose functions have other names in the earlier commit.
READ_TEXTS = """
import sys, time
import numpy, pyarrow.parquet
table = pyarrow.parquet.read_table(sys.argv[1])
words = [text.split() for text in table["text"].to_pylist()]
classes, labels = numpy.unique(table["label"].to_pylist(), return_inverse=True)
"""
FIT_NGRAMS = {
    NOW: """
from lamatext.ngrams.fitting import fit_ngrams
from lamatext.settings import NgramSettings
fit_ngrams(words[:50], labels[:50] % 3, NgramSettings(characters=True), classes=3)
before = time.process_time()
fit_ngrams(words, labels, NgramSettings(characters=True), classes=len(classes))
""",
    BEFORE: """
from lamatext.training.wide import fit_wide
from lamatext.settings import WideSettings
fit_wide(words[:50], labels[:50] % 3, WideSettings(characters=True), classes=3)
before = time.process_time()
fit_wide(words, labels, WideSettings(characters=True), classes=len(classes))
""",
}
WRITE_SECONDS = """
open(sys.argv[2], "w").write(str(time.process_time() - before))
"""


class Files(NamedTuple):
    """Training and test file of a cell of the training-cost benchmark."""

    train: Path
    test: Path


def run(  # noqa: PLR0913 - each argument is one option on the command line
    cells: Annotated[str, typer.Option(help="Of short, short-20k, classes, imdb, mr, r8.")] = (
        "short,r8,mr,imdb,classes"
    ),
    systems: Annotated[str, typer.Option(help="Of now, before, tfidf.")] = ",".join(SYSTEMS),
    rounds: Annotated[str, typer.Option(help="Numbers, separated by commas.")] = "0,1,2",
    before: Annotated[
        Path | None,
        typer.Option(help=f"Checkout of {BEFORE_COMMIT}; none takes it from git."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Seconds after which a process is stopped.")] = 1800,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure the CPU seconds of training, this checkout and an earlier commit alternating."""
    store = Records(records, force=force)
    chosen = split_known_names("cells", cells, TARGETS)
    compared = split_known_names("systems", systems, SYSTEMS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if before is None and BEFORE in compared:
            before = extract_commit(BEFORE_COMMIT, folder / BEFORE)
        checkouts = {NOW: REPOSITORY, BEFORE: before}
        for system in (NOW, BEFORE):
            if system in compared:
                _compile_kernels(checkouts[system], folder)
        for cell in chosen:
            files = cell_files(cell, folder)
            for number, name in _in_alternation(split_names(rounds), compared):
                if not cell.startswith("short") and name == TFIDF:
                    continue
                _record(store, cell, name, number, (files, checkouts.get(name), folder, limit))
    output.out().print(TerminalTable(*cost_table(store.of(EXPERIMENT))))


def _in_alternation(rounds: Sequence[str], systems: Sequence[str]) -> Iterable[tuple[int, str]]:
    """Yield each round's systems, in every second round in reverse order."""
    for number in map(int, rounds):
        for system in reversed(systems) if number % 2 else systems:
            yield number, system


def extract_commit(commit: str, folder: Path) -> Path:
    """Write the files of an earlier commit of this repository to a folder and return it."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=False
    )
    if archive.returncode:
        raise DataError(
            f"git archive {commit} failed: {archive.stderr.decode().strip()}. Clone the "
            "repository with its history, or give a checkout by --before."
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def cell_files(cell: str, folder: Path) -> Files:
    """Return the training and test file of a cell; made-up ones are written to ``folder``."""
    if cell in NAMED:
        source = dataset_folder(cell)
        if source is None:
            raise DataError(f"{cell}: no such folder under $LAMATEXT_DATA.")
        return Files(source / "train.parquet", source / "test.parquet")
    files = Files(folder / f"{cell}.parquet", folder / f"{cell}-test.parquet")
    if not files.train.is_file():
        write_made_up(files.train, MADE_UP[cell], seed=0)
        write_made_up(files.test, MADE_UP[cell]._replace(rows=TEST_ROWS), seed=1)
    return files


def _compile_kernels(checkout: Path | None, folder: Path) -> None:
    """Train on a few texts, so that compiling once per machine is not measured."""
    files = Files(folder / "few.parquet", folder / "few-test.parquet")
    if not files.train.is_file():
        write_made_up(files.train, Cell(300), seed=0)
        write_made_up(files.test, Cell(220), seed=1)
    measure_training(NOW if checkout == REPOSITORY else BEFORE, (files, checkout, folder, 600))


Setup = tuple[Files, Path | None, Path, int]  # files, checkout, folder for results, limit


def _record(store: Records, cell: str, system: str, number: int, setup: Setup) -> None:
    dataset = str(MADE_UP.get(cell, cell))
    waiting = Record(EXPERIMENT, dataset, system, METRICS[0], 0.0, number, device=describe_cpu())
    if cell == "classes":
        waiting = replace(waiting, metric="ngrams_cpu_seconds")
    if store.has(waiting.key):
        return
    measure = measure_ngrams if cell == "classes" else measure_training
    values = measure(system, setup)
    if values is None:
        store.add([replace(waiting, metric="over_limit_seconds", value=float(setup[3]))])
        return
    records = [replace(waiting, metric=name, value=values[name]) for name in values]
    if system == BEFORE:
        records = [replace(r.with_provenance(), commit=BEFORE_COMMIT) for r in records]
    store.add(r if r.commit else r.with_provenance() for r in records)


def measure_training(system: str, setup: Setup) -> dict[str, float] | None:
    """Train a system in a process of its own; return its cost, or None over the limit."""
    files, checkout, folder, limit = setup
    if system == TFIDF:
        command = [sys.executable, "-m", "benchmarks.growth", "tfidf"]
        command += [*map(str, files), str(folder / "tfidf")]
    else:
        option = "--rivals" if system == BEFORE else "--baselines"  # renamed since
        command = [sys.executable, "-m", "lamatext", "train", str(files.train)]
        command += ["--test", str(files.test), option, "none", "--device", "cpu"]
        command += ["--out", str(Path(tempfile.mkdtemp(dir=folder)) / "model")]
    usage = run_process(command, folder, limit, checkout_environment(checkout, folder))
    if usage is None:
        return None
    return dict(zip(METRICS, (usage.cpu_seconds, usage.seconds, usage.megabytes), strict=True))


def measure_ngrams(system: str, setup: Setup) -> dict[str, float] | None:
    """Fit the n-gram model once in a process of its own; return the CPU seconds of the fit."""
    files, checkout, folder, limit = setup
    program, result = READ_TEXTS + FIT_NGRAMS[system] + WRITE_SECONDS, folder / "seconds.txt"
    command = [sys.executable, "-c", program, str(files.train), str(result)]
    if run_process(command, folder, limit, checkout_environment(checkout, folder)) is None:
        return None
    return {"ngrams_cpu_seconds": float(result.read_text())}


def checkout_environment(checkout: Path | None, folder: Path) -> dict[str, str]:
    """Return the environment of a process that imports lamatext from a checkout.

    Its cache is an empty folder, so that word vectors of an earlier run are not used.
    """
    path = os.environ.get("PYTHONPATH", "")
    if checkout is not None:
        path = os.pathsep.join(filter(None, (str(checkout / "src"), str(checkout), path)))
    cache = tempfile.mkdtemp(dir=folder)
    return {**os.environ, "PYTHONPATH": path, "LAMATEXT_CACHE": cache}


def cost_table(records: Iterable[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and rows of the training-cost table: medians over the rounds and ratios."""
    values: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.metric.endswith("cpu_seconds"):
            values.setdefault((record.dataset, record.model), []).append(record.number)
    rows = []
    for cell, target in TARGETS.items():
        found = {
            system: median(values[str(MADE_UP.get(cell, cell)), system])
            for system in SYSTEMS
            if (str(MADE_UP.get(cell, cell)), system) in values
        }
        if NOW not in found:
            continue
        shown = [f"{found[system]:.1f}" if system in found else "" for system in SYSTEMS]
        ratio = f"{found[NOW] / found[BEFORE]:.2f}" if BEFORE in found else ""
        tfidf = f"{found[NOW] / found[TFIDF]:.1f}" if TFIDF in found else ""
        name = f"{MADE_UP.get(cell, cell)}" + (", one n-gram fit" if cell == "classes" else "")
        rows.append((name, *shown, ratio, f"≤ {target}" if target else "", tfidf))
    header = ("data", "now, CPU s", f"{BEFORE_COMMIT}, CPU s", "TF-IDF + LR, CPU s")
    return (*header, "now / before", "target", "now / TF-IDF"), rows
