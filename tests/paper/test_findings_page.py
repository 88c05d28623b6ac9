"""The page of findings: its tables are what the records give, and its prose quotes the records."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lamatext.recipes import load_recipe
from paper import choices
from paper.ablation import (
    ABLATED_DATASETS,
    ABLATIONS,
    DIVERGENCE,
    UNCHANGED,
    ablation_records,
    probe_record,
)
from paper.accuracy_table import (
    EARLIER,
    accuracy_records,
    best_accuracy,
    mean_accuracy,
    seed_accuracy,
)
from paper.confidence_intervals import format_interval, interval_between, interval_sign
from paper.experiments import FINDINGS, all_tables
from paper.heads import HEADS, TUNED_DATASETS, chosen_heads, fold_accuracies
from paper.linear_baselines import BASELINE_NAMES
from paper.markdown import read_blocks, three_digits
from paper.open_directions import (
    BLOCKS,
    ENCODER_DATASETS,
    ENCODERS,
    EQUAL_SIZES,
    PHRASE_WIDTHS,
    WIDTHS,
)
from paper.parameters import PARAMETER_HEADS, parameter_count
from paper.protocol import MINILM, TRAINED_SYSTEMS
from paper.published_results import published_accuracy
from paper.records import PAPER_RECORDS, Record, Records
from paper.runtime import epoch_seconds, projection_share
from paper.two_layer_gru import SEEDS as LAYER_SEEDS
from paper.two_layer_gru import TWO_LAYERS
from paper.word_weights import (
    EXAMPLE_WORDS,
    WITH_TEMPERATURE,
    rating_difference,
    weight_range,
)

RECORDS = Records(PAPER_RECORDS)
DATASETS = ("r8", "imdb", "news", "clothing", "mr")
PAGE = FINDINGS.read_text(encoding="utf-8")
BASELINES = ("san", "bigru", "cnn", "te", "avg")
SCORE_CHANGES = (
    "without l2", "without tanh", "without tanh and l2", "rank 2", "rank 4",
    "temperature, starting at 8",
)  # fmt: skip
SETTINGS = {  # numbers in the prose that are settings or mathematics, not measurements
    *("7.4", "0.4", "0.05", "0.9", "0.01", "1e-4", "5e-05", "0.3"),
    *("12.5", "1,600", "5,000,000", "4,484", "5,485"),  # the paper's, and sizes of made-up files
    *(".959", ".962"),  # an example of a tie, in the explanation of the notation
    *("1,024", "4,096", "16,384", "32,000"),  # lengths, words of a batch
    ".2",  # how far the default's encoder may be from the best
}


def prose(page: str) -> str:
    """Return a page without its generated blocks and code, with single spaces."""
    page = re.sub(r"<!-- begin: [\w-]+ -->\n.*?<!-- end -->|```.*?```", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", page)


def ours(dataset: str, model: str) -> str:
    return three_digits(mean_accuracy(RECORDS, dataset, model))


def earlier(dataset: str, model: str) -> str:
    return three_digits(mean_accuracy(RECORDS, dataset, model, experiment=EARLIER))


def best(dataset: str, model: str, experiment: str = "accuracy") -> str:
    return three_digits(best_accuracy(RECORDS, dataset, model, experiment))


def published(dataset: str, model: str) -> str:
    return three_digits(published_accuracy(model, dataset))


def seed_0(dataset: str, model: str) -> str:
    return three_digits(seed_accuracy(accuracy_records(RECORDS, dataset, model), seed=0))


def probe(name: str) -> str:
    record = probe_record(RECORDS, name)
    assert record is not None
    return three_digits(record.number)


def published_loss(dataset: str, model: str) -> float:
    """Return the published accuracy of LAMA+ctx minus that of a system."""
    return float(published(dataset, "lama-ctx")) - float(published(dataset, model))


def gap(dataset: str, model: str, experiment: str = "accuracy") -> float:
    """Return our accuracy (best on validation) minus the published one, in points."""
    accuracy = best_accuracy(RECORDS, dataset, model, experiment)
    paper = published_accuracy(model, dataset)
    assert accuracy is not None
    assert paper is not None
    return 100 * (accuracy - paper)


def lead(accuracy: Callable[[str], float | None]) -> str:
    """Return the lead of LAMA+ctx over the mean of the paper's baselines, in points."""
    mean = np.mean([accuracy(model) or 0.0 for model in BASELINES])
    return f"{100 * ((accuracy('lama-ctx') or 0.0) - mean):.1f}"


def our_lead(dataset: str, experiment: str = "accuracy") -> str:
    return lead(lambda model: best_accuracy(RECORDS, dataset, model, experiment))


def published_lead(dataset: str) -> str:
    return lead(lambda model: published_accuracy(model, dataset))


def above(dataset: str, model: str) -> str:
    return f"{gap(dataset, model):.1f}"


def below(dataset: str, model: str) -> str:
    return f"{-gap(dataset, model):.1f}"


def signed_points(interval: tuple[float, float] | None) -> tuple[str, str]:
    low, high = format_interval(interval).strip("*").split(" to ")
    return low, high


