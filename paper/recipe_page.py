"""What each part of the default recipe brings, in Markdown, from ``recipe.json`` alone."""

from collections.abc import Iterator, Mapping
from statistics import mean, stdev

from paper.board import OTHERS, SETS
from paper.recipe_parts import ADDED, CHANGES, EXPERIMENT, WHOLE, WITHDRAWN
from paper.records import Results
from paper.tables import NONE, markdown

STORAGE = "stored in float32"  # int8 is there for size: its sentence is another
TITLES = {WHOLE: "as it was then, with dropout of words and max-pooling"}
SCALE = {"accuracy": 100, "log_loss": 1}  # accuracies differ by points

Values = Mapping[tuple[str, str, str], Mapping[int | None, float]]  # change, set, metric → by seed


def recipe_section(results: Results) -> Iterator[str]:
    """Two tables and what they come to; nothing where nothing was measured."""
    values = read_values(results)
    if not values:
        return
    yield "## What each part brings"
    yield (
        "The default recipe with one part changed at a time, by `python -m "
        "paper.recipe_parts` (`recipe.json`). A tenth of the training part is held "
        "out and scored; the test parts are not read. Each cell is the change against the whole "
        "recipe of the same seed, mean ± standard deviation over seeds where there are several; a "
        "dash stands where that was not tried, or where the recipe has it so by itself."
    )
    yield change_table(values, "accuracy", "accuracy, change in points")
    yield change_table(values, "log_loss", "log-loss, change")
    yield conclusion(values)


def read_values(results: Results) -> Values:
    """Every value by its seed."""
    values: dict[tuple[str, str, str], dict[int | None, float]] = {}
    for record in results.of(EXPERIMENT):
        key = (record.model, record.dataset, record.metric)
        values.setdefault(key, {})[record.seed] = record.number
    return values


def change_table(values: Values, metric: str, title: str) -> str:
    """The whole recipe's own values, then what every change makes of them."""
    sets = [*SETS, *(other for other in OTHERS if (WHOLE, other, metric) in values)]
    tried = [change for change in CHANGES if any((change, name, metric) in values for name in sets)]
    rows = [
        [TITLES.get(change, change), *(_cell(values, change, dataset, metric) for dataset in sets)]
        for change in tried
    ]
    return markdown([title, *sets], rows)


def conclusion(values: Values) -> str:
    """What matters most and what brings nothing, by the mean over the sets; what int8 costs."""
    tried = [change for change in CHANGES if change not in (WHOLE, STORAGE, *ADDED)]
    losses = {change: found for change in tried if (found := mean_loss(values, change)) is not None}
    if not losses:
        return _storage(values)
    worst = max(losses, key=lambda change: losses[change])
    said = f"Over the sets, {worst} costs most: {losses[worst]:+.4f} of log-loss in the mean."
    for change in (change for change, loss in losses.items() if loss <= 0):
        fate = "has been taken out of the recipe since" if _withdrawn(change) else "is kept for now"
        said += (
            f" The change “{change}” lowers the log-loss ({losses[change]:+.4f}): that part "
            f"brought nothing and {fate}."
        )
    return f"{said} {_storage(values)}".strip().replace("-0.", "−0.")


def mean_loss(values: Values, change: str) -> float | None:
    """The change of log-loss, over the seeds of a set and then over the sets."""
    found = [differences(values, change, dataset, "log_loss") for dataset in SETS]
    return mean(mean(own) for own in found if own) if any(found) else None


def _withdrawn(change: str) -> bool:
    return any(name in WITHDRAWN for name in CHANGES[change])


def differences(values: Values, change: str, dataset: str, metric: str) -> list[float]:
    """Changed minus whole, seed by seed, where both were measured."""
    whole = values.get((WHOLE, dataset, metric), {})
    changed = values.get((change, dataset, metric), {})
    return [changed[seed] - whole[seed] for seed in changed if seed in whole]


def _cell(values: Values, change: str, dataset: str, metric: str) -> str:
    if change == WHOLE:
        own = list(values.get((WHOLE, dataset, metric), {}).values())
        return f"{mean(own):.4f}" if own else NONE
    found = [SCALE[metric] * value for value in differences(values, change, dataset, metric)]
    if not found:
        return NONE
    digits = 2 if metric == "accuracy" else 4
    spread = f" ± {stdev(found):.{digits}f}" if len(found) > 1 else ""
    return f"{mean(found):+.{digits}f}{spread}".replace("-", "−")


def _storage(values: Values) -> str:
    """What is gained by float32, and what it costs."""
    sets = [dataset for dataset in SETS if differences(values, STORAGE, dataset, "accuracy")]
    if not sets:
        return ""
    gained = [100 * mean(differences(values, STORAGE, dataset, "accuracy")) for dataset in sets]
    sizes = [
        mean(values[change, dataset, "bytes"].values()) / 1e6
        for change in (STORAGE, WHOLE)
        for dataset in sets
    ]
    large, small = mean(sizes[: len(sets)]), mean(sizes[len(sets) :])
    changes = f"{mean(gained):+.2f} points".replace("-", "−")
    return (
        f"float32 instead of int8 changes the accuracy by {changes} on average, "
        f"and the size from {small:.1f} to {large:.1f} MB."
    )
