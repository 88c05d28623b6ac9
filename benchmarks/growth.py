"""``python -m benchmarks growth``: training cost over rows, text length and number of classes.

lamatext, fastText and TF-IDF with logistic regression train on the same made-up files and predict a
held-out one, each in a process of its own: CPU seconds, seconds and peak memory. Records become a
table, a log–log figure and the exponent of each curve (1: twice the rows cost twice the time).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks.accuracy_jobs import RECORDS, Folder, Force, split_known_names
from benchmarks.costs import describe_cpu
from lamatext.cli import output
from lamatext.progress import Progress
from lamatext.views.terminal_table import TerminalTable
from paper.markdown import MISSING, markdown_table
from paper.records import Record, Records

EXPERIMENT = "growth"
SYSTEMS = {"lamatext": "lamatext", "fasttext": "fastText", "tfidf": "TF-IDF (1,2) + LR"}
COLORS = {"lamatext": "#0b6e4f", "fasttext": "#8a8a8a", "tfidf": "#c8553d"}
METRICS = ("train_cpu_seconds", "train_seconds", "train_megabytes", "predict_cpu_seconds")
OVER_LIMIT = "over_limit_seconds"
STAGE_METRIC = "_cpu_seconds"
# Stages of ``lamatext train`` by the beginning of their names, in the order of the table.
STAGES = {
    "reading": ("reading", "looking", "tokenizing"),
    "word vectors": ("word",),
    "network": ("epoch", "compiling", "calibrating"),
    "n-grams": ("counting", "fitting"),
    "scoring": ("saving", "scoring"),
}
FIRST_MINUTE = 60.0  # seconds after which the time left has to be right
SLACK = 5.0  # seconds added to the estimated and the actual time left: 1 s for 4 s is no error
TEST_ROWS = 5_000
CHUNK = 10_000  # rows that are drawn at once


class Cell(NamedTuple):
    """Size of a made-up data set: rows, words per row and classes."""

    rows: int
    words: int = 20
    classes: int = 4

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.words} words, {self.classes} classes"


SWEEPS: dict[str, tuple[Cell, ...]] = {
    "rows": tuple(Cell(rows) for rows in (5_000, 20_000, 80_000, 320_000, 1_000_000)),
    "words": (*(Cell(20_000, words) for words in (5, 20, 80, 200)), Cell(200_000, 200)),
    "classes": tuple(Cell(20_000, 20, classes) for classes in (2, 4, 20, 150, 1_000)),
}


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds, seconds and peak memory of a process that has ended."""

    cpu_seconds: float
    seconds: float
    megabytes: float


def run(  # noqa: PLR0913 - each argument is one option on the command line
    sweeps: Annotated[str, typer.Option(help="rows, words, classes; separated by commas.")] = (
        "rows,words,classes"
    ),
    systems: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SYSTEMS),
    min_rows: Annotated[int, typer.Option(help="Skip smaller data sets.")] = 0,
    max_rows: Annotated[int, typer.Option(help="Skip larger data sets.")] = 1_000_000,
    limit: Annotated[int, typer.Option(help="Seconds after which a process is stopped.")] = 1800,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Measure the cost of training and predicting as the data grows, ours and the alternatives'."""
    store = Records(records, force=force)
    compared = split_known_names("systems", systems, SYSTEMS)
    chosen = split_known_names("sweeps", sweeps, SWEEPS)
    if "lamatext" in compared:
        compile_kernels()
    cells = dict.fromkeys(cell for name in chosen for cell in SWEEPS[name])
    for cell in sorted(cell for cell in cells if min_rows <= cell.rows <= max_rows):
        with tempfile.TemporaryDirectory() as folder:
            for system in compared:
                _record_cell(store, cell, system, Path(folder), limit)
    rows = growth_rows(store.of(EXPERIMENT))
    columns = ("data", "system", "CPU s", "s", "peak MB", "predict CPU s", "accuracy")
    output.out().print(TerminalTable(columns, rows))
    output.out().print(TerminalTable(("data", *STAGES), stage_rows(store.of(EXPERIMENT))))
    for sweep in SWEEPS:
        slopes = exponents(store.of(EXPERIMENT), sweep, METRICS[0]).items()
        shown = ", ".join(f"{SYSTEMS[system]} {slope:.2f}" for system, slope in slopes)
        output.out().print(f"exponents of CPU seconds over {sweep}: {shown or 'no data'}")
    if len(rows) > len(SYSTEMS):
        draw(store.of(EXPERIMENT), records.parent / "figures")