def lead_interval(dataset: str, model: str) -> tuple[str, str]:
    """Return the interval of LAMA+ctx's lead over a system in points, which must be positive."""
    found = (accuracy_records(RECORDS, dataset, name) for name in ("lama-ctx", model))
    low, high = signed_points(interval_between(RECORDS, *found))
    return low.removeprefix("+"), high.removeprefix("+")


def layers_interval(dataset: str) -> tuple[str, str]:
    """Return the interval of the lead of two GRU layers over one in points."""
    two = accuracy_records(RECORDS, dataset, TWO_LAYERS, experiment="layers")
    one = [r for r in accuracy_records(RECORDS, dataset, "bigru") if r.seed in LAYER_SEEDS]
    low, high = signed_points(interval_between(RECORDS, two, one))
    return (low, high) if low.startswith("-") else (low[1:], high[1:])


SCHEDULES = choices.compared_schedules(RECORDS)
SCHEDULE_MEANS = np.mean(list(SCHEDULES.values()), axis=0).tolist()
PENALTIES = choices.compared_penalties(RECORDS, choices.recipe_schedule())
R8_HEADS = choices.accuracies_by_heads(RECORDS, "r8", "lama-ctx")


def heads_range(model: str) -> str:
    """Return the largest range of validation accuracy from 5 to 20 heads, in points."""
    ranges = []
    for dataset in choices.CHOICE_DATASETS:
        by_heads = choices.accuracies_by_heads(RECORDS, dataset, model)
        values = [by_heads[heads] for heads in HEADS[1:]]
        ranges.append(100 * (max(values) - min(values)))
    return f"{max(ranges):.1f}"


def hours(model: str) -> float:
    return next(
        r.number for r in RECORDS.of("runtime") if (r.model, r.metric) == (model, "hours per epoch")
    )


def encoders(model: str, value: Callable[[Record], float]) -> float:
    """Return the mean over data sets and seeds of an encoder in the default's network."""
    groups = [
        [
            value(record)
            for record in RECORDS.of(ENCODERS)
            if (record.dataset, record.model, record.metric)
            == (dataset, model, "validation_accuracy")
        ]
        for dataset in ENCODER_DATASETS
    ]
    assert all(len(group) == 3 for group in groups)
    return float(np.mean(groups))


def encoder_gap(model: str) -> float:
    """Return an encoder's accuracy minus LAMA+ctx's in the default's network, in points."""
    ours, theirs = (encoders(name, lambda record: record.number) for name in (model, "lama-ctx"))
    return 100 * (ours - theirs)


def encoder_time(model: str) -> str:
    """Return an encoder's training time as a multiple of LAMA+ctx's."""
    ours, theirs = (encoders(name, lambda record: record.seconds) for name in (model, "lama-ctx"))
    return f"{ours / theirs:.1f}"


def blocks_accuracies(dataset: str, name: str) -> list[float]:
    """Return the accuracy of lama-blocks with a changed part, seed by seed."""
    wanted = dict((*choices.recipe_schedule(), *BLOCKS[name]))
    return [
        record.number
        for record in RECORDS.of(WIDTHS)
        if (record.dataset, record.model, record.metric) == (dataset, "lama-blocks", "accuracy")
        and dict(record.config) == wanted
    ]


def blocks_variant(dataset: str, name: str) -> str:
    """Return the mean accuracy of lama-blocks with a changed part."""
    return three_digits(float(np.mean(blocks_accuracies(dataset, name))))


def worst_seed(dataset: str, model: str) -> str:
    """Return the lowest accuracy of a system of the open directions."""
    found = accuracy_records(RECORDS, dataset, model, experiment="open-directions")
    return three_digits(min(record.number for record in found))


def amazing(model: str) -> tuple[str, str]:
    """Return the weight of "amazing" on imdb after "not" and elsewhere."""
    found = [
        record.value
        for record in RECORDS.of("open-directions")
        if (record.dataset, record.model, record.metric) == ("imdb", model, "weight of amazing")
        and isinstance(record.value, dict)
    ]
    after, elsewhere = (
        np.mean([value[place] for value in found]) for place in ("after not", "elsewhere")
    )
    return f"{after:.2f}", f"{elsewhere:.2f}"


def direction_interval(dataset: str, model: str, other: str = "lama-ctx") -> tuple[str, str]:
    """Return the interval of one system minus another at equal size, in points."""
    ours, theirs = (
        accuracy_records(RECORDS, dataset, name, experiment="open-directions")
        for name in (model, other)
    )
    return signed_points(interval_between(RECORDS, ours, theirs))


def shuffling(dataset: str, model: str) -> str:
    """Return how many points a system of the open directions loses with shuffled words."""
    before, after = (
        np.mean(
            [
                record.number
                for record in RECORDS.of("open-directions")
                if (record.dataset, record.model, record.metric) == (dataset, model, metric)
            ]
        )
        for metric in ("accuracy", "accuracy, shuffled words")
    )
    return f"{100 * float(before - after):.1f}"


