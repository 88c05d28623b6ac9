"""The accuracy table of the paper: our mean over seeds, the published values, and intervals."""

from collections.abc import Sequence

import numpy as np

from lamatext.baselines import BASELINES
from paper.confidence_intervals import format_interval, interval_between
from paper.linear_baselines import BASELINE_NAMES
from paper.markdown import MISSING, dataset_heading, markdown_table, system_title, three_digits
from paper.published_results import DATASETS, SYSTEMS, published_accuracy
from paper.records import Record, Records

USUAL_SEEDS = 3
ROWS = (*SYSTEMS, *BASELINE_NAMES)


def accuracy_records(records: Records, dataset: str, model: str) -> list[Record]:
    """Return the test accuracies of a system on a data set, one record per seed."""
    return [
        record
        for record in records.of("accuracy")
        if (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
    ]


def mean_accuracy(records: Records, dataset: str, model: str) -> float | None:
    """Return a system's mean test accuracy over seeds; None without a record."""
    accuracies = [record.number for record in accuracy_records(records, dataset, model)]
    return float(np.mean(accuracies)) if accuracies else None


def seed_accuracy(accuracies: Sequence[Record], seed: int) -> float | None:
    """Return the accuracy of one seed; None without a record."""
    return next((record.number for record in accuracies if record.seed == seed), None)


def best_validation_accuracy(records: Records, dataset: str, model: str) -> float | None:
    """Return the test accuracy of the seed with the best validation accuracy.

    If several seeds tie on validation, their test accuracies are averaged.
    """
    validation = {
        record.seed: record.number
        for record in records.of("accuracy")
        if (record.dataset, record.model, record.metric) == (dataset, model, "validation_accuracy")
    }
    tested = [r for r in accuracy_records(records, dataset, model) if r.seed in validation]
    if not tested:
        return None
    best = max(validation[record.seed] for record in tested)
    return float(np.mean([r.number for r in tested if validation[r.seed] == best]))


def mean_and_spread(accuracies: Sequence[float]) -> str:
    """Format mean ± standard deviation of accuracies, and the number of seeds if it is not 3."""
    if not accuracies:
        return MISSING
    mean = three_digits(float(np.mean(accuracies)))
    seeds = "" if len(accuracies) == USUAL_SEEDS else f" ({len(accuracies)})"
    if len(accuracies) == 1:
        return mean + seeds
    return f"{mean} ± {three_digits(float(np.std(accuracies, ddof=1)))}{seeds}"


def accuracy_table(records: Records) -> str:
    """Format the test accuracy of every system: mean ± standard deviation over seeds."""

    def cell(dataset: str, model: str) -> str:
        accuracies = [record.number for record in accuracy_records(records, dataset, model)]
        if model in BASELINES and accuracies:
            return three_digits(accuracies[0])
        return mean_and_spread(accuracies)

    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in DATASETS)] for model in ROWS
    ]
    return markdown_table(("test accuracy", *map(dataset_heading, DATASETS)), rows)


def published_table(records: Records) -> str:
    """Format the accuracy of the seed that is best on validation next to the published value."""

    def cell(dataset: str, model: str) -> str:
        ours = best_validation_accuracy(records, dataset, model)
        return f"{three_digits(ours)} / {three_digits(published_accuracy(model, dataset))}"

    columns = [name for name, (paper_name, _) in DATASETS.items() if paper_name is not None]
    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in columns)] for model in SYSTEMS
    ]
    return markdown_table(("ours / paper", *map(dataset_heading, columns)), rows)


def intervals_table(records: Records) -> str:
    """Format the paired 95 % interval of LAMA+ctx's accuracy minus each other system's."""

    def cell(dataset: str, model: str) -> str:
        ours, theirs = (accuracy_records(records, dataset, name) for name in ("lama-ctx", model))
        return format_interval(interval_between(records, ours, theirs))

    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in DATASETS)]
        for model in ROWS
        if model != "lama-ctx"
    ]
    return markdown_table(("LAMA+ctx minus", *map(dataset_heading, DATASETS)), rows)
