"""The page of findings: its tables are what the records give, and its prose quotes the records."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lamatext.recipes import load_recipe
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
    best_on_validation,
    mean_accuracy,
    seed_accuracy,
)
from paper.confidence_intervals import interval_between, interval_sign
from paper.experiments import FINDINGS, all_tables
from paper.heads import HEADS, TUNED_DATASETS, chosen_heads, fold_accuracies
from paper.linear_baselines import BASELINE_NAMES
from paper.markdown import read_blocks, three_digits
from paper.parameters import PARAMETER_HEADS, parameter_count
from paper.protocol import MINILM, TRAINED_SYSTEMS
from paper.published_results import DATASETS as ALL_DATASETS
from paper.published_results import published_accuracy
from paper.records import PAPER_RECORDS, Records
from paper.runtime import epoch_seconds, projection_share
from paper.word_weights import (
    EXAMPLE_WORDS,
    WITH_TEMPERATURE,
    rating_difference,
    weight_range,
)

RECORDS = Records(PAPER_RECORDS)
DATASETS = [name for name in ALL_DATASETS if not name.startswith("yelp")]
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
}


def prose(page: str) -> str:
    """Return a page without its generated blocks and code, with single spaces."""
    page = re.sub(r"<!-- begin: [\w-]+ -->\n.*?<!-- end -->|```.*?```", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", page)


def ours(dataset: str, model: str) -> str:
    return three_digits(mean_accuracy(RECORDS, dataset, model, experiment=EARLIER))


def best(dataset: str, model: str) -> str:
    return three_digits(best_accuracy(RECORDS, dataset, model, EARLIER))


def tied(dataset: str, model: str) -> list[str]:
    """Return the test accuracies of the seeds that tie on validation, in ascending order."""
    records = best_on_validation(RECORDS, dataset, model, EARLIER)
    return sorted(three_digits(record.number) for record in records)


def published(dataset: str, model: str) -> str:
    return three_digits(published_accuracy(model, dataset))


def seed_0(dataset: str, model: str) -> str:
    return three_digits(
        seed_accuracy(accuracy_records(RECORDS, dataset, model, experiment=EARLIER), seed=0)
    )


def probe(name: str) -> str:
    record = probe_record(RECORDS, name)
    assert record is not None
    return three_digits(record.number)


def gap(dataset: str, model: str) -> float:
    """Return our accuracy (best on validation) minus the published one, in points."""
    accuracy = best_accuracy(RECORDS, dataset, model, EARLIER)
    paper = published_accuracy(model, dataset)
    assert accuracy is not None
    assert paper is not None
    return 100 * (accuracy - paper)


def lead(accuracy: Callable[[str], float | None]) -> str:
    """Return the lead of LAMA+ctx over the mean of the paper's baselines, in points."""
    mean = np.mean([accuracy(model) or 0.0 for model in BASELINES])
    return f"{100 * ((accuracy('lama-ctx') or 0.0) - mean):.1f}"


def our_lead(dataset: str) -> str:
    return lead(lambda model: best_accuracy(RECORDS, dataset, model, EARLIER))


def published_lead(dataset: str) -> str:
    return lead(lambda model: published_accuracy(model, dataset))


def heads_range() -> str:
    """Return the largest range of cross-validation accuracy from 5 to 20 heads, in points."""
    means = [
        [np.mean(fold_accuracies(RECORDS.of("heads"), name, "lama-ctx", m)) for m in HEADS[1:]]
        for name in TUNED_DATASETS
    ]
    return f"{100 * max(max(values) - min(values) for values in means):.1f}"


def best_validation(dataset: str, model: str) -> str:
    """Return the best validation accuracy of any seed."""
    values = [
        r.number
        for r in RECORDS.of(EARLIER)
        if (r.dataset, r.model, r.metric) == (dataset, model, "validation_accuracy")
    ]
    return three_digits(max(values))


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
        "LAMA+ctx reaches {} on IMDB and {} on R8 | Reproduced on IMDB ({}). On R8 {} and {}, two",
        (
            published("imdb", "lama-ctx"),
            published("r8", "lama-ctx"),
            best("imdb", "lama-ctx"),
            *tied("r8", "lama-ctx"),
        ),
    ),
    (
        "is {} points on R8 (published: {}) and {} on IMDB (published: {})",
        (our_lead("r8"), published_lead("r8"), our_lead("imdb"), published_lead("imdb")),
    ),
    (
        "LAMA+ctx has {} on R8 (published {}) and {} on IMDB (published {})",
        (
            ours("r8", "lama-ctx-de"),
            published("r8", "lama-ctx-de"),
            ours("imdb", "lama-ctx-de"),
            published("imdb", "lama-ctx-de"),
        ),
    ),
    ("differs by at most {} points", (heads_range(),)),
    (
        "**AVG on R8** is {} points above the published {}",
        (f"{gap('r8', 'avg'):.1f}", published("r8", "avg")),
    ),
    (
        "it reaches {}, and with random vectors and four epochs {}:",
        (probe("AVG on r8, random vectors"), probe("AVG on r8, random vectors, 4 epochs")),
    ),
    ("**AVG on IMDB** is {} points below", (f"{-gap('imdb', 'avg'):.1f}",)),
    (
        "**BiGRU and D_e on R8** are {} and {} points above",
        (f"{gap('r8', 'bigru'):.1f}", f"{gap('r8', 'lama-ctx-de'):.1f}"),
    ),
    (
        "**LAMA+ctx on R8** is {} to {} points below",
        tuple(
            f"{100 * (float(published('r8', 'lama-ctx')) - float(value)):.1f}"
            for value in reversed(tied("r8", "lama-ctx"))
        ),
    ),
    (
        "15 heads reach {} with the penalty and {} without, and on mr seed 0 rises from {} to {}",
        (
            probe("SAN on r8, 15 heads"),
            probe("SAN on r8, 15 heads, no penalty"),
            seed_0("mr", "san"),
            probe("SAN on mr, no penalty"),
        ),
    ),
    (
        "validation accuracy in any epoch is {} and {}",
        (best_validation("mr", "san"), best_validation("mr", "lama-encoder")),
    ),
    (
        "LAMA+ctx ({}, and {} at a constant rate), but not for LE and AVG, which at a constant "
        "rate reach {} and {}.",
        (
            seed_0("mr", "lama-ctx"),
            probe("LAMA+ctx on mr, constant rate"),
            probe("LE on mr, constant rate"),
            probe("AVG on mr, constant rate"),
        ),
    ),
    (
        "with random vectors AVG reaches {}, LE {} and LAMA+ctx {}",
        (
            probe("AVG on mr, random vectors"),
            probe("LE on mr, random vectors"),
            probe("LAMA+ctx on mr, random vectors"),
        ),
    ),
    ("starts from random vectors, has {} in the mean", (ours("mr", "te"),)),
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