def by_length(device: str, metric: str, model: str, words: int) -> float:
    """Return time or memory of a system at one text length."""
    return next(
        record.number
        for record in RECORDS.of("text-lengths")
        if (record.device.startswith(device), record.metric, record.model, record.config["words"])
        == (True, metric, model, words)
    )


def times_as_fast(task: str, words: int) -> str:
    """Return the speed of lama-blocks on the GPU as a multiple of LAMA+ctx's."""
    ctx, blocks = (
        by_length("NVIDIA", f"{task} microseconds per word", model, words)
        for model in ("lama-ctx", "lama-blocks")
    )
    return f"{ctx / blocks:.1f}"


def fastest(model: str, longest: int = 1_024) -> str:
    """Return the largest ratio of a system's speed to that of LAMA+ctx up to a text length."""
    seconds: dict[tuple[object, ...], dict[str, float]] = {}
    for r in RECORDS.of("text-lengths"):
        words = int(str(r.config["words"]))
        if r.metric.endswith("microseconds per word") and words <= longest:
            seconds.setdefault((r.device, r.metric, words), {})[r.model] = r.number
    speeds = {(r.device, r.model): r.number for r in RECORDS.of("training-speed")}
    ratios = [at["lama-ctx"] / at[model] for at in seconds.values() if model in at]
    ratios += [speeds[of, model] / speeds[of, "lama-ctx"] for of in {of for of, _ in speeds}]
    return f"{max(ratios):.1f}"


def ablation_change(dataset: str, name: str) -> float:
    changed, full = (
        np.mean([record.number for record in ablation_records(RECORDS, dataset, each)])
        for each in (name, UNCHANGED)
    )
    return 100 * float(changed - full)


def cost(dataset: str, name: str) -> str:
    return f"{-ablation_change(dataset, name):.1f}"


def count(model: str, component: str, heads: int = 2) -> float:
    record = parameter_count(RECORDS, model, component, heads)
    assert record is not None
    return record.number


def published_count(model: str, heads: int = 2) -> float:
    record = parameter_count(RECORDS, model, "total", heads)
    assert record is not None
    assert record.paper is not None
    return record.paper


def millions(value: float) -> str:
    return f"{value / 1e6:.2f} M"


def per_head(of_heads: Callable[[int], float]) -> str:
    few, many = PARAMETER_HEADS[0], PARAMETER_HEADS[-1]
    return f"{(of_heads(many) - of_heads(few)) / (many - few):,.0f}"


def te_to_le() -> tuple[str, str]:
    seconds = epoch_seconds(RECORDS)
    ratios = [
        value / seconds[dataset, device, "lama-encoder", words]
        for (dataset, device, model, words), value in seconds.items()
        if model == "te"
    ]
    return f"{min(ratios):.1f}", f"{max(ratios):.1f}"


def weights(settings: dict[str, object] | None = None) -> tuple[str, str]:
    low, high = weight_range(RECORDS, settings)
    return f"{low:.2f}", f"{high:.2f}"


