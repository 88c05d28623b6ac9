"""The paper's protocol as a list of training runs: what is trained, and in which order."""

from collections.abc import Iterator, Sequence

from paper.ablation import ABLATED_DATASETS, ABLATIONS, PROBES
from paper.heads import HEADS, TUNED_DATASETS, TUNED_MODELS, chosen_heads
from paper.published_results import SYSTEMS
from paper.records import Records
from paper.training_run import FOLDS, Settings, TrainingRun
from paper.word_weights import WITH_TEMPERATURE

SEEDS = (0, 1, 2)
MINILM: Settings = (  # the usual fine-tuning settings of MiniLM
    ("model.pretrained", "minilm"),
    ("training.optimizer", "adamw"),
    ("training.learning_rate", 5e-5),
    ("training.weight_decay", 0.01),
    ("training.schedule", "one-cycle"),
    ("training.epochs", 3),
    ("training.patience", 3),
)
TRAINED_SYSTEMS = tuple(name for name in SYSTEMS if name != "bert")
RELATIVE_COST = {  # of one epoch; a data set that is not listed costs 1
    "imdb": 9,
    "clothing": 5,
    "news": 4,
    "clothing-polarity": 4,
    "clothing-long": 3,
    "mr": 2,
}


def cross_validation_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the cross-validation runs of the protocol: three folds for each number of heads."""
    if dataset not in TUNED_DATASETS:
        return
    for model in TUNED_MODELS:
        for fold in range(FOLDS):
            for heads in HEADS:
                yield TrainingRun("heads", dataset, model, 0, fold, (("model.heads", heads),))


def final_runs(records: Records, dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs that the protocol scores on test: three seeds of each system.

    Where cross-validation chooses the number of heads, the runs follow once it is chosen.
    """
    for seed in SEEDS:
        for model in TRAINED_SYSTEMS:
            if dataset in TUNED_DATASETS and model in TUNED_MODELS:
                heads = chosen_heads(records.of("heads"), dataset, model)
                if heads is not None:
                    settings = (("model.heads", heads),)
                    yield TrainingRun("accuracy", dataset, model, seed, None, settings)
            else:
                yield TrainingRun("accuracy", dataset, model, seed)


def fine_tuning_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs of MiniLM in the protocol's BERT row: three seeds, one on IMDB."""
    for seed in SEEDS[:1] if dataset == "imdb" else SEEDS:
        yield TrainingRun("accuracy", dataset, "bert", seed, None, MINILM)


def ablation_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the protocol's ablations of LAMA+ctx: one choice changed at a time, 15 heads."""
    if dataset in ABLATED_DATASETS:
        for seed in SEEDS:
            for settings in ABLATIONS.values():
                yield TrainingRun("ablation", dataset, "lama-ctx", seed, None, settings)


def probe_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the protocol's probes: one seed for each explanation that is tested."""
    for where, model, settings in PROBES.values():
        if where == dataset:
            yield TrainingRun("probe", dataset, model, 0, None, settings)


def attention_runs(dataset: str) -> Iterator[TrainingRun]:
    """Yield the runs whose attention weights are recorded, without and with temperature."""
    if dataset in ("clothing", "r8"):
        yield TrainingRun("keywords", dataset, "lama-ctx")
        yield TrainingRun("keywords", dataset, "lama-ctx", settings=tuple(WITH_TEMPERATURE.items()))


def in_order(runs: Sequence[TrainingRun]) -> list[TrainingRun]:
    """Sort training runs: first those that others wait for, then the longest."""
    return sorted(runs, key=_priority)


def _priority(run: TrainingRun) -> tuple[int, int]:
    group = {"heads": 0, "accuracy": 2, "keywords": 3, "ablation": 4}.get(run.experiment, 5)
    if run.dataset == "imdb" and group < 3:
        group = 1
    cost = RELATIVE_COST.get(run.dataset, 1) * (3 if run.model == "te" else 1)
    return group, -cost
