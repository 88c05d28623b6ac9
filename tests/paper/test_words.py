"""What ``results/README.md`` says in words holds in the records that stand beside it."""

from pathlib import Path

import numpy as np
import pytest

from lamatext.recipes import load_recipe
from paper.accuracy_tables import best_on_validation, probe
from paper.figures import FIGURES
from paper.findings import BASELINES, at_chance, falls, mean, shift, worst_with_one
from paper.instead import NAMES as LINEAR
from paper.intervals import changed_scores, difference, scores, sure
from paper.page import page
from paper.paper_block import paper_block
from paper.protocol import ABLATED_ON, CHOSEN_ON, TRAINED
from paper.published import DATASETS
from paper.published import accuracy as published
from paper.records import Results
from paper.tables import title

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(ROOT / "results")


def gap(results: Results, dataset: str, model: str) -> float:
    ours, paper = best_on_validation(results, dataset, model), published(model, dataset)
    assert ours is not None
    assert paper is not None
    return 100 * (ours - paper)


def average(results: Results, dataset: str, model: str) -> float:
    found = mean(scores(results, dataset, model))
    assert found is not None
    return found


def probed(results: Results, name: str) -> float:
    found = probe(results, name)
    assert found is not None
    return found.number


def test_the_page_is_the_one_that_the_records_give(results: Results) -> None:
    written = (results.folder / "README.md").read_text(encoding="utf-8")

    assert page(results, dict.fromkeys(FIGURES, True)) == written, (
        "run lamatext reproduce all --show"
    )


def test_the_readme_shows_what_the_records_give(results: Results) -> None:
    assert paper_block(results) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_proposed_model_is_as_published_on_imdb_and_a_little_lower_on_r8(
    results: Results,
) -> None:
    assert abs(gap(results, "imdb", "lama-ctx")) <= 1
    assert -3 < gap(results, "r8", "lama-ctx") < -1


@pytest.mark.parametrize("model", ["san", "bigru", "te"])
def test_these_baselines_are_stronger_than_published_on_both_sets(
    results: Results, model: str
) -> None:
    for dataset in ("r8", "imdb"):
        assert gap(results, dataset, model) > 1
        assert average(results, dataset, model) > (published(model, dataset) or 1)


def test_the_distance_from_the_baselines_shrinks(results: Results) -> None:
    for dataset in ("r8", "imdb"):
        gaps = [gap(results, dataset, model) for model in BASELINES]
        assert np.mean(gaps) > gap(results, dataset, "lama-ctx")


def test_avg_from_random_vectors_is_between_the_published_figure_and_ours(
    results: Results,
) -> None:
    assert gap(results, "r8", "avg") > 10
    tried = probed(results, "AVG on r8 from random vectors")
    assert (published("avg", "r8") or 1) < tried < average(results, "r8", "avg")


def test_te_limits_its_gradient_in_every_run_that_is_recorded(results: Results) -> None:
    assert load_recipe("paper/te").training.gradient_clip == 1.0
    assert not any(record.config for record in scores(results, "r8", "te"))


def test_le_is_above_te_in_the_paper_alone(results: Results) -> None:
    for dataset in ("r8", "imdb"):
        assert (published("lama-encoder", dataset) or 0) > (published("te", dataset) or 1)
    for dataset in DATASETS:
        assert average(results, dataset, "te") > average(results, dataset, "lama-encoder")


def test_san_falls_with_every_head_and_rises_without_its_penalty(results: Results) -> None:
    assert falls(results, "san") == "r8, imdb and clothing-long"
    first = next(r.number for r in scores(results, "r8", "san") if r.seed == 0)
    with_it, without = (
        probed(results, name) for name in ("SAN on r8, m = 15", "SAN on r8, m = 15, no penalty")
    )
    assert with_it < first < without


def test_on_mr_all_end_below_the_linear_models_and_two_at_chance(results: Results) -> None:
    trained = {model: average(results, "mr", model) for model in TRAINED}

    assert max(trained.values()) < min(average(results, "mr", name) for name in LINEAR)
    assert [title(m) in at_chance(results, "mr") for m in ("san", "lama-encoder")] == [True, True]
    assert at_chance(results, "mr").count("(") == 2
    assert max(trained, key=lambda model: trained[model]) == "te"
    starts = {m: load_recipe(f"paper/{m}").text.word_vectors for m in TRAINED}
    assert [model for model in TRAINED if starts[model] == "random"] == ["te"]


def test_the_halving_is_not_why_le_and_avg_fail_on_mr(results: Results) -> None:
    for model, name in (("lama-encoder", "LE"), ("avg", "AVG")):
        first = next(r.number for r in scores(results, "mr", model) if r.seed == 0)
        assert probed(results, f"{name} on mr, constant rate") <= first
    first = next(r.number for r in scores(results, "mr", "lama-ctx") if r.seed == 0)
    assert probed(results, "LAMA+ctx on mr, constant rate") > first


def test_random_vectors_are_the_better_start_on_mr(results: Results) -> None:
    for model in ("avg", "lama-encoder", "lama-ctx"):
        name = f"{title(model)} on mr from random vectors"
        first = next(r.number for r in scores(results, "mr", model) if r.seed == 0)
        assert probed(results, name) > first + 0.1
        assert abs(probed(results, name) - average(results, "mr", "te")) < 0.02
    first = next(r.number for r in scores(results, "mr", "san") if r.seed == 0)
    assert probed(results, "SAN on mr, no penalty") > first + 0.05


def test_mr_has_the_fewest_words_to_train_vectors_on(results: Results) -> None:
    found = {(r.dataset, r.metric): r.number for r in results.of("datasets")}
    words = {name: found[name, "train"] * found[name, "words"] for name in DATASETS}

    assert min(words, key=lambda name: words[name]) == "mr"


def test_minilm_is_the_most_accurate_on_every_set(results: Results) -> None:
    for dataset in DATASETS:
        others = [average(results, dataset, model) for model in (*TRAINED, *LINEAR)]
        assert average(results, dataset, "bert") > max(others)


def test_one_head_is_worst_and_most_of_that_is_the_l2_step(results: Results) -> None:
    assert worst_with_one(results, "lama-ctx").replace(" and", ",") == ", ".join(CHOSEN_ON)
    for dataset in ABLATED_ON:
        lost = [float(shift(results, dataset, f"one head{x}")) for x in ("", " without l2")]
        assert lost[0] < 0
        assert lost[1] > lost[0] / 2


def test_no_change_of_the_scores_is_surely_a_gain(results: Results) -> None:
    for dataset in ABLATED_ON:
        base = changed_scores(results, dataset, "as in the paper")
        for name in ("without l2", "without tanh", "without tanh and l2", "rank 2", "rank 4"):
            mine = changed_scores(results, dataset, name)
            assert sure(difference(results, mine, base)) <= 0, name
        assert -1 < float(shift(results, dataset, "scores of h")) < 0


def test_the_disagreement_terms_cost_less_than_published(results: Results) -> None:
    for dataset in ("r8", "imdb"):
        assert gap(results, dataset, "lama-ctx-de") > 5
        assert average(results, dataset, "lama-ctx-de") > (published("lama-ctx-de", dataset) or 1)
