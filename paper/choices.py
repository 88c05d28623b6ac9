"""Settings chosen on validation data: learning-rate schedule, SAN's penalty, number of heads.

Every choice is made with one seed and without the test part. The schedule is one for all systems
and data sets, the coefficient of SAN's penalty one for all data sets: the recipes in
``src/lamatext/recipes/paper`` hold what was chosen. The number of heads is chosen for each data set
and each of the three systems for which the paper chooses it.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lamatext.recipes import load_recipe
from paper.heads import HEADS
from paper.markdown import MISSING, dataset_heading, markdown_table, system_title, three_digits
from paper.records import Key, Records
from paper.training_run import Settings, TrainingRun

EXPERIMENT = "choices"
CHOICE_DATASETS = ("r8", "mr", "clothing", "news", "imdb")
SYSTEMS_BY_IMPORTANCE = (
    *("lama-ctx", "lama", "lama-encoder", "san", "avg", "bigru", "cnn", "te"),
    *("lama-ctx-dp", "lama-ctx-de"),
)
SCHEDULES: dict[str, Settings] = {
    "halved after every epoch without a new best": (
        ("training.schedule", "plateau"),
        ("training.plateau_epochs", 1),
    ),
    "halved after every two epochs without a new best": (
        ("training.schedule", "plateau"),
        ("training.plateau_epochs", 2),
    ),
    "constant": (("training.schedule", "constant"),),
}
PENALTIES = (0.0, 0.3, 1.0)
CHOSEN_FOR = ("lama-ctx", "lama", "san")  # systems whose number of heads is chosen
HEADS_OF = {"lama-ctx-dp": "lama-ctx", "lama-ctx-de": "lama-ctx"}  # who shares whose choice

Cell = tuple[str, str]  # data set, model


def recipe_schedule() -> Settings:
    """Return the schedule that the paper's recipe holds, as the settings of a run."""
    training = load_recipe("paper").training
    settings: Settings = (("training.schedule", training.schedule),)
    if training.schedule != "plateau":
        return settings
    return (*settings, ("training.plateau_epochs", training.plateau_epochs))


def penalty_settings(model: str, penalty: float | None = None) -> Settings:
    """Return the coefficient of SAN's penalty as the settings of a run; nothing for the others."""
    if model != "san":
        return ()
    weight = load_recipe("paper/san").model.disagreement_weight if penalty is None else penalty
    return (("model.disagreement_weight", weight),)


def schedule_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs that choose the schedule: every system with each schedule and 15 heads."""
    for model in SYSTEMS_BY_IMPORTANCE:
        for schedule in SCHEDULES.values():
            settings = (*schedule, *penalty_settings(model, PENALTIES[-1]))
            yield TrainingRun(EXPERIMENT, dataset, model, settings=settings)


def penalty_runs(dataset: str, schedule: Settings) -> Iterator[TrainingRun]:
    """Yield the runs that choose the coefficient of SAN's penalty, with 15 heads."""
    for penalty in PENALTIES:
        settings = (*schedule, *penalty_settings("san", penalty))
        yield TrainingRun(EXPERIMENT, dataset, "san", settings=settings)


def heads_runs(
    dataset: str, schedule: Settings, penalty: float | None = None
) -> Iterator[TrainingRun]:
    """Yield the runs that choose the number of heads of LAMA+ctx, LAMA and SAN."""
    for model in CHOSEN_FOR:
        for heads in HEADS:
            yield heads_run(dataset, model, heads, (*schedule, *penalty_settings(model, penalty)))


def heads_run(dataset: str, model: str, heads: int, settings: Settings) -> TrainingRun:
    """Return the run that validates one number of heads; 15 heads are the recipe's."""
    if heads != load_recipe("paper").model.heads:
        settings = (*settings, ("model.heads", heads))
    return TrainingRun(EXPERIMENT, dataset, model, settings=settings)


def choice_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield every run that a choice on validation data needs, each once."""
    schedule = recipe_schedule()
    runs = list(heads_runs(dataset, schedule))
    if dataset in CHOICE_DATASETS:
        runs = [*schedule_runs(dataset), *penalty_runs(dataset, schedule), *runs]
    yield from dict.fromkeys(runs)


def compared_schedules(records: Records) -> dict[Cell, list[float]]:
    """Return the validation accuracies by schedule of each system that was run with all three."""
    known = _accuracies(records)
    cells: dict[Cell, list[float]] = {}
    for dataset in CHOICE_DATASETS:
        runs = list(schedule_runs(dataset))
        for start in range(0, len(runs), len(SCHEDULES)):
            group = runs[start : start + len(SCHEDULES)]
            values = [known[run.key] for run in group if run.key in known]
            if len(values) == len(SCHEDULES):
                cells[dataset, group[0].model] = values
    return cells


def choose_schedule(records: Records) -> Settings | None:
    """Return the schedule with the best mean validation accuracy over systems and data sets."""
    cells = compared_schedules(records)
    if not cells:
        return None
    means = np.mean(list(cells.values()), axis=0)
    return list(SCHEDULES.values())[int(np.argmax(means))]


def compared_penalties(records: Records, schedule: Settings) -> dict[str, list[float]]:
    """Return SAN's validation accuracies by coefficient on each data set that has all three."""
    known = _accuracies(records)
    found = {
        dataset: [known.get(run.key) for run in penalty_runs(dataset, schedule)]
        for dataset in CHOICE_DATASETS
    }
    return {
        dataset: [value for value in values if value is not None]
        for dataset, values in found.items()
        if None not in values
    }


