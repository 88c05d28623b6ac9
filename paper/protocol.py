"""The paper's protocol as a list of trials: what is to be trained, in which order."""

from collections.abc import Iterator, Sequence

import numpy as np

from paper.published import DATASETS, SYSTEMS
from paper.records import Record, Results
from paper.trial import FOLDS, Trial

SEEDS = (0, 1, 2)
HEADS = (1, 5, 10, 15, 20)
USUAL_HEADS = 15
CHOSEN_ON = ("r8", "imdb", "clothing-long")  # where cross-validation chooses the heads
CHOSEN_FOR = ("lama-ctx", "san")
ABLATED_ON = ("r8", "clothing-long")
ABLATIONS: dict[str, tuple[tuple[str, object], ...]] = {
    "as in the paper": (),
    "without l2": (("model.score_l2", False),),
    "without tanh": (("model.score_tanh", False),),
    "without tanh and l2": (("model.score_l2", False), ("model.score_tanh", False)),
    "scores of h": (("model.score_input", "h"),),
    "rank 2": (("model.rank", 2),),
    "rank 4": (("model.rank", 4),),
    "temperature from 8": (("model.initial_temperature", 8.0),),
    "one head": (("model.heads", 1),),
    "one head without l2": (("model.heads", 1), ("model.score_l2", False)),
}
PROBES: dict[str, tuple[str, str, tuple[tuple[str, object], ...]]] = {
    # explanations that a sentence of the page would like to give, each tried
    "AVG on r8 from random vectors": ("r8", "avg", (("text.word_vectors", "random"),)),
    "AVG on mr, constant rate": ("mr", "avg", (("training.schedule", "constant"),)),
    "LE on mr, constant rate": ("mr", "lama-encoder", (("training.schedule", "constant"),)),
    "LAMA+ctx on mr, constant rate": ("mr", "lama-ctx", (("training.schedule", "constant"),)),
    "AVG on mr from random vectors": ("mr", "avg", (("text.word_vectors", "random"),)),
    "LE on mr from random vectors": ("mr", "lama-encoder", (("text.word_vectors", "random"),)),
    "LAMA+ctx on mr from random vectors": ("mr", "lama-ctx", (("text.word_vectors", "random"),)),
    "SAN on mr, no penalty": ("mr", "san", (("model.disagreement_weight", 0.0),)),
    "SAN on r8, m = 15, no penalty": (
        "r8",
        "san",
        (("model.heads", USUAL_HEADS), ("model.disagreement_weight", 0.0)),
    ),
    "SAN on r8, m = 15": ("r8", "san", (("model.heads", USUAL_HEADS),)),
}
MINILM: tuple[tuple[str, object], ...] = (  # what MiniLM is usually fine-tuned with
    ("model.pretrained", "minilm"),
    ("training.optimizer", "adamw"),
    ("training.learning_rate", 5e-5),
    ("training.weight_decay", 0.01),
    ("training.schedule", "one-cycle"),
    ("training.epochs", 3),
    ("training.patience", 3),
)
TRAINED = tuple(name for name in SYSTEMS if name != "bert")


def trials(results: Results, datasets: Sequence[str] = tuple(DATASETS)) -> Iterator[Trial]:
    """Everything that can be trained now; what waits for a choice of heads comes later."""
    for dataset in datasets:
        yield from cross_validation(dataset)
        yield from finals(results, dataset)
        yield from ablations(dataset)
        yield from keywords(dataset)


def cross_validation(dataset: str) -> Iterator[Trial]:
    """Three folds for each number of heads."""
    if dataset not in CHOSEN_ON:
        return
    for model in CHOSEN_FOR:
        for fold in range(FOLDS):
            for heads in HEADS:
                yield Trial("heads", dataset, model, 0, fold, (("model.heads", heads),))


def finals(results: Results, dataset: str) -> Iterator[Trial]:
    """Three seeds of each system, scored on test; the heads are chosen first where they are."""
    for seed in SEEDS:
        for model in TRAINED:
            if dataset in CHOSEN_ON and model in CHOSEN_FOR:
                heads = chosen_heads(results.of("heads"), dataset, model)
                if heads is None:
                    continue
                yield Trial("accuracy", dataset, model, seed, None, (("model.heads", heads),))
            else:
                yield Trial("accuracy", dataset, model, seed)


def fine_tuned(dataset: str) -> Iterator[Trial]:
    """The BERT row with MiniLM: three seeds, one on the largest set."""
    for seed in SEEDS[:1] if dataset == "imdb" else SEEDS:
        yield Trial("accuracy", dataset, "bert", seed, None, MINILM)


def probes(dataset: str) -> Iterator[Trial]:
    """One seed of each explanation."""
    for where, model, values in PROBES.values():
        if where == dataset:
            yield Trial("probe", dataset, model, 0, None, values)


def ablations(dataset: str) -> Iterator[Trial]:
    """LAMA+ctx with one choice changed at a time, at the usual number of heads."""
    if dataset in ABLATED_ON:
        for seed in SEEDS:
            for values in ABLATIONS.values():
                yield Trial("ablation", dataset, "lama-ctx", seed, None, values)


def keywords(dataset: str) -> Iterator[Trial]:
    """The networks whose attention is looked at."""
    if dataset in ("clothing", "r8"):
        yield Trial("keywords", dataset, "lama-ctx")
        yield Trial("keywords", dataset, "lama-ctx", 0, None, (("model.initial_temperature", 8.0),))


def chosen_heads(records: Sequence[Record], dataset: str, model: str) -> int | None:
    """The number of heads with the best mean over the folds; None until all folds are there."""
    means = {
        heads: scores
        for heads in HEADS
        if len(scores := fold_scores(records, dataset, model, heads)) == FOLDS
    }
    if len(means) < len(HEADS):
        return None
    return max(HEADS, key=lambda heads: float(np.mean(means[heads])))


def fold_scores(records: Sequence[Record], dataset: str, model: str, heads: int) -> list[float]:
    """The best validation accuracy of each fold."""
    return [
        record.number
        for record in records
        if (record.dataset, record.model, record.metric) == (dataset, model, "valid_accuracy")
        and record.config.get("model.heads") == heads
    ]
