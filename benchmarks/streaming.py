"""``python -m benchmarks streaming``: peak memory of training on data that is larger than memory.

Made-up Parquet shards go through the stages of ``lamatext train --stream`` in a process of its own:
the pass that tokenizes all rows and counts the vocabulary, a part of the first epoch, and the
passes that count the n-grams of all rows and fit them. The processor time of the whole epoch is
computed from that of the part.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.accuracy_jobs import RECORDS, Folder, Force
from benchmarks.costs import describe_cpu
from benchmarks.growth import Cell, write_made_up
from lamatext.cli import output
from lamatext.kernels.kernel_threads import usable_cores
from lamatext.progress import SILENT, Progress
from lamatext.views.terminal_table import TerminalTable
from paper.records import Record, Records

EXPERIMENT = "streaming"
SHARD_ROWS = 500_000
STAGES = ("vocabulary", "epoch", "ngrams")
EPOCH_PART = 0.05  # of the first epoch that is trained
MAX_MEGABYTES = 4_000  # that the peak memory of every stage must stay below


def run(
    rows: Annotated[int, typer.Option(help="Rows of 20 words.")] = 10_000_000,
    out: Folder = RECORDS,
    force: Force = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with status 1 if a stage needs too much memory.")
    ] = False,
) -> None:
    """Measure the peak memory and seconds of each stage of streamed training."""
    cell = Cell(rows)
    store = Records(out, force=force)
    first = Record(
        EXPERIMENT, str(cell), "lamatext", "ngrams_megabytes", 0.0, device=describe_cpu()
    )
    if not store.has(first.key):
        with tempfile.TemporaryDirectory() as folder:
            for metric, value in _measure(cell, Path(folder)):
                store.add([replace(first, metric=metric, value=value).with_provenance()])
    found = {r.metric: r.number for r in store.of(EXPERIMENT) if r.dataset == str(cell)}
    _print(cell, found)
    peak = max(value for metric, value in found.items() if metric.endswith("_megabytes"))
    if check and peak > MAX_MEGABYTES:
        raise typer.Exit(1)


def _print(cell: Cell, found: dict[str, float]) -> None:
    shown = [(metric, f"{value:,.0f}") for metric, value in found.items()]
    output.out().print(TerminalTable((f"streaming, {cell}", "value"), shown))


def _measure(cell: Cell, folder: Path) -> Iterator[tuple[str, float]]:
    """Write the shards, then yield the metrics of each stage when it is measured."""
    (folder / "shards").mkdir()
    commands = [
        [sys.executable, "-m", "benchmarks.streaming", "shard", str(folder), str(number), str(rows)]
        for number, rows in enumerate(_shard_rows(cell.rows))
    ]
    cores = usable_cores()
    for start in range(0, len(commands), cores):
        writers = [subprocess.Popen(command) for command in commands[start : start + cores]]
        if any(writer.wait() for writer in writers):
            raise RuntimeError("writing the shards failed.")
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.streaming", "train", str(folder)],
        env={**os.environ, "LAMATEXT_CACHE": str(folder / "cache")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield from json.loads(line).items()
    if process.returncode:
        raise RuntimeError(f"streaming failed with status {process.returncode}.")


def _shard_rows(rows: int) -> list[int]:
    return [min(SHARD_ROWS, rows - start) for start in range(0, rows, SHARD_ROWS)]


class _EnoughError(Exception):
    """Raised when the measured part of the epoch is trained."""


class _PartOfEpoch(Progress):
    """Progress that stops the training loop after a part of its first epoch."""

    def stage(self, name: str, total: int | None = None) -> None:
        self._left = EPOCH_PART * (total or 0) if name.startswith("epoch") else float("inf")

    def advance(self, steps: int = 1, detail: str = "") -> None:  # noqa: ARG002 - not shown
        self._left -= steps
        if self._left <= 0:
            raise _EnoughError


def train(folder: Path) -> None:
    """Run the stages of streamed training in this process and print their metrics as JSON lines."""
    from lamatext.data.read_options import ReadOptions
    from lamatext.data.splits import Split
    from lamatext.data.streaming import stream_parts
    from lamatext.recipes import load_recipe
    from lamatext.training.batching import EncodedDataset
    from lamatext.training.cross_fitting import ngram_fitter
    from lamatext.training.loop import LoopSettings, fit
    from lamatext.training.preparation import prepare_run
    from lamatext.training.trainer import pick_device

    recipe = load_recipe("default")
    with _measured("vocabulary"):
        parts = stream_parts(
            str(folder / "shards"),
            ReadOptions(),
            recipe.text,
            fractions=(recipe.training.validation_fraction, 0.1),
        ).texts
        rows = np.arange(len(parts.labels))
        split = Split(rows[: parts.training_texts], rows[parts.training_texts :])
        run = prepare_run(parts.tokens, split, recipe, classes=len(parts.classes))
    data = EncodedDataset(run.token_ids, parts.labels)
    settings = LoopSettings(run.recipe.model, run.recipe.training, 0, pick_device("cpu"))
    with _measured("epoch"), suppress(_EnoughError):
        train_rows, valid = data.take(split.train), data.take(split.validation)
        fit(run.network, train_rows, valid, settings, _PartOfEpoch())
    with _measured("ngrams"):
        fitter = ngram_fitter(run, data, split, settings, SILENT)
        assert fitter is not None  # the default recipe has n-grams
        fitter.fit(split.train)


@contextmanager
def _measured(stage: str) -> Iterator[None]:
    """Print the seconds and the peak memory of a stage; mapped pages of files count, too.

    The seconds of processor time, unlike the others, say little about how busy the machine was.
    """
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the stage before
    started, started_cpu = time.perf_counter(), time.process_time()
    yield
    seconds, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3
    metrics = {
        f"{stage}_seconds": seconds,
        f"{stage}_cpu_seconds": cpu,
        f"{stage}_megabytes": peak,
    }
    if stage == "epoch":
        metrics = {
            "epoch_part_seconds": seconds,
            "epoch_part_cpu_seconds": cpu,
            "epoch_cpu_seconds_computed": cpu / EPOCH_PART,
            "epoch_megabytes": peak,
        }
    print(json.dumps(metrics), flush=True)


if __name__ == "__main__":
    step, place = sys.argv[1], Path(sys.argv[2])
    if step == "shard":
        path = place / "shards" / f"{int(sys.argv[3]):03}.parquet"
        write_made_up(path, Cell(int(sys.argv[4])), seed=int(sys.argv[3]))
    else:
        train(place)
