"""The accuracy table of the paper: our mean over seeds, the published values, and intervals."""

from collections.abc import Sequence

import numpy as np

from lamatext.baselines import BASELINES
from paper.confidence_intervals import format_interval, interval_between
from paper.linear_baselines import BASELINE_NAMES
from paper.markdown import MISSING, dataset_heading, markdown_table, system_title, three_digits
from paper.published_results import DATASETS, SYSTEMS, published_accuracy
from paper.records import Record, Records

EARLIER = "accuracy-earlier"  # records of the protocol before the schedule was chosen
USUAL_SEEDS = 3
ROWS = (*SYSTEMS, *BASELINE_NAMES)
PAPER_ROWS = tuple(model for model in SYSTEMS if model != "minilm")


def row_name(record: Record) -> str:
    """Return the row of the accuracy table that a record belongs to."""
    return "minilm" if record.config.get("model.pretrained") == "minilm" else record.model


def accuracy_records(
    records: Records, dataset: str, model: str, *, experiment: str = "accuracy"
) -> list[Record]:
    """Return the test accuracies of a system on a data set, one record per seed."""
    return [
        record
        for record in records.of(experiment)
        if (record.dataset, row_name(record), record.metric) == (dataset, model, "accuracy")
    ]


def measured_datasets(records: Records, experiment: str = "accuracy") -> list[str]:
    """Return the columns of an accuracy table: the data sets that any system was trained on."""
    trained = {
        record.dataset
        for record in records.of(experiment)
        if record.model not in ("bert", *BASELINE_NAMES)
    }
    return [name for name in DATASETS if name in trained] or list(DATASETS)


def mean_accuracy(
    records: Records, dataset: str, model: str, *, experiment: str = "accuracy"
) -> float | None:
    """Return a system's mean test accuracy over seeds; None without a record."""
    found = accuracy_records(records, dataset, model, experiment=experiment)
    accuracies = [record.number for record in found]
    return float(np.mean(accuracies)) if accuracies else None


def seed_accuracy(accuracies: Sequence[Record], seed: int) -> float | None:
    """Return the accuracy of one seed; None without a record."""
    return next((record.number for record in accuracies if record.seed == seed), None)


def best_on_validation(
    records: Records, dataset: str, model: str, experiment: str = "accuracy"
) -> list[Record]:
    """Return the test accuracies of the run with the best validation accuracy.

    There are several if runs tie.
    """
    validation = {
        _run_of(record): record.number
        for record in records.of(experiment)
        if (record.dataset, row_name(record), record.metric)
        == (dataset, model, "validation_accuracy")
    }
    tested = accuracy_records(records, dataset, model, experiment=experiment)
    best = max((validation[_run_of(record)] for record in tested), default=None)
    return [record for record in tested if validation[_run_of(record)] == best]


def _run_of(record: Record) -> tuple[object, ...]:
    return record.key[:3] + record.key[4:]


def best_accuracy(
    records: Records, dataset: str, model: str, experiment: str = "accuracy"
) -> float | None:
    """Return the test accuracy of the run that is best on validation; of a tie, the mean."""
    best = [record.number for record in best_on_validation(records, dataset, model, experiment)]
    return float(np.mean(best)) if best else None


def format_ties(tied: Sequence[Record]) -> str:
    """Format the accuracy of the best run, or of all runs that tie with it: ``.959 = .962``."""
    values = sorted({three_digits(record.number) for record in tied})
    return " = ".join(values) or MISSING


def mean_and_spread(accuracies: Sequence[float]) -> str:
    """Format mean ± standard deviation of accuracies, and the number of seeds if it is not 3."""
    if not accuracies:
        return MISSING
    mean = three_digits(float(np.mean(accuracies)))
    seeds = "" if len(accuracies) == USUAL_SEEDS else f" ({len(accuracies)})"
    if len(accuracies) == 1:
        return mean + seeds
    return f"{mean} ± {three_digits(float(np.std(accuracies, ddof=1)))}{seeds}"


def accuracy_table(
    records: Records, experiment: str = "accuracy", models: Sequence[str] = PAPER_ROWS
) -> str:
    """Format the test accuracy of each system: mean ± standard deviation over seeds."""

    def cell(dataset: str, model: str) -> str:
        found = accuracy_records(records, dataset, model, experiment=experiment)
        if model in BASELINES and found:
            return three_digits(found[0].number)
        return mean_and_spread([record.number for record in found])

    columns = measured_datasets(records, experiment)
    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in columns)] for model in models
    ]
    return markdown_table(("test accuracy", *map(dataset_heading, columns)), rows)


def others_table(records: Records) -> str:
    """Format the test accuracy of the systems that are not in the paper."""
    return accuracy_table(records, models=[model for model in ROWS if model not in PAPER_ROWS])


def earlier_table(records: Records) -> str:
    """Format the test accuracies of the earlier protocol."""
    return accuracy_table(records, EARLIER, ROWS)


def published_table(records: Records) -> str:
    """Format the accuracy of the seed that is best on validation next to the published value."""
    return _next_to_published(records, "accuracy")


def folds_table(records: Records) -> str:
    """Format the accuracies of the paper's own 3-fold protocol next to the published values."""
    return _next_to_published(records, "folds")


def _next_to_published(records: Records, experiment: str) -> str:
    def cell(dataset: str, model: str) -> str:
        ours = format_ties(best_on_validation(records, dataset, model, experiment))
        return f"{ours} / {three_digits(published_accuracy(model, dataset))}"

    columns = measured_datasets(records, experiment)
    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in columns)]
        for model in SYSTEMS
        if model != "minilm"
    ]
    return markdown_table(("ours / paper", *map(dataset_heading, columns)), rows)


def intervals_table(records: Records) -> str:
    """Format the paired 95 % interval of LAMA+ctx's accuracy minus each other system's."""

    def cell(dataset: str, model: str) -> str:
        ours, theirs = (accuracy_records(records, dataset, name) for name in ("lama-ctx", model))
        return format_interval(interval_between(records, ours, theirs))

    columns = measured_datasets(records)
    rows = [
        [system_title(model), *(cell(dataset, model) for dataset in columns)]
        for model in ROWS
        if model != "lama-ctx"
    ]
    return markdown_table(("LAMA+ctx minus", *map(dataset_heading, columns)), rows)