# Every sentence part that quotes a measurement, with the values that the records give for it.
QUOTES: list[tuple[str, tuple[str, ...]]] = [
    (
        "LAMA+ctx reaches {} on IMDB and {} on R8 | Reproduced on IMDB ({}; mean of the seeds {}). "
        "On R8 {} points less ({}; mean {}).",
        (
            published("imdb", "lama-ctx"),
            published("r8", "lama-ctx"),
            best("imdb", "lama-ctx"),
            ours("imdb", "lama-ctx"),
            below("r8", "lama-ctx"),
            best("r8", "lama-ctx"),
            ours("r8", "lama-ctx"),
        ),
    ),
    ("On imdb, by {} to {} points.", lead_interval("imdb", "lama")),
    (
        "is {} points on R8 (published: {}) and {} on IMDB (published: {})",
        (our_lead("r8"), published_lead("r8"), our_lead("imdb"), published_lead("imdb")),
    ),
    (
        "D_e costs {} to {} points on imdb (published: {}), D_p {} to {} on mr,",
        (
            *lead_interval("imdb", "lama-ctx-de"),
            f"{100 * (published_loss('imdb', 'lama-ctx-de')):.1f}",
            *lead_interval("mr", "lama-ctx-dp"),
        ),
    ),
    (
        "On R8 LAMA+ctx has {} instead of {}, and its mean lead over SAN, BiGRU, CNN, TE and AVG "
        "is {} points: the published lead of {} does not come",
        (
            best("r8", "lama-ctx", "folds"),
            best("r8", "lama-ctx"),
            our_lead("r8", "folds"),
            published_lead("r8"),
        ),
    ),
    (
        "and LAMA+ctx has {} instead of {}: with so few texts",
        (best("mr", "lama-ctx", "folds"), best("mr", "lama-ctx")),
    ),
    (
        "a constant rate ({}) is almost as good as the chosen schedule ({}); halving after every "
        "epoch, as our first protocol did, has {}.",
        tuple(three_digits(SCHEDULE_MEANS[number]) for number in (2, 1, 0)),
    ),
    (
        "accuracy of LAMA+ctx differs by at most {} points, that of SAN by {}:",
        (heads_range("lama-ctx"), heads_range("san")),
    ),
    (
        "AVG on imdb had {} and has {}, LE {} and {}, LAMA+ctx on mr {} and {}, SAN on news {} "
        "and {}.",
        tuple(
            of(*cell)
            for cell in (
                ("imdb", "avg"),
                ("imdb", "lama-encoder"),
                ("mr", "lama-ctx"),
                ("news", "san"),
            )
            for of in (earlier, ours)
        ),
    ),
    (
        "**AVG on R8** is {} points above the published {}. After four epochs from random vectors "
        "it has {}; trained to the end from random vectors it has {}.",
        (
            above("r8", "avg"),
            published("r8", "avg"),
            probe("AVG on r8, random vectors, 4 epochs"),
            probe("AVG on r8, random vectors"),
        ),
    ),
    (
        "**TE** is {} points above the published value on R8 and {} on IMDB.",
        (above("r8", "te"), above("imdb", "te")),
    ),
    (
        "Without the limit TE has {} on R8, far below the published {}; with it, "
        "four epochs give {}",
        (
            probe("TE on r8, gradient not limited"),
            published("r8", "te"),
            probe("TE on r8, 4 epochs"),
        ),
    ),
    (
        "**SAN** is {} points above the published value on R8 and {} on IMDB.",
        (above("r8", "san"), above("imdb", "san")),
    ),
    (
        "its validation accuracy is {} on R8 and {} on IMDB, with 0.3 it is {} and {}, without it "
        "{} and {}. The published {} and {} lie between",
        (
            *(
                three_digits(PENALTIES[dataset][number])
                for number in (2, 1, 0)
                for dataset in ("r8", "imdb")
            ),
            published("r8", "san"),
            published("imdb", "san"),
        ),
    ),
    (
        "**BiGRU** is {} points above the published value on R8 and {} on IMDB. Four "
        "epochs from random vectors give {} and {}:",
        (
            above("r8", "bigru"),
            above("imdb", "bigru"),
            probe("BiGRU on r8, random vectors, 4 epochs"),
            probe("BiGRU on imdb, random vectors, 4 epochs"),
        ),
    ),
    (
        "**D_e** is {} points above the published value on R8 and {} on IMDB, D_p {} and {}.",
        tuple(above(name, f"lama-ctx-{term}") for term in ("de", "dp") for name in ("r8", "imdb")),
    ),
    (
        "without it TE has {} instead of {} (the same seed)",
        (probe("TE on imdb, gradient not limited"), seed_0("imdb", "te")),
    ),
    (
        "With 15 heads D_e has {} and D_p {}, next to {} without a term. With 15 heads and a term "
        "that is summed over a mini-batch instead of averaged, so 32 times as strong, D_e has {} "
        "on R8 and {} on IMDB, D_p {} on R8.",
        tuple(
            probe(f"LAMA+ctx{name}")
            for name in (
                "+D_e on r8, 15 heads",
                "+D_p on r8, 15 heads",
                " on r8, 15 heads",
                "+D_e on r8, 15 heads, term summed",
                "+D_e on imdb, 15 heads, term summed",
                "+D_p on r8, 15 heads, term summed",
            )
        ),
    ),
    (
        "On R8 four epochs with the averaged term give {}, and four epochs with the summed term "
        "from random vectors {}: a strong term and too little training together would explain the "
        "published {}.",
        (
            probe("LAMA+ctx+D_e on r8, 15 heads, 4 epochs"),
            probe("LAMA+ctx+D_e on r8, 15 heads, term summed, random vectors, 4 epochs"),
            published("r8", "lama-ctx-de"),
        ),
    ),
    ("after four epochs TE is still at chance there ({})", (probe("TE on imdb, 4 epochs"),)),
    (
        "On IMDB four epochs with a summed term give D_p {}, next to the published {}.",
        (
            probe("LAMA+ctx+D_p on imdb, 15 heads, term summed, 4 epochs"),
            published("imdb", "lama-ctx-dp"),
        ),
    ),
    (
        "15 heads have {} on R8 without penalty, {} with 0.3 and {} with 1.",
        tuple(
            probe(f"SAN on r8, 15 heads{penalty}")
            for penalty in ("", ", penalty 0.3", ", penalty 1")
        ),
    ),
    (
        "**LE** is {} points above the published value on R8 and {} on IMDB.",
        (above("r8", "lama-encoder"), above("imdb", "lama-encoder")),
    ),
    (
        "LE had {} there, next to the published {}",
        (earlier("imdb", "lama-encoder"), published("imdb", "lama-encoder")),
    ),
    (
        "**AVG on IMDB**, once {} points below the published value, is now {} above. On validation "
        "data it has {} when the rate is halved after every epoch, {} after every two, {} with a",
        (
            f"{-gap('imdb', 'avg', EARLIER):.1f}",
            above("imdb", "avg"),
            *map(three_digits, SCHEDULES["imdb", "avg"]),
        ),
    ),
    ("On R8 it is {} points below it. The schedule", (below("r8", "cnn"),)),
    (
        "with a constant rate seed 0 has {} instead of {}. The word vectors are: from random "
        "vectors it has {}, next to the published {}.",
        (
            probe("CNN on r8, constant rate"),
            seed_0("r8", "cnn"),
            probe("CNN on r8, random vectors"),
            published("r8", "cnn"),
        ),
    ),
    ("**LAMA+ctx on R8** is {} points below", (below("r8", "lama-ctx"),)),
    (
        "one head has {}, more heads {}. Neither are the schedule and the word vectors: with a "
        "constant rate seed 0 has {} instead of {}, from random vectors {}.",
        (
            three_digits(R8_HEADS[1]),
            three_digits(R8_HEADS[15]),
            probe("LAMA+ctx on r8, constant rate"),
            seed_0("r8", "lama-ctx"),
            probe("LAMA+ctx on r8, random vectors"),
        ),
    ),
    (
        "their means are {}, {} and {}. From random vectors the same systems have {}, {} and {}, "
        "LAMA+ctx {} instead of {}.",
        (
            *(ours("mr", model) for model in ("avg", "lama-encoder", "cnn")),
            *(probe(f"{name} on mr, random vectors") for name in ("AVG", "LE", "CNN", "LAMA+ctx")),
            seed_0("mr", "lama-ctx"),
        ),
    ),
    (
        "Two layers are better by {} to {} points on mr; on r8 the interval of the difference is "
        "{} to {}.",
        (*layers_interval("mr"), *layers_interval("r8")),
    ),
    (
        "One head costs {} points on r8 and {} on clothing-long; without l2 it costs {} and {}",
        tuple(
            cost(dataset, name)
            for name in ("one head", "one head without l2")
            for dataset in ("r8", "clothing-long")
        ),
    ),
    (
        "in every seed of both data sets, by {} and {} points",
        tuple(cost(dataset, "scores from hₜ instead of uₜ") for dataset in ("r8", "clothing-long")),
    ),
    (
        "ratio between TE and LAMA is {} at m = 2, a difference of {} parameters",
        (
            f"{published_count('te') / published_count('lama-ctx'):.1f}",
            millions(published_count("te") - published_count("lama-ctx")),
        ),
    ),
    (
        "512 wide in TE ({}) and 100 wide in LAMA ({}). Without the embedding TE has {} parameters "
        "and LAMA {}",
        (
            millions(count("te", "embedding")),
            millions(count("lama-ctx", "embedding")),
            millions(count("te", "total") - count("te", "embedding")),
            millions(count("lama-ctx", "total") - count("lama-ctx", "embedding")),
        ),
    ),
    (
        "totals of LAMA grow by {} parameters per head. Our attention layer alone grows by {},",
        (
            per_head(lambda heads: published_count("lama-ctx", heads)),
            per_head(lambda heads: count("lama-ctx", "attention", heads)),
        ),
    ),
    ("by {}: the published", (per_head(lambda heads: count("lama-ctx", "classifier", heads)),)),
    ("n·d²: {} % of the layer's operations", (f"{100 * projection_share(RECORDS):.0f}",)),
    ("An epoch of TE takes {} to {} times as long", te_to_le()),
    (
        "takes {} times as long as one of LAMA+ctx",
        (f"{hours('bert') / hours('lama-ctx'):.0f}",),
    ),
    (
        "It is {} to {} points above TE on imdb,",
        tuple(v.lstrip("+") for v in direction_interval("imdb", "lama-phrases", "te")),
    ),
    (
        "`lama-blocks` is {} to {} points below LAMA+ctx on imdb, {} to {} above TE and {} to {} "
        "above LE.",
        tuple(
            value.lstrip("+-")
            for value in (
                *reversed(direction_interval("imdb", "lama-blocks")),
                *direction_interval("imdb", "lama-blocks", "te"),
                *direction_interval("imdb", "lama-blocks", "lama-encoder"),
            )
        ),
    ),
    (
        "one seed of `lama-blocks` ({}) and one of `lama-phrases` ({}) stop",
        (worst_seed("r8", "lama-blocks"), worst_seed("r8", "lama-phrases")),
    ),
    (
        "which TE has ({}), or by AdamW ({})",
        (blocks_variant("r8", "gradient limited, as TE's"), blocks_variant("r8", "AdamW")),
    ),
    ("AdamW does ({}).", (blocks_variant("mr", "AdamW"),)),
    (
        "lose {} to {} points. `lama-blocks` loses {} and {}, and TE only {} and {}:",
        (
            *(
                sorted(
                    shuffling(dataset, model)
                    for dataset in ("clothing-long", "imdb")
                    for model in ("lama-ctx", "lama-phrases")
                )[number]
                for number in (0, -1)
            ),
            *(
                shuffling(dataset, model)
                for model in ("lama-blocks", "te")
                for dataset in ("clothing-long", "imdb")
            ),
        ),
    ),
    (
        '"amazing" has {} instead of {} in LAMA+ctx and {} instead of {} in `lama-phrases`',
        (*amazing("lama-ctx"), *amazing("lama-phrases")),
    ),
    (
        "{} GB on the GPU at 16,384 words",
        (f"{by_length('NVIDIA', 'inference megabytes', 'te', 16_384) / 1e3:.0f}",),
    ),
    (
        "it reads 32,000 words in {} GB; a training step at 16,384 words takes {} GB and {} s",
        (
            f"{by_length('CPU', 'inference megabytes', 'te', 32_000) / 1e3:.0f}",
            f"{by_length('CPU', 'training megabytes', 'te', 16_384) / 1e3:.0f}",
            f"{by_length('CPU', 'training microseconds per word', 'te', 16_384) * 0.016384:.0f}",
        ),
    ),
    (
        "`lama-blocks` is {} times as fast as LAMA+ctx in inference on the GPU and {} in training, "
        "at 32,000 words {} and {} times.",
        tuple(
            times_as_fast(task, words)
            for words in (16_384, 32_000)
            for task in ("inference", "training")
        ),
    ),
    (
        "up to 1,024 words `lama-blocks` is at most {} times as fast on",
        (fastest("lama-blocks"),),
    ),
    (
        "`lama-blocks` has {} points less than LAMA+ctx and trains {} times as long, "
        "`lama-phrases` has the same accuracy and trains {} times as long",
        (
            f"{-encoder_gap('lama-blocks'):.1f}",
            encoder_time("lama-blocks"),
            encoder_time("lama-phrases"),
        ),
    ),
    (
        "`lama-blocks` is at most {} times as fast as LAMA+ctx, `lama-phrases` always slower",
        (fastest("lama-blocks"),),
    ),
    ("weights lie between {} and {} times the mean", weights()),
    ("same words lie between {} and {}", weights(WITH_TEMPERATURE)),
]


