"""The tables of accuracies, from records alone: the main one, its intervals, heads, ablations."""

import numpy as np

from lamatext.baselines import BASELINES
from paper.instead import NAMES as BASELINE_NAMES
from paper.intervals import changed_scores, difference, in_points, scores, than
from paper.protocol import (
    ABLATED_ON,
    ABLATIONS,
    CHOSEN_FOR,
    CHOSEN_ON,
    HEADS,
    PROBES,
    SEEDS,
    chosen_heads,
    fold_scores,
)
from paper.published import DATASETS, SYSTEMS
from paper.published import accuracy as published
from paper.records import Record, Results
from paper.tables import NONE, heading, markdown, share, title


def systems_with_baselines() -> list[str]:
    """The rows of the main table."""
    return [*SYSTEMS, *BASELINE_NAMES]


def mean_and_spread(values: list[float]) -> str:
    """Over the seeds; how many there are where not all are there."""
    if not values:
        return NONE
    spread = f" ± {share(float(np.std(values, ddof=1)))}" if len(values) > 1 else ""
    seeds = "" if len(values) == len(SEEDS) else f" ({len(values)})"
    return f"{share(float(np.mean(values)))}{spread}{seeds}"


def accuracy_table(results: Results) -> str:
    """Mean and spread over seeds; how many seeds where it is not three."""

    def cell(dataset: str, model: str) -> str:
        values = [record.number for record in scores(results, dataset, model)]
        return share(values[0]) if values and model in BASELINES else mean_and_spread(values)

    rows = [
        [title(model), *(cell(dataset, model) for dataset in DATASETS)]
        for model in systems_with_baselines()
    ]
    return markdown(("system", *map(heading, DATASETS)), rows)


def beside_paper_table(results: Results) -> str:
    """The seed that is best on validation beside the published figure."""

    def cell(dataset: str, model: str) -> str:
        best = best_on_validation(results, dataset, model)
        return f"{share(best)} / {share(published(model, dataset))}"

    columns = [name for name in DATASETS if DATASETS[name][0] is not None]
    rows = [[title(model), *(cell(dataset, model) for dataset in columns)] for model in SYSTEMS]
    return markdown(("ours / paper", *map(heading, columns)), rows)


def best_on_validation(results: Results, dataset: str, model: str) -> float | None:
    """The test accuracy of the seed with the best validation accuracy."""
    valid = {
        record.seed: record.number
        for record in results.of("accuracy")
        if (record.dataset, record.model, record.metric) == (dataset, model, "valid_accuracy")
    }
    tested = [r for r in scores(results, dataset, model) if r.seed in valid]
    if not tested:
        return None
    return max(tested, key=lambda record: valid[record.seed]).number


def intervals_table(results: Results) -> str:
    """LAMA+ctx less each other system, in points: paired bootstrap over test texts, 95 %."""
    others = [name for name in systems_with_baselines() if name != "lama-ctx"]
    rows = [
        [title(model), *(in_points(than(results, dataset, model)) for dataset in DATASETS)]
        for model in others
    ]
    return markdown(("LAMA+ctx less", *map(heading, DATASETS)), rows)


def heads_table(results: Results) -> str:
    """Mean validation accuracy over the folds by heads; the chosen number is bold."""
    records, rows = results.of("heads"), []
    for dataset in CHOSEN_ON:
        for model in CHOSEN_FOR:
            chosen = chosen_heads(records, dataset, model)
            cells = []
            for heads in HEADS:
                found = fold_scores(records, dataset, model, heads)
                mark = "**" if heads == chosen else ""
                cells.append(f"{mark}{share(float(np.mean(found)))}{mark}" if found else NONE)
            rows.append([f"{heading(dataset)}, {title(model)}", *cells])
    return markdown(("3-fold cross-validation", *(f"m = {heads}" for heads in HEADS)), rows)


def ablation_table(results: Results) -> str:
    """LAMA+ctx at m = 15 with one choice changed: accuracy on test, and what the change adds."""

    def cells(dataset: str, name: str) -> list[str]:
        usual, *_ = ABLATIONS
        mine, base = (changed_scores(results, dataset, each) for each in (name, usual))
        less = NONE if name == usual else in_points(difference(results, mine, base))
        return [mean_and_spread([record.number for record in mine]), less]

    rows = [
        [name, *(cell for dataset in ABLATED_ON for cell in cells(dataset, name))]
        for name in ABLATIONS
    ]
    columns = [part for dataset in ABLATED_ON for part in (heading(dataset), "change in points")]
    return markdown(("LAMA+ctx, m = 15", *columns), rows)


def probes_table(results: Results) -> str:
    """What was tried to explain a difference, beside the same seed of the unchanged system."""
    rows = []
    for name, (dataset, model, _) in PROBES.items():
        tried = probe(results, name)
        usual = [r.number for r in scores(results, dataset, model) if r.seed == 0]
        rows.append(
            [
                name,
                share(None if tried is None else tried.number),
                share(usual[0] if usual else None),
                NONE if tried is None else tried.device,
            ]
        )
    return markdown(("tried", "accuracy", "the same seed in the main table", "on"), rows)


def probe(results: Results, name: str) -> Record | None:
    """The test accuracy of what was tried."""
    dataset, model, values = PROBES[name]
    found = [
        record
        for record in results.of("probe")
        if (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
        and record.changed == dict(values)
    ]
    return found[0] if found else None
