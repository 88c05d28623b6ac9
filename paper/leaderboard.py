"""The default recipe beside what a user would pick instead, on every data set at hand.

Each model learns from the training part alone; the test part is scored once, by the saved model.
"""

import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from lamatext.baselines import BASELINES, Row, measure, row_of
from lamatext.data.dataset import Dataset
from lamatext.data.labels import ClassIndices, LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.pipeline import Splits, fit_recipe, score_saved_model
from lamatext.progress import SILENT, Progress
from lamatext.provenance import commit, versions
from lamatext.recipes import resolve_recipe
from lamatext.saved.format import folder_size
from lamatext.settings import Recipe
from paper.pool import Job, device_name, listed, name_of, options, run_given
from paper.records import Record, Results

EXPERIMENT = "leaderboard"
METRICS = ("accuracy", "macro_f1", "calibration_error", "bytes", "texts_per_second", "seconds")

# Our rows: a name, the recipe's model (None: the default recipe), and what differs from its recipe.
OURS: dict[str, tuple[str | None, dict[str, object]]] = {
    "default": (None, {}),
    "lama-ctx": ("paper/lama-ctx", {}),
}


def recipe_for(model: str, seed: int) -> Recipe:
    """The recipe of one of our rows."""
    name, values = OURS[model]
    return resolve_recipe(recipe=name, values={**values, "seed": seed})


def run_ours(
    results: Results,
    dataset: str,
    model: str,
    seed: int,
    *,
    device: str = "auto",
    progress: Progress = SILENT,
) -> None:
    """Train one of our rows with one seed and score it once, unless that was done before."""
    first = _record(dataset, model, "accuracy", 0.0, seed)
    if results.has(first.key):
        return
    recipe = recipe_for(model, seed)
    parts = Splits(load_dataset(dataset), None, load_dataset(dataset, split="test"))
    started = time.perf_counter()
    classifier = fit_recipe(recipe, parts, progress, device=device)
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(folder)
        scores, speed = score_saved_model(Path(folder), parts.test)
        row = row_of(model, scores, folder_size(Path(folder)), speed, seconds)
    _keep(results, dataset, model, row, seed, device=device_name(device))


def run_baseline(results: Results, dataset: str, name: str) -> None:
    """Train a baseline and score it once, unless that was done before; none of them has a seed."""
    if results.has(_record(dataset, name, "accuracy", 0.0, None).key):
        return
    train, test = load_dataset(dataset), load_dataset(dataset, split="test")
    encoder = LabelEncoder.fit(train.require_labels())
    row = measure(name, _encoded(train, encoder), _encoded(test, encoder), encoder.classes)
    _keep(results, dataset, name, row, None, device="cpu")


def _encoded(dataset: Dataset, encoder: LabelEncoder) -> tuple[list[str], ClassIndices]:
    indices = encoder.encode(dataset.require_labels(), source=dataset.source)
    return dataset.texts.to_pylist(), indices


def _keep(
    results: Results, dataset: str, model: str, row: Row, seed: int | None, *, device: str
) -> None:
    values = asdict(row)
    results.add(
        [
            _record(dataset, model, metric, float(values[metric]), seed, device=device)
            for metric in METRICS
        ]
    )


def _record(
    dataset: str, model: str, metric: str, value: float, seed: int | None, *, device: str = ""
) -> Record:
    made = Record(EXPERIMENT, name_of(dataset), model, metric, value, seed, device=device)
    return replace(made, versions=versions(), commit=commit()) if device else made


def train_and_score(results: Results, job: Job, device: str) -> None:
    """Train one of our rows, or a baseline."""
    if job.seed is None:
        run_baseline(results, job.dataset, job.model)
    else:
        run_ours(results, job.dataset, job.model, job.seed, device=device)


def main() -> None:
    """``python -m paper.leaderboard``: train our rows and the baselines side by side."""
    parser = options(__doc__)
    parser.add_argument("--models", type=listed, default=["default"], help=f"of {', '.join(OURS)}")
    parser.add_argument("--baselines", type=listed, default=[], help=f"of {', '.join(BASELINES)}")
    given = parser.parse_args()
    rows: list[tuple[str, int | None]] = [
        *((model, seed) for model in given.models for seed in given.seeds),
        *((name, None) for name in given.baselines),
    ]
    jobs = [Job(dataset, model, seed) for dataset in given.sets for model, seed in rows]
    run_given(train_and_score, jobs, EXPERIMENT, given)


if __name__ == "__main__":
    main()