def test_the_tables_are_what_the_records_give() -> None:
    assert read_blocks(PAGE) == all_tables(RECORDS), "run python -m paper all --show"


@pytest.mark.parametrize(("template", "values"), QUOTES, ids=[quote for quote, _ in QUOTES])
def test_a_quoted_number_is_the_one_in_the_records(template: str, values: tuple[str, ...]) -> None:
    assert template.format(*values) in prose(PAGE)


def test_no_other_measured_number_is_quoted() -> None:
    text = prose(PAGE)
    for template, values in QUOTES:
        text = text.replace(template.format(*values), "")

    numbers = re.findall(r"(?<![\w.])(?:\d*\.\d+|\d+e-\d+|\d{1,3}(?:,\d{3})+)", text)

    assert set(numbers) <= SETTINGS


def test_figures_that_the_page_shows_exist() -> None:
    for figure in re.findall(r"\]\((figures/[\w-]+\.png)\)", PAGE):
        assert (FINDINGS.parent / figure).is_file()
    for target in re.findall(r"\]\((\.\./[^)#]+)\)", PAGE):
        assert (FINDINGS.parent / target).resolve().is_file(), target


@pytest.mark.parametrize("model", ["san", "bigru", "te", "lama-encoder"])
def test_four_systems_exceed_their_published_accuracy_by_a_point_on_both_sets(model: str) -> None:
    assert min(gap("r8", model), gap("imdb", model)) > 1


