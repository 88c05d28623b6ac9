"""``python -m benchmarks tune``: does ``lamatext tune`` bring more than the default recipe?

For each data set and seed the search runs for a given time and chooses on validation texts alone.
Its model is then scored once on the test part, as the leaderboard has scored the default recipe,
trained on the same texts. The search must not lose more than the spread of the default's seeds.
"""

import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

import typer

from benchmarks.accuracy_jobs import RECORDS, Datasets, Device, Folder, Force, Seeds, split_names
from benchmarks.costs import describe_cpu
from lamatext.errors import DataError
from lamatext.pipeline import DataSources, read_splits, score_saved_model
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
EARLIER = "tuned, earlier rule"  # chose a trial by a quantile of the normal distribution
TITLES = {EARLIER: "search, earlier rule (default kept)", "tuned": "search (default kept)"}


def measure(dataset: str, seed: int, seconds: float, device: str) -> list[Record]:
    """Search on one data set with one seed; score the model that it saves on the test part."""
    recipe = resolve_recipe(values={"seed": seed})
    splits = tuning_splits(read_splits(DataSources(dataset), recipe), seed)
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
        scores, _ = score_saved_model(result.folder, splits.final.test)
    values = {
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "bytes": float(result.bytes),
        "latency_ms": result.latency_ms,
        "seconds": used,
        "trials": float(len(result.trials)),
        "is_default": float(result.choice.trial.is_default),
        "is_trained_on_everything": float(result.final is not None),
    }
    return [
        _record(dataset, metric, value, seed, seconds).with_provenance()
        for metric, value in values.items()
    ]


def _record(dataset: str, metric: str, value: float, seed: int, seconds: float) -> Record:
    config = {"time": seconds}
    return Record(
        EXPERIMENT, dataset, "tuned", metric, value, seed, device=describe_cpu(), config=config
    )


def summarize(tuned: list[Record], leaderboard: list[Record], dataset: str) -> str:
    """Return one line on a data set: the mean test accuracies, and whether the search lost any."""
    ours, default = _values(tuned, "tuned", dataset, "accuracy"), _defaults(leaderboard, dataset)
    mean, spread = fmean(default), stdev(default) if len(default) > 1 else 0.0
    verdict = "holds" if fmean(ours) >= mean - spread else "does not hold"
    return (
        f"{dataset}: tuned {fmean(ours):.4f} over {len(ours)} seeds, default {mean:.4f} ± "
        f"{spread:.4f} over {len(default)}; no lower than the default minus its spread: {verdict}"
    )


def _values(records: list[Record], model: str, dataset: str, metric: str) -> list[float]:
    wanted = (dataset, model, metric)
    return [r.number for r in records if (r.dataset, r.model, r.metric) == wanted]


def _defaults(leaderboard: list[Record], dataset: str) -> list[float]:
    """Return the leaderboard's accuracies of the default recipe; an error if it has none."""
    if found := _values(leaderboard, "default", dataset, "accuracy"):
        return found
    raise DataError(
        f"leaderboard.json: no accuracy of the default recipe on {dataset}. Run "
        f"`python -m benchmarks leaderboard --datasets {dataset}` first."
    )


def tuning_table(folder: Path = RECORDS) -> str:
    """Return the table of test accuracies of the default recipe and of searches, as Markdown."""
    records, leaderboard = Records(folder).of(EXPERIMENT), Records(folder).of("leaderboard")
    lines = [
        f"| data set | default recipe | minus its deviation | {' | '.join(TITLES.values())} |",
        "|---|--:|--:|--:|--:|",
    ]
    for dataset in split_names(DATASETS):
        default = _defaults(leaderboard, dataset)
        cells = [
            f"{fmean(default):.4f} ± {stdev(default):.4f}",
            f"{fmean(default) - stdev(default):.4f}",
            *(_search_cell(records, model, dataset) for model in TITLES),
        ]
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _search_cell(records: list[Record], model: str, dataset: str) -> str:
    """Format the mean accuracy of searches, and how many of them kept the default recipe."""
    values = _values(records, model, dataset, "accuracy")
    kept = sum(_values(records, model, dataset, "is_default"))
    return f"{fmean(values):.4f} ({kept:.0f} of {len(values)})" if values else "not measured"


def run(
    datasets: Datasets = DATASETS,
    seeds: Seeds = "0,1,2",
    seconds: Annotated[float, typer.Option(help="The time of each search.")] = 600.0,
    device: Device = "cpu",
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Compare the search with the default recipe on the test part, after choosing on validation."""
    store, defaults = Records(records, force=force), Records(RECORDS).of("leaderboard")
    for dataset in split_names(datasets):
        for seed in map(int, split_names(seeds)):
            if not store.has(_record(dataset, "accuracy", 0.0, seed, seconds).key):
                store.add(measure(dataset, seed, seconds, device))
        print(summarize(store.of(EXPERIMENT), defaults, dataset), flush=True)