@pytest.mark.parametrize("model", ["san", "bigru", "te"])
def test_three_baselines_exceed_their_published_accuracy_by_a_point_on_both_sets(
    model: str,
) -> None:
    assert min(gap("r8", model), gap("imdb", model)) > 1


def test_te_has_a_higher_mean_than_le_on_every_set_and_a_lower_one_in_the_paper() -> None:
    for dataset in DATASETS:
        assert float(ours(dataset, "te")) > float(ours(dataset, "lama-encoder"))
    for dataset in ("r8", "imdb"):
        assert published(dataset, "lama-encoder") > published(dataset, "te")


def test_a_linear_model_beats_the_paper_s_systems_on_five_sets_and_minilm_wins_on_all() -> None:
    linear_wins = 0
    for dataset in DATASETS:
        linear, trained = (
            max(mean_accuracy(RECORDS, dataset, model, experiment=EARLIER) or 0 for model in models)
            for models in (BASELINE_NAMES, TRAINED_SYSTEMS)
        )
        linear_wins += linear > trained
        assert (mean_accuracy(RECORDS, dataset, "minilm", experiment=EARLIER) or 0) > max(
            linear, trained
        )
    assert linear_wins == 5


def signs(model: str) -> dict[str, int]:
    """Return on which data sets LAMA+ctx is better (1) or worse (-1) than a system."""
    return {
        dataset: interval_sign(
            interval_between(
                RECORDS,
                accuracy_records(RECORDS, dataset, "lama-ctx", experiment=EARLIER),
                accuracy_records(RECORDS, dataset, model, experiment=EARLIER),
            )
        )
        for dataset in DATASETS
    }


def test_the_comparisons_of_lama_ctx_follow_from_the_intervals() -> None:
    lama = signs("lama")
    assert {name for name, sign in lama.items() if sign > 0} == {"r8"}
    assert {name for name, sign in lama.items() if sign < 0} == {"mr"}
    for model in ("san", "avg", "cnn", "lama-encoder"):
        assert sorted(signs(model).values()) == [0, 1, 1, 1, 1, 1, 1]
    te = signs("te")
    assert {n for n, sign in te.items() if sign > 0} == {"imdb", "clothing", "clothing-polarity"}
    assert {n for n, sign in te.items() if sign < 0} == {"mr"}
    assert set(signs("minilm").values()) == {-1}
    assert list(signs("tfidf-svc").values()).count(-1) == 4
    assert signs("bigru")["r8"] == 0
    assert set(signs("lama-ctx-dp").values()) == {0}


def test_the_literal_sum_over_a_mini_batch_diverges_in_the_first_epoch() -> None:
    epochs = {r.model: r.number for r in RECORDS.of("probe") if r.metric == DIVERGENCE}

    assert epochs == {"avg": 1, "lama-ctx": 1}


def test_te_clips_its_gradient_in_every_recorded_run() -> None:
    assert load_recipe("paper/te").training.gradient_clip == 1.0
    assert not any(
        record.config for record in accuracy_records(RECORDS, "r8", "te", experiment=EARLIER)
    )


def test_san_loses_accuracy_with_every_further_head() -> None:
    for dataset in TUNED_DATASETS:
        means = [
            np.mean(fold_accuracies(RECORDS.of("heads"), dataset, "san", heads)) for heads in HEADS
        ]
        assert means == sorted(means, reverse=True)


def test_on_mr_all_systems_stay_below_every_linear_model_and_two_at_chance() -> None:
    trained = {model: float(ours("mr", model)) for model in TRAINED_SYSTEMS}

    assert max(trained.values()) < min(float(ours("mr", name)) for name in BASELINE_NAMES)
    assert {model for model, accuracy in trained.items() if accuracy < 0.51} == {
        "san",
        "lama-encoder",
    }
    starts = {model: load_recipe(f"paper/{model}").text.word_vectors for model in TRAINED_SYSTEMS}
    assert [model for model in TRAINED_SYSTEMS if starts[model] == "random"] == ["te"]


def test_a_constant_rate_helps_lama_ctx_on_mr_and_not_le_and_avg() -> None:
    for model, name in (("lama-encoder", "LE"), ("avg", "AVG")):
        assert probe(f"{name} on mr, constant rate") <= seed_0("mr", model)
    assert probe("LAMA+ctx on mr, constant rate") > seed_0("mr", "lama-ctx")


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