def test_every_difference_of_a_point_is_explained_or_marked() -> None:
    names = {"san": "SAN", "bigru": "BiGRU", "cnn": "CNN", "te": "TE", "avg": "AVG", "lama": "LAMA"}
    names |= {"lama-ctx": "LAMA+ctx", "lama-ctx-dp": "D_p", "lama-ctx-de": "D_e"}
    names |= {"lama-encoder": "LE"}
    section = PAGE[PAGE.index("## Differences from") : PAGE.index("## BiGRU with two layers")]

    for dataset in ("r8", "imdb"):
        for model in TRAINED_SYSTEMS:
            measured = accuracy_records(RECORDS, dataset, model)
            if measured and abs(gap(dataset, model)) > 1:
                explained = re.findall(r"^- \*\*.*?(?=^- |^## |\Z)", section, flags=re.M | re.S)
                assert any(
                    names[model] in text and dataset.upper() in text for text in explained
                ), (dataset, model)


def difference(dataset: str, one: str, other: str) -> int:
    """Return whether a system is better (1), worse (-1) or not separable (0)."""
    found = (accuracy_records(RECORDS, dataset, name) for name in (one, other))
    return interval_sign(interval_between(RECORDS, *found))


def test_te_has_a_higher_mean_than_le_on_every_set_and_a_lower_one_in_the_paper() -> None:
    for dataset in DATASETS:
        assert float(ours(dataset, "te")) > float(ours(dataset, "lama-encoder"))
    better = {name for name in DATASETS if difference(name, "te", "lama-encoder") > 0}
    assert better == {"r8", "clothing", "mr"}
    for dataset in ("r8", "imdb"):
        assert published(dataset, "lama-encoder") > published(dataset, "te")


