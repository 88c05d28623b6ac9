"""``python -m benchmarks tune``: does ``lamatext tune`` bring more than the default recipe?

For each data set and seed the search runs for a given time and chooses on validation texts alone.
Its model and the default recipe, trained on the same texts with the same seed, are then scored once
on the test part. The search must not lose more than the spread of the default's seeds.
"""

import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import typer

from benchmarks.accuracy_jobs import RECORDS, Datasets, Device, Folder, Force, Seeds, split_names
from benchmarks.costs import describe_cpu
from lamatext.pipeline import read_splits, score_saved_model, train_and_score
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from lamatext.trials import Limits
from lamatext.tuning import (
    TuningTask,
    finish_study,
    open_study,
    run_trials,
    tuning_splits,
)
from paper.records import Record, Records

EXPERIMENT = "tuning"
DATASETS = "mr,clothing,r8"


def measure(dataset: str, seed: int, seconds: float, device: str) -> list[Record]:
    """Search and train the default recipe on one data set with one seed; score both on the test."""
    recipe = resolve_recipe(values={"seed": seed})
    splits = tuning_splits(read_splits(dataset, recipe), seed)
    with tempfile.TemporaryDirectory() as folder:
        task = TuningTask(
            *(splits, recipe, frozenset(("seed",)), "accuracy", Limits(seconds), Path(folder)),
            device,
            time.monotonic(),
        )
        study = open_study(task)
        run_trials(task, study, lambda _: None, SILENT)
        result = finish_study(task, study, SILENT)
        used = time.monotonic() - task.started
        tuned, _ = score_saved_model(result.folder, splits.test)
    default = result.final if result.choice.trial.is_default else None
    if default is None:  # otherwise the search has trained the same model
        with tempfile.TemporaryDirectory() as folder:
            default = train_and_score(splits, recipe, Path(folder), SILENT, device=device)
    values = {
        ("tuned", "accuracy"): tuned.accuracy,
        ("tuned", "macro_f1"): tuned.macro_f1,
        ("tuned", "bytes"): float(result.bytes),
        ("tuned", "latency_ms"): result.latency_ms,
        ("tuned", "seconds"): used,
        ("tuned", "trials"): float(len(result.trials)),
        ("tuned", "is_default"): float(result.choice.trial.is_default),
        ("tuned", "is_trained_on_everything"): float(result.final is not None),
        ("default", "accuracy"): default.scores.accuracy,
        ("default", "macro_f1"): default.scores.macro_f1,
    }
    return [
        _record(dataset, model, metric, value, seed, seconds).with_provenance()
        for (model, metric), value in values.items()
    ]


def _record(
    dataset: str, model: str, metric: str, value: float, seed: int, seconds: float
) -> Record:
    config = {"time": seconds}
    return Record(
        EXPERIMENT, dataset, model, metric, value, seed, device=describe_cpu(), config=config
    )


def summarize(records: list[Record], dataset: str) -> str:
    """Return one line on a data set: the mean test accuracies, and whether the search lost any."""
    scores = {
        model: [
            record.number
            for record in records
            if (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
        ]
        for model in ("tuned", "default")
    }
    spread = stdev(scores["default"]) if len(scores["default"]) > 1 else 0.0
    tuned, default = fmean(scores["tuned"]), fmean(scores["default"])
    verdict = "holds" if tuned >= default - spread else "does not hold"
    return (
        f"{dataset}: tuned {tuned:.4f}, default {default:.4f} ± {spread:.4f} over "
        f"{len(scores['default'])} seeds; no lower than the default minus its spread: {verdict}"
    )


def run(
    datasets: Datasets = DATASETS,
    seeds: Seeds = "0,1,2",
    seconds: Annotated[float, typer.Option(help="The time of each search.")] = 600.0,
    device: Device = "cpu",
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Compare the search with the default recipe on the test part, after choosing on validation."""
    store = Records(records, force=force)
    for dataset in split_names(datasets):
        for seed in map(int, split_names(seeds)):
            if not store.has(_record(dataset, "tuned", "accuracy", 0.0, seed, seconds).key):
                store.add(measure(dataset, seed, seconds, device))
        print(summarize(store.of(EXPERIMENT), dataset), flush=True)
