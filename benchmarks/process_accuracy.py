"""``python -m benchmarks process-accuracy``: losses and accuracy of training in several processes.

The same training runs without a process group and in groups that ``torchrun`` starts, over seeds.
Without dropout the losses must agree; with dropout, where every process draws masks of its own, the
mean accuracy must be within the spread of seeds. On a GPU (``--device cuda --processes 0,1``) the
group of one process exchanges its gradients over NCCL.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

import typer

from benchmarks.accuracy_jobs import (
    ALL_SEEDS,
    RECORDS,
    Device,
    Folder,
    Force,
    Seeds,
    device_name,
    split_names,
)
from paper.records import Record, Records

EXPERIMENT = "process_accuracy"
NO_DROPOUT = {"model.dropout": 0, "model.embedding_dropout": 0, "training.epochs": 2}


def run(  # noqa: PLR0913 - each argument is one option on the command line
    dataset: Annotated[str, typer.Option(help="A data set with a test part.")] = "mr",
    seeds: Seeds = ALL_SEEDS,
    processes: Annotated[
        str, typer.Option(help="Sizes of the group, separated by commas; 0 is no group.")
    ] = "0,2",
    dropout: Annotated[bool, typer.Option(help="The recipe's dropout, or none.")] = True,
    device: Device = "cpu",
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Train a data set in process groups of several sizes, and record losses and accuracy."""
    store = Records(records, force=force)
    settings: dict[str, object] = {} if dropout else dict(NO_DROPOUT)
    for size in map(int, split_names(processes)):
        for seed in map(int, split_names(seeds)):
            first = _record(dataset, size, "accuracy", seed, settings, device)
            if not store.has(first.key):
                metrics = train_in_group(dataset, size, seed, settings, device)
                store.add(group_records(metrics, dataset, size, seed, settings, device))
    for line in summarize(store.of(EXPERIMENT), dataset):
        print(line)


def train_in_group(
    dataset: str, size: int, seed: int, settings: dict[str, object], device: str
) -> dict[str, Any]:
    """Train in a group of processes, or without a group; return the contents of metrics.json."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(size), "-m"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", *(launcher if size else ()), "lamatext", "train", dataset]
        options = ["--baselines", "none", "--device", device, "--seed", str(seed), "--quiet"]
        values = [f"--set={name}={value}" for name, value in settings.items()]
        subprocess.run([*command, *options, *values, "--force", "--out", folder], check=True)
        metrics: dict[str, Any] = json.loads((Path(folder) / "metrics.json").read_text())
        return metrics


def group_records(
    metrics: dict[str, Any],
    dataset: str,
    size: int,
    seed: int,
    settings: dict[str, object],
    device: str,
) -> list[Record]:
    """Return the records of one training: test accuracy, losses and seconds of the epochs."""
    values = {
        "accuracy": metrics["test"]["accuracy"],
        "losses": [epoch["loss"] for epoch in metrics["history"]],
        "epoch_seconds": [epoch["seconds"] for epoch in metrics["history"]],
    }
    return [
        _record(dataset, size, metric, seed, settings, device, value).with_provenance()
        for metric, value in values.items()
    ]


def _record(  # noqa: PLR0913 - what identifies the training
    dataset: str,
    size: int,
    metric: str,
    seed: int,
    settings: dict[str, object],
    device: str,
    value: float | list[float] = 0.0,
) -> Record:
    name = f"group of {size}" if size else "no group"
    config = {**settings, "device": device}
    return Record(
        EXPERIMENT, dataset, name, metric, value, seed, device=device_name(device), config=config
    )


def summarize(records: Sequence[Record], dataset: str) -> list[str]:
    """Return a line on each group: mean accuracy with dropout, difference of losses without."""
    groups = sorted({r.model for r in records if r.model != "no group"})
    mine = [r for r in records if r.dataset == dataset]
    with_dropout = [r for r in mine if r.metric == "accuracy" and "model.dropout" not in r.config]
    without = [r for r in mine if r.metric == "losses" and "model.dropout" in r.config]
    lines = []
    for group in groups:
        ours = [r.number for r in with_dropout if r.model == group]
        alone = [r.number for r in with_dropout if r.model == "no group"]
        if ours and len(alone) > 1:
            lines.append(
                f"{group}: accuracy {fmean(ours):.4f}, without a group {fmean(alone):.4f} ± "
                f"{stdev(alone):.4f} over {len(alone)} seeds"
            )
        differences = [
            _largest_difference(one, other)
            for one in without
            for other in without
            if (one.model, other.model) == (group, "no group")
            and (one.seed, one.config) == (other.seed, other.config)
        ]
        if differences:
            lines.append(f"{group}: the losses differ by at most {max(differences):.1e}")
    return lines


def _largest_difference(one: Record, other: Record) -> float:
    pairs: Any = zip(one.value, other.value, strict=True)  # type: ignore[arg-type] # lists
    return float(max(abs(a - b) for a, b in pairs))