def test_a_linear_model_beats_the_paper_s_systems_on_three_sets_and_minilm_wins_on_all() -> None:
    linear_wins = set()
    for dataset in DATASETS:
        linear, trained = (
            max(mean_accuracy(RECORDS, dataset, model) or 0 for model in models)
            for models in (BASELINE_NAMES, TRAINED_SYSTEMS)
        )
        if linear > trained:
            linear_wins.add(dataset)
        assert (mean_accuracy(RECORDS, dataset, "minilm") or 0) > max(linear, trained)
    assert linear_wins == {"r8", "news", "mr"}


def better_than(model: str) -> set[str]:
    return {name for name in DATASETS if difference(name, "lama-ctx", model) > 0}


def worse_than(model: str) -> set[str]:
    return {name for name in DATASETS if difference(name, "lama-ctx", model) < 0}


def test_the_comparisons_of_lama_ctx_follow_from_the_intervals() -> None:
    better = {
        "lama": {"imdb"},
        "avg": {"r8", "imdb", "clothing", "mr"},
        "lama-encoder": {"r8", "imdb", "clothing", "mr"},
        "cnn": {"r8", "imdb", "clothing", "mr"},
        "te": {"imdb", "mr"},
        "bigru": {"mr"},
        "san": {"mr"},
        "lama-ctx-dp": {"mr"},
        "lama-ctx-de": {"imdb"},
    }
    assert {model: better_than(model) for model in better} == better
    assert {model for model in better if worse_than(model)} == {"san"}
    assert worse_than("san") == {"imdb"}
    assert worse_than("minilm") == set(DATASETS)
    assert len(worse_than("tfidf-svc")) == 4


def test_fifteen_heads_win_three_choices_and_one_head_two_of_lama_ctx() -> None:
    chosen = {
        (dataset, model): choices.chosen_heads(RECORDS, dataset, model)
        for dataset in choices.CHOICE_DATASETS
        for model in choices.CHOSEN_FOR
    }

    assert len(chosen) == 15
    assert list(chosen.values()).count(15) == 3
    assert {d for (d, model), heads in chosen.items() if model == "lama-ctx" and heads == 1} == {
        "r8",
        "clothing",
    }


def test_three_systems_are_at_chance_on_mr_and_shuffling_mr_and_r8_changes_nothing() -> None:
    for model in ("lama-blocks", "lama-encoder", "te"):
        found = accuracy_records(RECORDS, "mr", model, experiment="open-directions")
        assert [r.number for r in found] == [pytest.approx(0.5, abs=0.005)] * 5
    for dataset in ("mr", "r8"):
        for model in EQUAL_SIZES:
            assert abs(float(shuffling(dataset, model))) <= 0.2


def test_the_open_directions_compare_with_lama_ctx_and_te_as_the_page_says() -> None:
    def sign(dataset: str, model: str, other: str) -> int:
        found = (
            accuracy_records(RECORDS, dataset, name, experiment="open-directions")
            for name in (model, other)
        )
        return interval_sign(interval_between(RECORDS, *found))

    datasets = ("mr", "r8", "clothing-long", "imdb")
    assert [sign(name, "lama-phrases", "lama-ctx") for name in datasets] == [0, 0, 0, 0]
    assert [sign(name, "lama-phrases", "te") for name in datasets] == [1, 0, 1, 1]
    assert [
        sign("clothing-long", "lama-blocks", o) for o in ("lama-ctx", "te", "lama-encoder")
    ] == [
        0,
        0,
        0,
    ]


def test_the_width_of_a_phrase_makes_no_difference() -> None:
    for dataset, points in (("mr", 1.0), ("r8", 1.0), ("imdb", 1.0), ("clothing-long", 2.0)):
        means = [
            np.mean(
                [
                    record.number
                    for record in RECORDS.of(WIDTHS)
                    if (record.dataset, record.model, record.metric)
                    == (dataset, "lama-phrases", "accuracy")
                    and record.config["model.phrases"] == width
                ]
            )
            for width in (*PHRASE_WIDTHS.values(), "punctuation")
        ]
        assert 100 * (max(means) - min(means)) < points


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("the recipe", 1),
        ("no positions", 3),
        ("positions from the end too", 2),
        ("two blocks", 3),
        ("no block", 0),
        ("gradient limited, as TE's", 0),
        ("AdamW", 0),
    ],
)
def test_in_how_many_seeds_lama_blocks_fails_on_r8(name: str, failing: int) -> None:
    accuracies = blocks_accuracies("r8", name)

    assert len(accuracies) == 3
    assert sum(accuracy < 0.9 for accuracy in accuracies) == failing


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "AdamW"])
def test_lama_blocks_stays_at_chance_on_mr_without_adamw(name: str) -> None:
    assert max(blocks_accuracies("mr", name)) < 0.51


def test_lama_phrases_is_always_slower_than_lama_ctx() -> None:
    assert float(fastest("lama-phrases")) < 1


