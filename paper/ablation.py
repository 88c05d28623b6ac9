"""Ablations of LAMA+ctx on test data, and probes: single runs that test one explanation each."""

import re
from dataclasses import replace
from itertools import chain

import torch

from lamatext.errors import ModelError
from paper.accuracy_table import accuracy_records, mean_and_spread, seed_accuracy
from paper.choices import recipe_schedule
from paper.confidence_intervals import format_interval, interval_between
from paper.datasets import TokenizedDataset
from paper.heads import DEFAULT_HEADS
from paper.markdown import MISSING, dataset_heading, markdown_table, three_digits
from paper.published_results import SYSTEMS
from paper.records import Record, Records
from paper.training_run import Settings, TrainingRun, describe_device, train

ABLATED_DATASETS = ("r8", "clothing-long")
UNCHANGED = "as in the paper"
ABLATIONS: dict[str, Settings] = {
    UNCHANGED: (),
    "without l2": (("model.score_l2", False),),
    "without tanh": (("model.score_tanh", False),),
    "without tanh and l2": (("model.score_l2", False), ("model.score_tanh", False)),
    "scores from hₜ instead of uₜ": (("model.score_input", "states"),),
    "rank 2": (("model.rank", 2),),
    "rank 4": (("model.rank", 4),),
    "temperature, starting at 8": (("model.initial_temperature", 8.0),),
    "one head": (("model.heads", 1),),
    "one head without l2": (("model.heads", 1), ("model.score_l2", False)),
}
RANDOM_VECTORS: Settings = (("text.word_vectors", "random"),)
CONSTANT_RATE: Settings = (("training.schedule", "constant"),)
FOUR_EPOCHS: Settings = (("training.epochs", 4),)
NO_CLIPPING: Settings = (("training.gradient_clip", None),)
ONE_HEAD: Settings = (("model.heads", 1),)  # chosen for LAMA+ctx on r8
FIVE_HEADS: Settings = (("model.heads", 5),)
FIFTEEN_HEADS: Settings = (("model.heads", 15),)
NO_PENALTY, WEAK_PENALTY, FULL_PENALTY = (
    (("model.disagreement_weight", weight),) for weight in (0.0, 0.3, 1.0)
)
SUMMED_TERM: Settings = (("model.disagreement_weight", 32 * 0.2),)  # over a batch of 32 texts


def _settled(*changes: Settings) -> Settings:
    """Return the settings of a probe: those of the settled protocol with changes."""
    changed = chain.from_iterable(changes)
    return tuple(dict((*recipe_schedule(), *changed)).items())


# Data set, model and all settings of each probe; the heads are those of the accuracy table unless
# the name of the probe says otherwise
PROBES: dict[str, tuple[str, str, Settings]] = {
    f"{SYSTEMS[model]} on {dataset}, {change}": (dataset, model, _settled(*settings))
    for dataset, model, change, settings in (
        ("r8", "avg", "random vectors", [RANDOM_VECTORS]),
        ("r8", "avg", "random vectors, 4 epochs", [RANDOM_VECTORS, FOUR_EPOCHS]),
        ("r8", "bigru", "random vectors", [RANDOM_VECTORS]),
        ("r8", "bigru", "random vectors, 4 epochs", [RANDOM_VECTORS, FOUR_EPOCHS]),
        ("imdb", "bigru", "random vectors, 4 epochs", [RANDOM_VECTORS, FOUR_EPOCHS]),
        ("r8", "te", "gradient not limited", [NO_CLIPPING]),
        ("r8", "te", "4 epochs", [FOUR_EPOCHS]),
        ("imdb", "te", "gradient not limited", [NO_CLIPPING]),
        ("imdb", "te", "4 epochs", [FOUR_EPOCHS]),
        ("r8", "cnn", "random vectors", [RANDOM_VECTORS]),
        ("r8", "cnn", "constant rate", [CONSTANT_RATE]),
        ("r8", "san", "15 heads", [NO_PENALTY, FIFTEEN_HEADS]),
        ("r8", "san", "15 heads, penalty 0.3", [WEAK_PENALTY, FIFTEEN_HEADS]),
        ("r8", "san", "15 heads, penalty 1", [FULL_PENALTY, FIFTEEN_HEADS]),
        ("imdb", "san", "15 heads, penalty 0.3", [WEAK_PENALTY, FIFTEEN_HEADS]),
        ("r8", "lama-ctx", "15 heads", [FIFTEEN_HEADS]),
        ("r8", "lama-ctx", "constant rate", [ONE_HEAD, CONSTANT_RATE]),
        ("r8", "lama-ctx", "random vectors", [ONE_HEAD, RANDOM_VECTORS]),
        ("r8", "lama-ctx-dp", "15 heads", [FIFTEEN_HEADS]),
        ("r8", "lama-ctx-dp", "15 heads, term summed", [FIFTEEN_HEADS, SUMMED_TERM]),
        (
            *("imdb", "lama-ctx-dp", "15 heads, term summed, 4 epochs"),
            [FIFTEEN_HEADS, SUMMED_TERM, FOUR_EPOCHS],
        ),
        ("r8", "lama-ctx-de", "15 heads", [FIFTEEN_HEADS]),
        ("r8", "lama-ctx-de", "15 heads, term summed", [FIFTEEN_HEADS, SUMMED_TERM]),
        ("r8", "lama-ctx-de", "15 heads, 4 epochs", [FIFTEEN_HEADS, FOUR_EPOCHS]),
        (
            *("r8", "lama-ctx-de", "15 heads, term summed, random vectors, 4 epochs"),
            [FIFTEEN_HEADS, SUMMED_TERM, RANDOM_VECTORS, FOUR_EPOCHS],
        ),
        ("imdb", "lama-ctx-de", "15 heads, term summed", [FIFTEEN_HEADS, SUMMED_TERM]),
        ("mr", "avg", "random vectors", [RANDOM_VECTORS]),
        ("mr", "cnn", "random vectors", [RANDOM_VECTORS]),
        ("mr", "lama-encoder", "random vectors", [RANDOM_VECTORS]),
        ("mr", "lama-ctx", "random vectors", [FIVE_HEADS, RANDOM_VECTORS]),
    )
}
DIVERGENCE = "diverged in epoch"
DIVERGENT_MODELS = ("avg", "lama-ctx")
# The paper's "summed over all documents in a minibatch": the gradient of 32 texts is added up
SUM_OVER_BATCH: Settings = (
    *CONSTANT_RATE,
    ("training.learning_rate", 32 * 0.05),
    ("training.weight_decay", 1e-4 / 32),
    ("training.epochs", 2),
)