def choose_penalty(records: Records, schedule: Settings) -> float | None:
    """Return the coefficient of SAN's penalty with the best mean validation accuracy."""
    cells = compared_penalties(records, schedule)
    if not cells:
        return None
    return PENALTIES[int(np.argmax(np.mean(list(cells.values()), axis=0)))]


def accuracies_by_heads(
    records: Records,
    dataset: str,
    model: str,
    schedule: Settings | None = None,
    penalty: float | None = None,
) -> dict[int, float]:
    """Return the validation accuracy of each recorded number of heads."""
    base = (*(schedule or recipe_schedule()), *penalty_settings(model, penalty))
    known = _accuracies(records)
    runs = {heads: heads_run(dataset, model, heads, base) for heads in HEADS}
    return {heads: known[run.key] for heads, run in runs.items() if run.key in known}


def chosen_heads(records: Records, dataset: str, model: str) -> int | None:
    """Return the number of heads that is best on validation data; of a tie, the smallest.

    The disagreement terms use the choice of LAMA+ctx; a system whose heads are not chosen has the
    recipe's. None if a number of heads has no record yet.
    """
    model = HEADS_OF.get(model, model)
    if model not in CHOSEN_FOR:
        return load_recipe(f"paper/{model}").model.heads
    accuracies = accuracies_by_heads(records, dataset, model)
    if len(accuracies) < len(HEADS):
        return None
    return max(HEADS, key=lambda heads: (accuracies[heads], -heads))


def settled_settings(records: Records, dataset: str, model: str) -> Settings | None:
    """Return the settings of a system's final runs; None until its number of heads is chosen."""
    heads = chosen_heads(records, dataset, model)
    if heads is None:
        return None
    settings = (*recipe_schedule(), *penalty_settings(model))
    if model in (*CHOSEN_FOR, *HEADS_OF):
        settings = (*settings, ("model.heads", heads))
    return settings


def _accuracies(records: Records) -> Mapping[Key, float]:
    return {
        record.key: record.number
        for record in records.of(EXPERIMENT)
        if record.metric == "validation_accuracy"
    }


def schedules_table(records: Records) -> str:
    """Format the validation accuracy of every system by schedule; the best of each cell is bold."""
    cells, rows = compared_schedules(records), []
    for number, name in enumerate(SCHEDULES):
        row = [name]
        for dataset in CHOICE_DATASETS:
            values = [v for (where, _), v in cells.items() if where == dataset]
            row.append(_best_mean(values, number))
        rows.append([*row, _best_mean(list(cells.values()), number)])
    header = ("mean validation accuracy", *map(dataset_heading, CHOICE_DATASETS), "all")
    return markdown_table(header, rows)


def schedules_by_system_table(records: Records) -> str:
    """Format the mean validation accuracy over data sets by system and schedule."""
    cells, rows = compared_schedules(records), []
    for model in SYSTEMS_BY_IMPORTANCE:
        values = [v for (_, system), v in cells.items() if system == model]
        row = [_best_mean(values, number) for number in range(len(SCHEDULES))]
        rows.append([system_title(model), str(len(values)), *row])
    return markdown_table(("mean over data sets", "data sets", *SCHEDULES), rows)


def penalties_table(records: Records) -> str:
    """Format SAN's validation accuracy by the coefficient of its penalty."""
    cells = compared_penalties(records, recipe_schedule())
    rows = []
    for number, penalty in enumerate(PENALTIES):
        values = [cells.get(dataset) for dataset in CHOICE_DATASETS]
        row = [_bold_if_best(each, number) for each in values]
        rows.append([f"{penalty:g}", *row, _best_mean(list(cells.values()), number)])
    header = ("SAN's penalty", *map(dataset_heading, CHOICE_DATASETS), "mean")
    return markdown_table(header, rows)


def chosen_heads_table(records: Records) -> str:
    """Format the validation accuracy by number of heads; the best, and those tied, are bold."""
    rows = []
    for dataset in CHOICE_DATASETS:
        for model in CHOSEN_FOR:
            accuracies = accuracies_by_heads(records, dataset, model)
            best = max(accuracies.values(), default=0.0)
            row = []
            for heads in HEADS:
                text = three_digits(accuracies.get(heads))
                row.append(f"**{text}**" if accuracies.get(heads) == best else text)
            rows.append([f"{dataset_heading(dataset)}, {system_title(model)}", *row])
    return markdown_table(("validation, seed 0", *(f"m = {heads}" for heads in HEADS)), rows)


def _best_mean(cells: Sequence[Sequence[float]], number: int) -> str:
    return _bold_if_best(np.mean(cells, axis=0).tolist() if cells else None, number)


def _bold_if_best(values: Sequence[float] | None, number: int) -> str:
    if values is None:
        return MISSING
    text = three_digits(values[number])
    return f"**{text}**" if values[number] == max(values) else text