def test_systems_with_a_gru_weigh_words_less_after_not() -> None:
    cells: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for record in RECORDS.of("open-directions"):
        shown = record.dataset in ("imdb", "clothing-long")
        if shown and record.metric.startswith("weight of") and isinstance(record.value, dict):
            key = (record.dataset, record.model, record.metric)
            cells.setdefault(key, []).append(record.value)

    assert len(cells) == 2 * 4 * 3
    for (_, model, _), values in cells.items():
        after, elsewhere = (
            np.mean([value[place] for value in values]) for place in ("after not", "elsewhere")
        )
        if model in ("lama-ctx", "lama-phrases"):
            assert after < elsewhere
        else:
            assert after == pytest.approx(elsewhere, abs=0.05)


def test_lama_phrases_reaches_the_default_s_accuracy_and_lama_blocks_does_not() -> None:
    assert abs(encoder_gap("lama-phrases")) < 0.2
    assert encoder_gap("lama-blocks") < -1


def test_no_penalty_is_best_for_san_on_every_data_set() -> None:
    assert set(PENALTIES) == set(DATASETS)
    assert all(max(values) == values[0] for values in PENALTIES.values())


def test_the_literal_sum_over_a_mini_batch_diverges_in_the_first_epoch() -> None:
    epochs = {r.model: r.number for r in RECORDS.of("probe") if r.metric == DIVERGENCE}

    assert epochs == {"avg": 1, "lama-ctx": 1}


def test_te_clips_its_gradient_in_every_run_of_the_accuracy_table() -> None:
    assert load_recipe("paper/te").training.gradient_clip == 1.0
    for record in accuracy_records(RECORDS, "r8", "te"):
        assert "training.gradient_clip" not in record.config


def test_on_mr_all_systems_stay_below_every_linear_model() -> None:
    trained = [float(ours("mr", model)) for model in TRAINED_SYSTEMS]

    assert max(trained) < min(float(ours("mr", name)) for name in BASELINE_NAMES)


def test_mr_has_the_fewest_words_to_train_word2vec_on() -> None:
    statistics = {(r.dataset, r.metric): r.number for r in RECORDS.of("datasets")}
    words = {name: statistics[name, "train"] * statistics[name, "words"] for name in DATASETS}

    assert min(words, key=lambda name: words[name]) == "mr"


def test_the_chosen_heads_are_those_of_the_page_and_one_head_is_worst() -> None:
    records = RECORDS.of("heads")
    chosen = {name: chosen_heads(records, name, "lama-ctx") for name in TUNED_DATASETS}

    assert chosen == {"imdb": 5, "r8": 10, "clothing-long": 15}
    for dataset in TUNED_DATASETS:
        means = [np.mean(fold_accuracies(records, dataset, "lama-ctx", m)) for m in HEADS]
        assert min(means) == means[0]


def test_most_of_the_cost_of_one_head_is_due_to_l2() -> None:
    for dataset in ABLATED_DATASETS:
        with_l2, without = (
            ablation_change(dataset, name) for name in ("one head", "one head without l2")
        )
        assert with_l2 < 0
        assert without > with_l2 / 2


def test_no_change_of_the_scores_is_a_gain_and_scoring_h_costs_in_every_seed() -> None:
    for dataset in ABLATED_DATASETS:
        full = ablation_records(RECORDS, dataset, UNCHANGED)
        for name in SCORE_CHANGES:
            changed = ablation_records(RECORDS, dataset, name)
            assert interval_sign(interval_between(RECORDS, changed, full)) <= 0, name
        of_states = {
            record.seed: record.number
            for record in ablation_records(RECORDS, dataset, "scores from hₜ instead of uₜ")
        }
        assert all(of_states[record.seed] < record.number for record in full)
    assert set(SCORE_CHANGES) < set(ABLATIONS)


def test_lama_is_smaller_than_te_up_to_eight_heads_at_the_papers_sizes() -> None:
    smaller = [
        m for m in PARAMETER_HEADS if count("lama-ctx", "total", m) < count("te", "total", m)
    ]

    assert smaller == [2, 4, 8]
    for heads in PARAMETER_HEADS:
        ours_small, te_small = (
            parameter_count(RECORDS, model, "total", heads, paper_sizes=False)
            for model in ("lama-ctx", "te")
        )
        assert ours_small is not None
        assert te_small is not None
        assert ours_small.number < te_small.number


def test_only_recommended_gets_more_weight_with_more_stars() -> None:
    moved = {word: interval_sign(rating_difference(RECORDS, word)) for word in EXAMPLE_WORDS}

    assert {word for word, sign in moved.items() if sign} == {"recommend(ed)"}
    assert moved["recommend(ed)"] == 1


def test_minilm_was_fine_tuned_with_the_settings_of_the_page() -> None:
    assert dict(MINILM) == {
        "model.pretrained": "minilm",
        "training.optimizer": "adamw",
        "training.learning_rate": 5e-05,
        "training.weight_decay": 0.01,
        "training.schedule": "one-cycle",
        "training.epochs": 3,
        "training.patience": 3,
    }


def test_every_setting_that_the_decisions_name_exists() -> None:
    from lamatext.settings import setting_names

    decisions = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8")

    named = set(re.findall(r"`((?:text|model|training|ngrams)\.\w+)", decisions))
    assert named
    assert named <= set(setting_names())
