"""Ablations of LAMA+ctx on test data, and probes: single runs that test one explanation each."""

from paper.accuracy_table import (
    EARLIER,
    accuracy_records,
    mean_and_spread,
    seed_accuracy,
)
from paper.confidence_intervals import format_interval, interval_between
from paper.heads import DEFAULT_HEADS
from paper.markdown import MISSING, dataset_heading, markdown_table, three_digits
from paper.records import Record, Records
from paper.training_run import Settings

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
CONSTANT_RATE: Settings = (("training.schedule", "constant"),)
RANDOM_VECTORS: Settings = (("text.word_vectors", "random"),)
NO_PENALTY: Settings = (("model.disagreement_weight", 0.0),)
PROBES: dict[str, tuple[str, str, Settings]] = {
    "AVG on r8, random vectors": ("r8", "avg", RANDOM_VECTORS),
    "AVG on mr, constant rate": ("mr", "avg", CONSTANT_RATE),
    "LE on mr, constant rate": ("mr", "lama-encoder", CONSTANT_RATE),
    "LAMA+ctx on mr, constant rate": ("mr", "lama-ctx", CONSTANT_RATE),
    "AVG on mr, random vectors": ("mr", "avg", RANDOM_VECTORS),
    "LE on mr, random vectors": ("mr", "lama-encoder", RANDOM_VECTORS),
    "LAMA+ctx on mr, random vectors": ("mr", "lama-ctx", RANDOM_VECTORS),
    "SAN on mr, no penalty": ("mr", "san", NO_PENALTY),
    "SAN on r8, 15 heads": ("r8", "san", (("model.heads", DEFAULT_HEADS),)),
    "SAN on r8, 15 heads, no penalty": (
        "r8",
        "san",
        (("model.heads", DEFAULT_HEADS), *NO_PENALTY),
    ),
}


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
    """Return the test accuracy of a probe."""
    dataset, model, settings = PROBES[name]
    for record in records.of("probe"):
        same_run = (record.dataset, record.model, record.metric) == (dataset, model, "accuracy")
        if same_run and record.changed_settings == dict(settings):
            return record
    return None


def probes_table(records: Records) -> str:
    """Format the probes next to the same seed of the unchanged system in the accuracy table."""
    rows = []
    for name, (dataset, model, _) in PROBES.items():
        probe = probe_record(records, name)
        earlier = accuracy_records(records, dataset, model, experiment=EARLIER)
        unchanged = seed_accuracy(earlier, seed=0)
        rows.append(
            [
                name,
                three_digits(None if probe is None else probe.number),
                three_digits(unchanged),
                MISSING if probe is None else probe.device,
            ]
        )
    return markdown_table(("probe", "accuracy", "seed 0 of the accuracy table", "device"), rows)