def compile_kernels() -> None:
    """Train on a few texts, so that compiling the kernels, once per machine, is not measured."""
    with tempfile.TemporaryDirectory() as folder:
        train, test = Path(folder) / "train.parquet", Path(folder) / "test.parquet"
        for path, seed in ((train, 0), (test, 1)):
            write_made_up(path, Cell(300), seed=seed)
        measure_system("lamatext", train, test, Path(folder), limit=600)


def _record_cell(store: Records, cell: Cell, system: str, folder: Path, limit: int) -> None:
    waiting = Record(EXPERIMENT, str(cell), system, METRICS[0], 0.0, device=describe_cpu())
    stopped = replace(waiting, metric=OVER_LIMIT)
    if store.has(waiting.key) or store.has(stopped.key):
        return
    train, test = folder / "train.parquet", folder / "test.parquet"
    if not train.is_file():
        write_made_up(train, cell, seed=0)
        write_made_up(test, cell._replace(rows=TEST_ROWS), seed=1)
    measured = measure_system(system, train, test, folder, limit)
    if measured is None:
        store.add([replace(stopped, value=float(limit)).with_provenance()])
        return
    store.add(
        replace(waiting, metric=metric, value=value).with_provenance()
        for metric, value in measured.items()
    )


def measure_system(
    system: str, train: Path, test: Path, folder: Path, limit: int
) -> dict[str, float] | None:
    """Train a system on a made-up file and predict another; return its growth metrics.

    Return None if a process runs longer than ``limit`` seconds.
    """
    model = folder / system
    python, files = [sys.executable, "-m"], [str(train), str(test), str(model)]
    commands = [[*python, "benchmarks.growth", system, *files]]
    if system == "lamatext":
        options = ["--out", f"{model}.csv", "--force", "-q"]
        commands.append([*python, "lamatext", "predict", str(model), str(test), *options])
    usages: list[Usage] = []
    for command in commands:
        usage = run_process(command, folder, limit)
        if usage is None:
            return None
        usages.append(usage)
    result = json.loads((folder / f"{system}.json").read_text())
    predict_cpu = usages[-1].cpu_seconds if len(usages) > 1 else result["predict_cpu_seconds"]
    own = 0.0 if len(usages) > 1 else predict_cpu
    values = (usages[0].cpu_seconds - own, usages[0].seconds - own, usages[0].megabytes)
    return {
        **dict(zip(METRICS, (*values, predict_cpu), strict=True)),
        "accuracy": result["accuracy"],
        **{f"{stage}{STAGE_METRIC}": value for stage, value in result.get("stages", {}).items()},
        **result.get("errors", {}),
    }


def run_process(
    command: Sequence[str], folder: Path, limit: int, environment: Mapping[str, str] | None = None
) -> Usage | None:
    """Run a command with an empty cache and return its resource usage; None after ``limit`` s."""
    if environment is None:
        environment = {**os.environ, "LAMATEXT_CACHE": str(folder / "cache")}
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = started + limit
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.perf_counter() > deadline:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return None
        time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with status {process.returncode}")
    seconds = time.perf_counter() - started
    return Usage(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1e3)