def measure_divergence(records: Records, data: TokenizedDataset, device: torch.device) -> None:
    """Record in which epoch training diverges if the loss of a mini-batch is a sum, not a mean.

    Two epochs are tried; 0 means that both ended with a finite loss.
    """
    for model in DIVERGENT_MODELS:
        run = TrainingRun("probe", data.name, model, 0, None, SUM_OVER_BATCH)
        record = run.record(DIVERGENCE, 0.0)
        if records.has(record.key):
            continue
        try:
            train(run, data, device)
        except ModelError as error:
            epoch = re.search(r"diverged in epoch (\d+)", str(error))
            if epoch is None:
                raise
            record = replace(record, value=float(epoch[1]))
        records.add([replace(record, device=describe_device(device, model)).with_provenance()])


def ablation_records(records: Records, dataset: str, name: str) -> list[Record]:
    """Return the test accuracies of one ablation of LAMA+ctx, one record per seed."""
    return [
        record
        for record in records.of("ablation")
        if (record.dataset, record.metric) == (dataset, "accuracy")
        and record.changed_settings == dict(ABLATIONS[name])
    ]


def ablation_table(records: Records) -> str:
    """Format each ablation's test accuracy and its paired difference from the full model."""

    def cells(dataset: str, name: str) -> list[str]:
        changed, full = (ablation_records(records, dataset, each) for each in (name, UNCHANGED))
        difference = interval_between(records, changed, full) if name != UNCHANGED else None
        accuracies = [record.number for record in changed]
        return [mean_and_spread(accuracies), format_interval(difference)]

    rows = [
        [name, *(cell for dataset in ABLATED_DATASETS for cell in cells(dataset, name))]
        for name in ABLATIONS
    ]
    columns = [
        column
        for dataset in ABLATED_DATASETS
        for column in (dataset_heading(dataset), "change in points")
    ]
    return markdown_table((f"LAMA+ctx, m = {DEFAULT_HEADS}", *columns), rows)


def probe_record(records: Records, name: str) -> Record | None:
    """Return the test accuracy of a probe; ``--quick`` changes its number of epochs."""
    dataset, model, settings = PROBES[name]
    wanted = dict(settings)
    similar = [
        record
        for record in records.of("probe")
        if (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
        and {**record.config, "training.epochs": 0} == {**wanted, "training.epochs": 0}
    ]
    exact = [record for record in similar if dict(record.config) == wanted]
    return next(iter(exact or similar), None)


def probes_table(records: Records) -> str:
    """Format the probes next to the same seed of the unchanged system in the accuracy table."""
    rows = []
    for name, (dataset, model, _) in PROBES.items():
        probe = probe_record(records, name)
        unchanged = seed_accuracy(accuracy_records(records, dataset, model), seed=0)
        rows.append(
            [
                name,
                three_digits(None if probe is None else probe.number),
                three_digits(unchanged),
                MISSING if probe is None else probe.device,
            ]
        )
    return markdown_table(("probe", "accuracy", "seed 0 of the accuracy table", "device"), rows)
