"""The paper's protocol as a list of training runs: what is trained, and in which order."""

from collections.abc import Iterator, Sequence

from paper.ablation import ABLATED_DATASETS, ABLATIONS, PROBES
from paper.choices import (
    CHOSEN_FOR,
    SYSTEMS_BY_IMPORTANCE,
    penalty_settings,
    recipe_schedule,
    settled_settings,
)
from paper.heads import HEADS, TUNED_DATASETS, TUNED_MODELS
from paper.published_results import SYSTEMS
from paper.records import Records
from paper.training_run import FOLDS, Settings, TrainingRun
from paper.two_layer_gru import EXPERIMENT as LAYERS
from paper.two_layer_gru import LAYER_DATASETS, TWO_LAYERS
from paper.two_layer_gru import SEEDS as LAYER_SEEDS
from paper.word_weights import WITH_TEMPERATURE

SMALL_DATASETS = ("r8", "mr")
BERT_BASE: Settings = (("model.pretrained", "bert-base-uncased"),)  # its recipe is the paper's
MINILM: Settings = (  # the usual fine-tuning settings of MiniLM
    ("model.pretrained", "minilm"),
    ("training.optimizer", "adamw"),
    ("training.learning_rate", 5e-5),
    ("training.weight_decay", 0.01),
    ("training.schedule", "one-cycle"),
    ("training.epochs", 3),
    ("training.patience", 3),
)
TRAINED_SYSTEMS = tuple(name for name in SYSTEMS if name not in ("bert", "minilm"))
RELATIVE_COST = {  # of one epoch; a data set that is not listed costs 1
    "imdb": 9,
    "clothing": 5,
    "news": 4,
    "clothing-polarity": 4,
    "clothing-long": 3,
    "mr": 2,
}


def seeds_of(dataset: str) -> range:
    """Return the seeds of the final runs: five on the two small data sets, three elsewhere."""
    return range(5 if dataset in SMALL_DATASETS else 3)


def cross_validation_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the cross-validation runs by number of heads that the figure of heads shows."""
    if dataset not in TUNED_DATASETS:
        return
    for model in TUNED_MODELS:
        for fold in range(FOLDS):
            for heads in HEADS:
                settings: Settings = (("model.heads", heads),)
                yield TrainingRun("heads", dataset, model, 0, fold, settings)


def final_runs(records: Records, dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs that the protocol scores on test: every seed of each system.

    Where validation data choose the number of heads, the runs follow once it is chosen.
    """
    for model in SYSTEMS_BY_IMPORTANCE:
        settings = settled_settings(records, dataset, model)
        if settings is not None:
            for seed in seeds_of(dataset):
                yield TrainingRun("accuracy", dataset, model, seed, None, settings)


def fold_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of the paper's own protocol: three folds, every number of heads.

    The run with the best validation accuracy is the one whose test accuracy is reported.
    """
    for model in SYSTEMS_BY_IMPORTANCE:
        for settings in fold_candidates(model):
            for fold in range(FOLDS):
                yield TrainingRun("folds", dataset, model, 0, fold, settings)


def fold_candidates(model: str) -> list[Settings]:
    """Return the settings that the paper's own protocol compares on the folds of a system."""
    fixed = (*recipe_schedule(), *penalty_settings(model))
    if model not in CHOSEN_FOR:
        return [fixed]
    return [(*fixed, ("model.heads", heads)) for heads in HEADS]


def fine_tuning_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of MiniLM, with its own usual settings: three seeds, one on IMDB."""
    for seed in range(1 if dataset == "imdb" else 3):
        yield TrainingRun("accuracy", dataset, "bert", seed, None, MINILM)


def bert_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of BERT-base with the paper's settings, as many seeds as other systems."""
    for seed in seeds_of(dataset):
        yield TrainingRun("accuracy", dataset, "bert", seed, None, BERT_BASE)


def bert_fold_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of BERT-base by the paper's own protocol: three folds."""
    for fold in range(FOLDS):
        yield TrainingRun("folds", dataset, "bert", 0, fold, BERT_BASE)


def ablation_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the protocol's ablations of LAMA+ctx: one choice changed at a time, 15 heads."""
    if dataset in ABLATED_DATASETS:
        for seed in range(3):
            for settings in ABLATIONS.values():
                yield TrainingRun("ablation", dataset, "lama-ctx", seed, None, settings)


def probe_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the protocol's probes: one seed for each explanation that is tested."""
    for where, model, settings in PROBES.values():
        if where == dataset:
            yield TrainingRun("probe", dataset, model, 0, None, settings)


def layer_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the protocol's runs of BiGRU with two layers."""
    if dataset in LAYER_DATASETS:
        for seed in LAYER_SEEDS:
            yield TrainingRun(LAYERS, dataset, TWO_LAYERS, seed, None, recipe_schedule())


def attention_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs whose attention weights are recorded, without and with temperature."""
    if dataset in ("clothing", "r8"):
        yield TrainingRun("keywords", dataset, "lama-ctx")
        yield TrainingRun("keywords", dataset, "lama-ctx", settings=tuple(WITH_TEMPERATURE.items()))


def in_order(runs: Sequence[TrainingRun]) -> list[TrainingRun]:
    """Sort training runs: the choices first, then the final runs by importance of the system."""
    return sorted(runs, key=_priority)


def _priority(run: TrainingRun) -> tuple[int, int, int]:
    order = (
        *("heads", "choices", "accuracy", "keywords", "ablation", "probe", LAYERS, "folds"),
        *("open-directions", "word-order", "phrase-widths", "default-encoders"),
    )
    system = SYSTEMS_BY_IMPORTANCE.index(run.model) if run.model in SYSTEMS_BY_IMPORTANCE else 99
    group = order.index(run.experiment) if run.experiment in order else len(order)
    return group, system, -RELATIVE_COST.get(run.dataset, 1)
