"""The paper's two open directions, lama-blocks and lama-phrases, measured against LAMA+ctx, TE, LE.

All systems have about as many parameters as LAMA+ctx. The runs follow the paper's recipe; LAMA+ctx
and TE differ from those of the accuracy table in nothing but size.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from lamatext.recipes import load_recipe
from lamatext.settings import has_effect
from paper.choices import recipe_schedule
from paper.confidence_intervals import format_interval, interval_between
from paper.markdown import MISSING, markdown_table, three_digits
from paper.published_results import SYSTEMS
from paper.records import Record, Records
from paper.training_run import Settings, TrainingRun
from paper.word_order import TASKS

EXPERIMENT, WIDTHS, ORDER, ENCODERS = (
    "open-directions",
    "phrase-widths",
    "word-order",
    "default-encoders",
)
DATASETS = ("mr", "r8", "clothing-long", "imdb")
SMALL = ("mr", "r8")
EQUAL_SIZES: dict[str, Settings] = {  # settings that give each system LAMA+ctx's parameter count
    "lama-ctx": (),
    "lama-blocks": (),
    "lama-phrases": (),
    "lama-encoder": (("model.heads", 16),),
    "te": (
        ("text.word_vectors", "word2vec"),
        ("text.vector_width", 100),
        ("model.heads", 10),
        ("model.transformer_feed_forward", 3400),
    ),
}
BLOCKS: dict[str, Settings] = {  # one choice of lama-blocks or of its training changed at a time
    "the recipe": (),
    "no positions": (("model.position_encoding", "none"),),
    "positions from the end too": (("model.end_positions", True),),
    "no window": (("model.window_radius", 0),),
    "no block": (("model.transformer_layers", 0),),
    "two blocks": (("model.transformer_layers", 2),),
    "temperature": (("model.initial_temperature", 8.0),),
    "gradient limited, as TE's": (("training.gradient_clip", 1.0),),
    "AdamW": (
        ("training.optimizer", "adamw"),
        ("training.learning_rate", 0.001),
        ("training.weight_decay", 0.01),
    ),
}
PHRASE_WIDTHS: dict[str, object] = {"1": 1, "4": 4, "8": 8, "16": 16, "∞": None}
SPANS = "punctuation"
ENCODER_DATASETS = ("r8", "imdb", "news", "clothing", "mr")
MADE_UP: Settings = (  # for tasks without meaningful word vectors, which start at chance
    ("text.word_vectors", "random"),
    ("training.optimizer", "adamw"),
    ("training.learning_rate", 2e-3),
    ("training.schedule", "constant"),
    ("training.epochs", 12),
    ("training.patience", 12),
)


def settings_of(model: str) -> Settings:
    """Return the settings of a system's runs at equal parameters, with the chosen schedule."""
    return (*recipe_schedule(), *EQUAL_SIZES[model])


def seeds_of(dataset: str) -> range:
    """Return the seeds of a data set: five on the small ones, three elsewhere."""
    return range(5 if dataset in SMALL else 3)


def direction_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of all systems at equal parameters, seed by seed."""
    if dataset in DATASETS:
        for seed in seeds_of(dataset):
            for model in EQUAL_SIZES:
                yield TrainingRun(EXPERIMENT, dataset, model, seed, None, settings_of(model))


def width_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of lama-phrases by phrase, and of lama-blocks without one of its parts."""
    if dataset not in DATASETS:
        return
    for seed in seeds_of(dataset)[: 3 if dataset in SMALL else 1]:
        for phrases in (*PHRASE_WIDTHS.values(), SPANS):
            changed: Settings = (*recipe_schedule(), ("model.phrases", phrases))
            yield TrainingRun(WIDTHS, dataset, "lama-phrases", seed, None, changed)
        if dataset in SMALL:
            for settings in BLOCKS.values():
                changed = (*recipe_schedule(), *settings)
                yield TrainingRun(WIDTHS, dataset, "lama-blocks", seed, None, changed)


