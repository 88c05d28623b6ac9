"""What ``lamatext train`` shows: the data, the leaderboard, a page of examples."""

from pathlib import Path

import numpy as np

from lamatext.atomic_write import write_text
from lamatext.baselines import Row
from lamatext.cli.output import out, table
from lamatext.data.dataset import Dataset
from lamatext.data.summary import summarize_dataset
from lamatext.pipeline import Splits, TrainingResult
from lamatext.progress import Progress
from lamatext.runtime.predictor import Predictor
from lamatext.views.explanation_page import page

EXAMPLES = 40  # texts on the page


def show_data(parts: Splits, progress: Progress) -> None:
    """Which columns were read, and what is in them."""
    train = parts.train
    progress.note(
        f"{train.source}: texts from the column '{train.text_column}', "
        f"labels from '{train.label_column}'"
    )
    valid = "" if parts.validation is None else f", {len(parts.validation):,} to validate"
    progress.note(f"{len(train):,} texts to train{valid}, {len(parts.test):,} to test")
    for line in summarize_dataset(train, parts.test).lines():
        progress.note(line)


def show_outcome(outcome: TrainingResult) -> None:
    """The leaderboard, and who won."""
    console = out()
    console.print(leaderboard(outcome.leaderboard))
    console.print(verdict(outcome.leaderboard), markup=False)
    console.print(f"Saved to {outcome.folder}", markup=False)


def leaderboard(rows: list[Row]) -> object:
    """The rows, the most accurate first."""
    columns = ("model", "accuracy", "macro-F1", "size", "texts/s", "training")
    return table(
        columns,
        [
            (
                row.model,
                f"{row.accuracy:.4f}",
                f"{row.macro_f1:.4f}",
                f"{row.bytes / 1e6:.1f} MB",
                f"{row.texts_per_second:,.0f}",
                f"{row.seconds:.1f} s",
            )
            for row in sorted(rows, key=lambda row: -row.accuracy)
        ],
    )


def verdict(rows: list[Row]) -> str:
    """Who won, in one sentence; rows[0] is ours."""
    own, baselines = rows[0], rows[1:]
    if not baselines:
        return f"{own.model}: {own.accuracy:.1%} of the test texts are right."
    best = max(baselines, key=lambda row: row.accuracy)
    gap = abs(own.accuracy - best.accuracy) * 100
    if own.accuracy > best.accuracy:
        return f"{own.model} wins: {gap:.1f} points above {best.model}."
    if own.accuracy < best.accuracy:
        return f"{best.model} wins: {gap:.1f} points above {own.model}."
    return f"{own.model} and {best.model} are equal."


def write_examples(outcome: TrainingResult, test: Dataset, path: Path) -> None:
    """A page of test texts with their words shaded, mistakes among them."""
    predictor = Predictor.load(outcome.folder)
    rows = np.random.default_rng(0).permutation(len(test))[:EXAMPLES]
    chosen = test.take(np.sort(rows))
    truths = [] if chosen.labels is None else chosen.labels.to_pylist()
    explanations = [predictor.explain(text) for text in chosen.texts.to_pylist()]
    title = f"{test.source}: {len(explanations)} test texts"
    subtitle = f"{outcome.scores.accuracy:.1%} of {outcome.scores.texts:,} test texts are right"
    write_text(path, page(explanations, title, subtitle, truths=truths))