class StageSeconds(Progress):
    """Progress that adds up the CPU seconds of the stages of training, by ``STAGES``.

    It also collects the estimates of the time left, to compare them with what was left.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._estimates: list[tuple[float, float]] = []  # seconds since the start, and left
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._current, self._since = "reading", 0.0  # importing libraries is a part of reading

    def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002 - not shown
        """Add the seconds since the last call to its stage."""
        now = time.process_time()
        self.seconds[self._current] += now - self._since
        starts = {start: stage for stage, starts in STAGES.items() for start in starts}
        self._current, self._since = starts.get(name.split()[0], self._current), now

    def time_left(self, seconds: float) -> None:
        """Collect an estimate of the time left."""
        self._estimates.append((time.monotonic() - self._started, seconds))

    def time_left_errors(self) -> dict[str, float]:
        """Return the factors by which estimates of the time left were wrong, up to now.

        They are the first estimate after a minute, the median of those after it and the worst of
        them, up to the end. ``SLACK`` is added to both times.
        """
        end = time.monotonic() - self._started
        factors = [
            (left + SLACK) / (end - at + SLACK)
            for at, left in self._estimates
            if at >= FIRST_MINUTE
        ]
        if not factors:
            return {}
        wrong = [max(factor, 1 / factor) for factor in factors]
        return {
            "time_left_first": wrong[0],
            "time_left_median": float(np.median(wrong)),
            "time_left_worst": max(wrong),
        }


def run_system(system: str, train: str, test: str, model: str) -> None:
    """Train a system of a growth cell in this process and write ``MODEL.json``.

    A baseline also predicts; a trained lamatext model does that in a process of its own.
    """
    from lamatext.data.sources import load_dataset

    if system == "lamatext":
        from lamatext.cli.main import run as run_command

        stages = StageSeconds()
        output.progress = lambda **_: nullcontext(stages)  # type: ignore[assignment]
        command = ["train", train, "--test", test, "--baselines", "none", "--out", model, "-q"]
        status = run_command(command)
        metrics = json.loads((Path(model) / "metrics.json").read_text())
        accuracy = metrics["test"]["accuracy"]
        stages.stage("end")
        errors = stages.time_left_errors()
        result = {"accuracy": accuracy, "stages": stages.seconds, "errors": errors}
        Path(f"{model}.json").write_text(json.dumps(result))
        sys.exit(status)
    from lamatext.baselines import train_baseline

    trained = train_baseline(system, load_dataset(train))
    before = time.process_time()
    row = trained.evaluate(load_dataset(test))
    result = {"accuracy": row.accuracy, "predict_cpu_seconds": time.process_time() - before}
    Path(f"{model}.json").write_text(json.dumps(result))


def write_made_up(path: Path, cell: Cell, *, seed: int) -> None:
    """Write made-up texts to a Parquet file: Zipf words, some of which depend on the class.

    A seventh of the words comes from 200 words of the class, which other classes use too; a
    twentieth of the labels is wrong. So accuracy is neither perfect nor chance.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = np.array([_made_up_word(number) for number in range(200_000)])
    background = _zipf(len(words))
    topics = np.random.default_rng(10).integers(50, 20_000, (cell.classes, 200))
    random = np.random.default_rng((seed, *cell))
    schema = pa.schema({"text": pa.string(), "label": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, cell.rows, CHUNK):
            shape = (min(CHUNK, cell.rows - start), cell.words)
            label = random.integers(0, cell.classes, shape[0])
            ids = np.searchsorted(background, random.random(shape))
            topic = topics[label[:, None], np.searchsorted(_zipf(200), random.random(shape))]
            ids = np.where(random.random(shape) < 1 / 7, topic, ids)
            wrong = random.random(shape[0]) < 0.05
            label = np.where(wrong, random.integers(0, cell.classes, shape[0]), label)
            texts = [" ".join(row) for row in words[ids].tolist()]
            columns = [texts, [f"class {number}" for number in label.tolist()]]
            writer.write_table(pa.table(columns, schema=schema))


def _zipf(size: int) -> np.ndarray:
    """Return cumulative probabilities of made-up words, the k-th proportional to 1/k."""
    cumulative = np.cumsum(1 / np.arange(1, size + 1))
    return np.asarray(cumulative / cumulative[-1])


def _made_up_word(number: int) -> str:
    consonants, vowels, word = "bdfgklmnprstvz", "aeiou", ""
    while number or not word:
        number, rest = divmod(number, len(consonants) * len(vowels))
        word += consonants[rest % len(consonants)] + vowels[rest // len(consonants)]
    return word


def growth_rows(records: Iterable[Record]) -> list[tuple[str, ...]]:
    """Return the growth table: one row per made-up data set and system."""
    values: dict[tuple[Cell, str], dict[str, float]] = {}
    for record in records:
        values.setdefault((_parse_cell(record.dataset), record.model), {})[record.metric] = (
            record.number
        )
    return [
        (
            str(cell),
            SYSTEMS[system],
            *(f"{found[metric]:,.4g}" if metric in found else "stopped" for metric in METRICS),
            f"{found['accuracy']:.3f}" if "accuracy" in found else "",
        )
        for (cell, system), found in sorted(values.items())
    ]


def stage_rows(records: Iterable[Record]) -> list[tuple[str, ...]]:
    """Return the share of each stage in the CPU seconds of training: one row per data set."""
    found = {(_parse_cell(r.dataset), r.metric): r.number for r in records if r.model == "lamatext"}
    cells = sorted({cell for cell, metric in found if metric == f"network{STAGE_METRIC}"})
    rows = []
    for cell in cells:
        seconds = [found[cell, f"{stage}{STAGE_METRIC}"] for stage in STAGES]
        rows.append((str(cell), *(f"{100 * value / sum(seconds):.0f} %" for value in seconds)))
    return rows


def growth_table(records: Iterable[Record]) -> str:
    """Format CPU seconds and peak memory of training, and CPU seconds of predicting, by data set.

    A process that was stopped is shown with the limit that it exceeded.
    """
    found = {(_parse_cell(r.dataset), r.model, r.metric): r.number for r in records}
    shown = ("train_cpu_seconds", "train_megabytes", "predict_cpu_seconds")

    def entry(cell: Cell, system: str, metric: str) -> str:
        if (cell, system, OVER_LIMIT) in found:
            limit = found[cell, system, OVER_LIMIT]
            return f"over {limit / 60:.0f} min" if metric == shown[0] else MISSING
        value = found.get((cell, system, metric))
        return MISSING if value is None else f"{value:,.3g}" if value < 100 else f"{value:,.0f}"

    head = [
        f"{title}, {unit}"
        for unit in ("CPU s", "MB", "predict CPU s")
        for title in SYSTEMS.values()
    ]
    rows = [
        [_describe(cell), *(entry(cell, system, metric) for metric in shown for system in SYSTEMS)]
        for cell in sorted({cell for cell, *_ in found})
    ]
    return markdown_table(["rows × words, classes", *head], rows)


def stage_table(records: Sequence[Record]) -> str:
    """Format each stage's share of our CPU seconds by data set, and the error of the time left.

    The error is the largest factor by which the time left was wrong after the first minute.
    """
    worst = {
        str(_parse_cell(r.dataset)): f"{r.number:.2f}"
        for r in records
        if r.metric == "time_left_worst"
    }
    rows = [
        [_describe(_parse_cell(cell)), *shares, worst.get(cell, MISSING)]
        for cell, *shares in stage_rows(records)
    ]
    return markdown_table(["rows × words, classes", *STAGES, "time left wrong by"], rows)


def exponent_table(records: Sequence[Record]) -> str:
    """Format the exponents of training CPU seconds and peak memory over each growth sweep."""
    metrics = {"CPU s": "train_cpu_seconds", "MB": "train_megabytes"}
    rows = []
    for sweep in SWEEPS:
        for unit, metric in metrics.items():
            slopes = exponents(records, sweep, metric)
            shown = [f"{slopes[name]:.2f}" if name in slopes else MISSING for name in SYSTEMS]
            rows.append([f"{unit} over {sweep}", *shown])
    return markdown_table(["exponent of", *SYSTEMS.values()], rows)


def _describe(cell: Cell) -> str:
    return f"{cell.rows:,} × {cell.words}, {cell.classes:,}"


def exponents(records: Iterable[Record], sweep: str, metric: str) -> dict[str, float]:
    """Return each system's exponent: the slope of ln(metric) over ln(size) along a growth sweep."""
    return {
        system: float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
        for system, sizes, values in _curves(records, sweep, metric)
        if len(sizes) > 1
    }


def _curves(
    records: Iterable[Record], sweep: str, metric: str
) -> Iterator[tuple[str, list[int], list[float]]]:
    """Yield each system's sizes and values along a sweep that changes only one size."""
    field = Cell._fields.index(sweep)
    base = SWEEPS[sweep][0]
    found = {(_parse_cell(r.dataset), r.model): r.number for r in records if r.metric == metric}
    for system in SYSTEMS:
        cells = [
            cell
            for cell in SWEEPS[sweep]
            if (cell, system) in found and _others(cell, field) == _others(base, field)
        ]
        if cells:
            yield system, [cell[field] for cell in cells], [found[cell, system] for cell in cells]


def _others(cell: Cell, field: int) -> tuple[int, ...]:
    return cell[:field] + cell[field + 1 :]


def _parse_cell(text: str) -> Cell:
    return Cell(*(int(part.split()[0]) for part in text.split(", ")))


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the growth of CPU seconds over rows, words and classes, and of memory over rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [(sweep, "train_cpu_seconds", "CPU s of training") for sweep in SWEEPS]
    panels.append(("rows", "train_megabytes", "peak MB of training"))
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (sweep, metric, unit) in zip(figure.subplots(1, 4), panels, strict=True):
        _draw_panel(axes, records, sweep, metric)
        axes.set_xlabel(sweep)
        axes.set_title(unit, fontsize=10)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"growth{ending}" for ending in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _short_number(value: int) -> str:
    if value >= 1_000_000:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1_000 else str(value)


def _draw_panel(axes: Any, records: Sequence[Record], sweep: str, metric: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    slopes, ticks = exponents(records, sweep, metric), set[int]()
    for system, sizes, values in _curves(records, sweep, metric):
        label = SYSTEMS[system] + (f", {slopes[system]:.2f}" if system in slopes else "")
        axes.loglog(sizes, values, "o-", label=label, color=COLORS[system], markersize=4)
        ticks |= set(sizes)
    shown = FuncFormatter(lambda value, _: f"{value:,.0f}")
    axes.set_xticks(sorted(ticks), [_short_number(size) for size in sorted(ticks)], fontsize=8)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(shown)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=7, frameon=False)


if __name__ == "__main__":
    run_system(*sys.argv[1:])
