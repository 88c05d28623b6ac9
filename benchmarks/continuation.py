"""``python -m benchmarks continuation``: what does a continued model gain, and what does it forget?

A model is trained on old texts and continued on new ones, in three situations: more texts of the
same kind (two halves of mr), other texts with the same classes (imdb, then mr), and new classes (r8
without two of its classes, then with all). All texts are of the official training parts, from which
``lamatext train`` holds out a tenth as test data: the official test parts are not read.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.accuracy_jobs import (
    ALL_SEEDS,
    RECORDS,
    AccuracyJob,
    Device,
    Folder,
    Force,
    Seeds,
    Workers,
    device_name,
    job_record,
    run_accuracy_jobs,
    split_names,
)
from lamatext.data.dataset import Dataset
from lamatext.pipeline import StartModel, split_dataset, train_and_score
from lamatext.progress import SILENT
from lamatext.recipes import continue_recipe, resolve_recipe
from lamatext.saved.format import load_config, saved_recipe
from lamatext.settings import Recipe
from paper.official_datasets import load_paper_dataset
from paper.records import Record, Records

EXPERIMENT = "continuation"
SITUATIONS = ("more texts", "other texts", "new classes")
DATASETS = {"more texts": "mr", "other texts": "imdb, mr", "new classes": "r8"}
NEW_CLASSES = ("crude", "trade")
TEXTS = 3500  # old and new texts each


def draw_texts(situation: str, seed: int) -> tuple[Dataset, Dataset]:
    """Draw the old and the new texts of a situation."""
    if situation == "other texts":
        return _shuffled("imdb", seed).take(np.arange(TEXTS)), _shuffled("mr", seed).take(
            np.arange(TEXTS)
        )
    whole = _shuffled("mr" if situation == "more texts" else "r8", seed)
    half = len(whole) // 2
    old, new = whole.take(np.arange(half)), whole.take(np.arange(half, len(whole)))
    if situation == "new classes":
        labels = np.array(old.require_labels().to_pylist())
        old = old.take(np.flatnonzero(~np.isin(labels, NEW_CLASSES)))
    return old, new


def _shuffled(name: str, seed: int) -> Dataset:
    whole = load_paper_dataset(name)
    return whole.take(np.random.default_rng(seed).permutation(len(whole)))


def measure_job(job: AccuracyJob, device: str) -> list[Record]:
    """Train a model on old texts, continue it on new ones and record the scores before and after.

    ``job.model`` is the situation. For comparison, a model is trained on the new texts alone.
    """
    assert job.seed is not None
    old, new = draw_texts(job.model, job.seed)
    recipe = resolve_recipe(recipe="default", values={"seed": job.seed})
    old_splits = split_dataset(old, None, None, recipe)
    new_splits = split_dataset(new, None, None, recipe)
    values: dict[str, float | list[float]] = {}
    with TemporaryDirectory() as folder:
        start, after, alone = (Path(folder) / name for name in ("old", "after", "alone"))
        train_and_score(old_splits, recipe, start, SILENT, device=device)
        continued = replace(new_splits, start=StartModel(start, (old_splits.test,)))
        run_recipe = continue_recipe(_saved_recipe(start), {}, again=False)
        result = train_and_score(continued, run_recipe, after, SILENT, device=device)
        scratch = train_and_score(new_splits, recipe, alone, SILENT, device=device)
    for change in result.changes:
        data = "old" if change.is_old else "new"
        values |= {
            f"{data}_before": change.before,
            f"{data}_before_interval": list(change.before_interval),
            f"{data}_after": change.after,
            f"{data}_after_interval": list(change.after_interval),
            f"{data}_texts": float(change.texts),
        }
    values["new_alone"] = scratch.scores.accuracy
    return [
        Record(
            EXPERIMENT, DATASETS[job.model], job.model, name, value, job.seed,
            device=device_name(device),
        ).with_provenance()
        for name, value in values.items()
    ]  # fmt: skip


def _saved_recipe(folder: Path) -> Recipe:
    return saved_recipe(folder, load_config(folder))


def run(
    seeds: Seeds = ALL_SEEDS,
    device: Device = "auto",
    workers: Workers = 1,
    records: Folder = RECORDS,
    force: Force = False,
) -> None:
    """Record the scores of continued models before and after, on old and new texts."""
    run_accuracy_jobs(
        Records(records, force=force),
        [
            AccuracyJob(DATASETS[situation], situation, int(seed))
            for seed in split_names(seeds)
            for situation in SITUATIONS
        ],
        measure_job,
        partial(job_record, EXPERIMENT, metric="new_alone"),
        device=device,
        workers=workers,
    )
