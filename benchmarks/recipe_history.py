"""``python -m benchmarks recipe-history``: the default recipe next to that of an earlier commit.

``lamatext train`` of this checkout and of an earlier commit learn from the same part of the
training texts and are scored on a tenth of them that is held out. The test parts are not read.
A recipe may have settings that differ from the default's: ``now:training.epochs=8``.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.accuracy_jobs import (
    ALL_DATASETS,
    RECORDS,
    AccuracyJob,
    Datasets,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    job_record,
    run_accuracy_jobs,
    split_known_names,
    split_names,
)
from benchmarks.recipe_ablation import split_training_part
from benchmarks.training_cost import (
    BEFORE,
    BEFORE_COMMIT,
    NOW,
    REPOSITORY,
    checkout_environment,
    extract_commit,
)
from lamatext.data.dataset import Dataset
from lamatext.recipes import load_recipe
from lamatext.saved.format import folder_size
from paper.markdown import MISSING, markdown_table
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "recipe_history"
SYSTEMS = (NOW, BEFORE)
FIVE_SEEDS = "0,1,2,3,4"
SHOWN_DATASETS = ("r8", "imdb", "news", "clothing", "mr")
# Options of ``lamatext train`` that were renamed since the earlier commit.
OPTIONS = {NOW: ("--validation", "--baselines"), BEFORE: ("--valid", "--rivals")}


def run(  # noqa: PLR0913 - each argument is one option on the command line
    datasets: Datasets = ALL_DATASETS,
    systems: Annotated[
        str, typer.Option(help="Of now, before; each with :SETTING=VALUE to change settings.")
    ] = ",".join(SYSTEMS),
    seeds: Seeds = FIVE_SEEDS,
    before: Annotated[
        Path | None,
        typer.Option(help=f"Checkout of {BEFORE_COMMIT}; none takes it from git."),
    ] = None,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Score the default recipe of this checkout and of an earlier commit on held-out texts."""
    store = Records(records, force=force)
    compared = split_names(systems)
    split_known_names("systems", ",".join(name.split(":")[0] for name in compared), SYSTEMS)
    with tempfile.TemporaryDirectory() as folder:
        if before is None and any(name.startswith(BEFORE) for name in compared):
            before = extract_commit(BEFORE_COMMIT, Path(folder))
        jobs = [
            AccuracyJob(dataset, system, int(seed))
            for dataset in split_names(datasets)
            for system in compared
            for seed in split_names(seeds)
        ]
        measure = partial(measure_job, before=before)
        first = partial(job_record, EXPERIMENT, metric="accuracy")
        run_accuracy_jobs(store, jobs, measure, first, device=device, workers=workers)
    print(history_table(store.of(EXPERIMENT)))


def measure_job(job: AccuracyJob, device: str, *, before: Path | None) -> list[Record]:
    """Train one commit's default recipe and return the records of its held-out scores."""
    system, *settings = job.model.split(":")
    recipe = load_recipe("default").with_values({"seed": job.seed})
    parts = split_training_part(load_paper_dataset(job.dataset), recipe)
    with tempfile.TemporaryDirectory() as folder:
        train, validation, held_out = (
            _write(part, Path(folder) / f"{name}.parquet")
            for name, part in zip(parts._fields, parts, strict=True)
        )
        model, (valid_option, baselines_option) = Path(folder) / "model", OPTIONS[system]
        command = [sys.executable, "-m", "lamatext", "train", train, valid_option, validation]
        command += ["--test", held_out, baselines_option, "none", "--seed", str(job.seed)]
        command += [f"--set={setting}" for setting in settings]
        command += ["--device", device, "--quiet", "--out", str(model)]
        checkout = REPOSITORY if system == NOW else before
        environment = checkout_environment(checkout, Path(folder))
        run_training(command, environment)
        scores = json.loads((model / "metrics.json").read_text())["test"]
        values = {name: scores[name] for name in ("accuracy", "calibration_error")}
        values["bytes"] = folder_size(model)
    return [_record(job, name, value, device) for name, value in values.items()]


def run_training(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run one commit's ``lamatext train`` in a process of its own."""
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def _record(job: AccuracyJob, metric: str, value: float, device: str) -> Record:
    record = replace(job_record(EXPERIMENT, job, metric), value=value, device=device_name(device))
    record = record.with_provenance()
    return record if job.model.startswith(NOW) else replace(record, commit=BEFORE_COMMIT)


def _write(part: Dataset, path: Path) -> str:
    columns = {"text": part.texts, "label": part.require_labels()}
    pq.write_table(pa.table(columns), path)
    return str(path)


def history_table(records: Sequence[Record]) -> str:
    """Return the table of held-out accuracies: mean, standard deviation and number of seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.metric == "accuracy":
            found.setdefault((record.model, record.dataset), []).append(record.number)
    rows = []
    for system in sorted({model for model, _ in found}, key=lambda name: (name != NOW, name)):
        values = [found.get((system, dataset), []) for dataset in SHOWN_DATASETS]
        mean = f"{fmean(map(fmean, values)):.4f}" if all(values) else MISSING
        title = system.replace(BEFORE, BEFORE_COMMIT)
        rows.append([title, *(_spread(each) for each in values), mean])
    return markdown_table(["recipe", *SHOWN_DATASETS, "mean"], rows)


def _spread(accuracies: Sequence[float]) -> str:
    if len(accuracies) < 2:
        return MISSING
    return f"{fmean(accuracies):.4f} ± {stdev(accuracies):.4f} ({len(accuracies)})"