def order_runs() -> Iterator[TrainingRun]:
    """Yield the runs on the made-up word-order tasks."""
    for task in TASKS:
        for seed in range(3):
            for model, settings in EQUAL_SIZES.items():
                changed = dict((*settings, *MADE_UP))
                yield TrainingRun(ORDER, task, model, seed, None, tuple(changed.items()))


def encoder_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of the default recipe's network with another encoder, without n-grams."""
    if dataset in ENCODER_DATASETS:
        for seed in range(3):
            for model in ("lama-ctx", "lama-blocks", "lama-phrases"):
                yield TrainingRun(ENCODERS, dataset, model, seed, None, default_settings(model))


def default_settings(model: str) -> Settings:
    """Return the default recipe's settings of network and training for a system.

    The word vectors are those of the paper's recipe, and there is no n-gram model.
    """
    default = load_recipe("default")
    settings: dict[str, object] = {"text.max_words": 400, "text.last_words": 300}
    for table in (default.model, default.training):
        prefix = "model" if table is default.model else "training"
        for name, value in table:
            setting = f"{prefix}.{name}"
            stated = name in table.model_fields_set and setting != "model.name"
            if stated and has_effect(setting, model):
                settings[setting] = value
    return tuple(settings.items())


def _cells(
    records: Records, experiment: str, metric: str = "accuracy"
) -> dict[tuple[str, str, str], list[Record]]:
    """Group the records of an experiment by data set, model and settings."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records.of(experiment):
        if record.metric == metric:
            key = (record.dataset, record.model, _text(record.config))
            groups.setdefault(key, []).append(record)
    return groups


def title(model: str) -> str:
    """Return the name of a system in the tables of the open directions."""
    return SYSTEMS.get(model, model)


def _text(settings: Mapping[str, object] | Settings) -> str:
    return str(sorted(dict(settings).items(), key=str))


def _mean(records: list[Record] | None) -> float | None:
    return float(np.mean([record.number for record in records])) if records else None


def _with_spread(records: list[Record] | None) -> str:
    """Format the mean of an accuracy over the seeds, and its standard deviation in points."""
    if not records:
        return MISSING
    numbers = [record.number for record in records]
    spread = f" ± {100 * np.std(numbers, ddof=1):.1f}" if len(numbers) > 1 else ""
    return f"{three_digits(float(np.mean(numbers)))}{spread} ({len(numbers)})"


def directions_table(records: Records) -> str:
    """Format the test accuracy at equal parameters: mean, spread and number of seeds."""
    cells, rows = _cells(records, EXPERIMENT), []
    for model in EQUAL_SIZES:
        found = [cells.get((dataset, model, _text(settings_of(model)))) for dataset in DATASETS]
        rows.append([title(model), _million_parameters(found[0]), *map(_with_spread, found)])
    return markdown_table(("test accuracy", f"million, {DATASETS[0]}", *DATASETS), rows)


def _million_parameters(found: list[Record] | None) -> str:
    size = found[0].parameters if found else None
    return MISSING if size is None else f"{size / 1e6:.2f}"


def direction_intervals_table(records: Records) -> str:
    """Format the paired 95 % intervals of the new systems' accuracy minus that of the others.

    The first rows have that of each system minus LAMA+ctx.
    """
    cells, rows = _cells(records, EXPERIMENT), []
    pairs = [(model, "lama-ctx") for model in EQUAL_SIZES if model != "lama-ctx"]
    pairs += [
        (new, old) for new in ("lama-blocks", "lama-phrases") for old in ("te", "lama-encoder")
    ]
    for model, other in pairs:
        row = [f"{title(model)} minus {title(other)}"]
        for dataset in DATASETS:
            ours, theirs = (
                cells.get((dataset, system, _text(settings_of(system))), [])
                for system in (model, other)
            )
            row.append(format_interval(interval_between(records, ours, theirs)))
        rows.append(row)
    return markdown_table(("points", *DATASETS), rows)


def shuffled_table(records: Records) -> str:
    """Format how many points of accuracy each system loses when the test words are shuffled."""
    plain, rows = _cells(records, EXPERIMENT), []
    shuffled = _cells(records, EXPERIMENT, "accuracy, shuffled words")
    for model in EQUAL_SIZES:
        row = [title(model)]
        for dataset in DATASETS:
            key = (dataset, model, _text(settings_of(model)))
            before, after = _mean(plain.get(key)), _mean(shuffled.get(key))
            lost = MISSING if before is None or after is None else f"{100 * (after - before):+.1f}"
            row.append(lost)
        rows.append(row)
    return markdown_table(("points, words shuffled", *DATASETS), rows)


def widths_table(records: Records) -> str:
    """Format the test accuracy of lama-phrases by phrase."""
    cells, rows = _cells(records, WIDTHS), []
    for name, phrases in {**PHRASE_WIDTHS, "up to punctuation": SPANS}.items():
        key = _text((*recipe_schedule(), ("model.phrases", phrases)))
        found = [cells.get((dataset, "lama-phrases", key)) for dataset in DATASETS]
        rows.append([name if phrases == SPANS else f"w = {name}", *map(_with_spread, found)])
    return markdown_table(("lama-phrases", *DATASETS), rows)


def blocks_table(records: Records) -> str:
    """Format the test accuracy of lama-blocks with one of its parts changed."""
    cells, rows = _cells(records, WIDTHS), []
    for name, settings in BLOCKS.items():
        key = _text((*recipe_schedule(), *settings))
        found = [cells.get((dataset, "lama-blocks", key)) for dataset in SMALL]
        rows.append([name, *map(_with_spread, found)])
    return markdown_table(("lama-blocks", *SMALL), rows)


def order_table(records: Records) -> str:
    """Format the test accuracy on the made-up word-order tasks."""
    cells, rows = _cells(records, ORDER), []
    for model, settings in EQUAL_SIZES.items():
        key = _text({**dict(settings), **dict(MADE_UP)})
        found = [cells.get((task, model, key)) for task in TASKS]
        rows.append([title(model), *map(_with_spread, found)])
    return markdown_table(("test accuracy", *TASKS.values()), rows)


def negation_table(records: Records) -> str:
    """Format the mean attention weight of words after "not", elsewhere, and of that "not"."""
    rows = []
    for word in ("amazing", "good", "great"):
        for model in EQUAL_SIZES:
            groups = _cells(records, EXPERIMENT, f"weight of {word}")
            for dataset in ("imdb", "clothing-long"):
                found = groups.get((dataset, model, _text(settings_of(model))))
                if found:
                    rows.append([word, dataset, title(model), *_negation_cells(found)])
    header = ("word", "data set", "system", "after “not”", "elsewhere", "that “not”", "occurrences")
    return markdown_table(header, rows, text_columns=3)


def _negation_cells(found: list[Record]) -> list[str]:
    values = [record.value for record in found if isinstance(record.value, dict)]
    means = [
        f"{np.mean([value[name] for value in values]):.2f}"
        for name in ("after not", "elsewhere", "of not")
    ]
    counts = values[0]
    return [*means, f"{counts['count after not']:.0f}, {counts['count elsewhere']:,.0f}"]


def encoders_table(records: Records) -> str:
    """Format validation accuracy and training time of the default network by encoder."""
    accuracy, rows = _cells(records, ENCODERS, "validation_accuracy"), []
    for model in ("lama-ctx", "lama-blocks", "lama-phrases"):
        groups = [
            accuracy.get((dataset, model, _text(default_settings(model))))
            for dataset in ENCODER_DATASETS
        ]
        means = [_mean(group) for group in groups]
        known = [mean for mean in means if mean is not None]
        total = three_digits(float(np.mean(known))) if len(known) == len(means) else MISSING
        seconds = [np.mean([record.seconds for record in group]) for group in groups if group]
        time = f"{sum(seconds):.0f}" if len(seconds) == len(groups) else MISSING
        rows.append([title(model), *map(three_digits, means), total, time])
    header = ("validation accuracy", *ENCODER_DATASETS, "mean", "seconds, all five")
    return markdown_table(header, rows)
