"""Parts of sentences, from made-up records."""

import re
from pathlib import Path

import numpy as np
import pytest

from paper import findings, word_weights
from paper.figures import FIGURES
from paper.measures import Measures
from paper.page import page, wrapped
from paper.predictions import hits_name, keep_hits, packed
from paper.protocol import ABLATIONS, SEEDS, USUAL_HEADS
from paper.records import Record, Results
from paper.words import SECTIONS

TEXTS = 200


def add(results: Results, experiment: str, model: str, right: int, **config: object) -> None:
    """Three seeds that get the first so many of the test texts right, and one more a seed."""
    for seed in SEEDS:
        hits = np.arange(TEXTS) < right + seed
        name = hits_name(experiment, model, seed, config)
        keep_hits(results.folder, "r8", name, packed(hits))
        results.add(
            Record(experiment, "r8", model, metric, float(hits.mean()), seed=seed, config=config)
            for metric in ("accuracy", "valid_accuracy")
        )


@pytest.fixture
def results(tmp_path: Path) -> Results:
    made = Results(tmp_path)
    made.add([Record("datasets", "r8", "", "test", float(TEXTS))])
    made.add([Record("datasets", "r8", "", "classes", 8.0)])
    return made


def test_names_are_joined_as_in_a_sentence() -> None:
    assert findings.listed([]) == "none"
    assert findings.listed(["a"]) == "a"
    assert findings.listed(["a", "b", "c"]) == "a, b and c"


def test_a_system_is_told_apart_where_the_interval_does_not_hold_zero(results: Results) -> None:
    add(results, "accuracy", "lama-ctx", 180)
    add(results, "accuracy", "avg", 120)
    add(results, "accuracy", "lama", 180)
    add(results, "accuracy", "cnn", 195)

    assert findings.told(results, "avg") == "better on r8"
    assert findings.told(results, "lama") == "not told apart on r8"
    assert findings.told(results, "cnn") == "worse on r8"
    assert findings.told(results, "te") == "–"


def test_systems_stand_in_the_group_of_their_distance_from_the_paper(results: Results) -> None:
    add(results, "accuracy", "lama-ctx", 192)  # the best seed: .970, published .973
    add(results, "accuracy", "avg", 188)  # published .795
    add(results, "accuracy", "cnn", 100)  # published .960

    near, over, under = findings.against_paper(results).splitlines()

    assert "on r8 LAMA+ctx (-0.3);" in near
    assert "on r8 AVG (+15.5);" in over
    assert "on r8 CNN (-45.0);" in under


def test_what_is_at_chance_is_named(results: Results) -> None:
    add(results, "accuracy", "san", 24)
    add(results, "accuracy", "avg", 60)

    assert findings.at_chance(results, "r8") == "SAN (.125)"


def test_a_change_is_named_where_it_moves_the_mean_surely(results: Results) -> None:
    add(results, "ablation", "lama-ctx", 150)
    add(results, "ablation", "lama-ctx", 120, **dict(ABLATIONS["scores of h"]))
    add(results, "ablation", "lama-ctx", 150, **dict(ABLATIONS["rank 2"]))
    add(results, "ablation", "lama-ctx", 100, **dict(ABLATIONS["one head"]))

    assert findings.moved(results, "r8") == "scores of h (-15.0)"
    assert findings.shift(results, "r8", "one head") == "-25.0"
    assert findings.steady(results) == "scores of h (down) and one head (down)"


def test_runs_made_twice_are_compared(results: Results) -> None:
    add(results, "accuracy", "lama-ctx", 150)
    assert findings.repeats(results) == "No run was made twice."

    add(results, "ablation", "lama-ctx", 150, **{"model.heads": USUAL_HEADS})
    assert findings.repeats(results).endswith("they agree exactly.")

    add(results, "keywords", "lama-ctx", 152)
    assert findings.repeats(results).endswith("they differ by 1.0 points at most.")


def test_the_best_linear_model_is_weighed_against_the_best_trained(results: Results) -> None:
    add(results, "accuracy", "lama-ctx", 150)
    assert findings.linear_above(results) == "none"

    add(results, "accuracy", "tfidf", 170)

    assert findings.linear_above(results) == "r8"
    assert ".755 LAMA+ctx" in findings.picks_table(results)
    assert ".855 TF-IDF + LR" in findings.picks_table(results)


def test_the_weight_of_a_word_moves_with_the_stars(results: Results) -> None:
    for star, weight in (("1", 0.9), ("5", 1.2)):
        found = [weight + 0.001 * place for place in range(8)]
        for word in ("recommended", "worst"):
            metric = f"{word} in {star}"
            results.add([Record("word-weights", "clothing", "lama-ctx", metric, found)])

    groups = word_weights.shifted(results)

    assert groups["as"] == ["recommend(ed)"]
    assert groups["against"] == ["worst"]
    assert word_weights.span(results) == "0.90 to 1.21"
    assert "| recommend(ed) | 0.90 ± 0.00 (8) | – | 1.20 ± 0.00 (8) | **+0.30" in (
        word_weights.weights_table(results)
    )


def test_a_measure_without_records_is_a_dash(results: Results) -> None:
    assert Measures(results)["factor"] == "–"
    with pytest.raises(KeyError, match="no measure is called 'factr'"):
        Measures(results)["factr"]


def test_a_page_without_records_has_every_name_filled(tmp_path: Path) -> None:
    text = page(Results(tmp_path), dict.fromkeys(FIGURES, False))

    assert "{" not in text
    assert "*No records yet.*" in text


def test_a_quick_page_says_so_and_claims_nothing(results: Results) -> None:
    text = page(results, dict.fromkeys(FIGURES, False), quick=True)

    assert text.startswith("# A quick look")
    assert "What the comparison shows" not in text


def test_no_accuracy_is_typed_into_a_sentence() -> None:
    assert not [section for section in SECTIONS if re.search(r"\D\.\d{2}", section)]


def test_paragraphs_and_lists_are_wrapped_and_tables_are_not() -> None:
    table = "| " + "a " * 60 + "|"
    text = f"{'word ' * 30}\n\n- {'word ' * 30}\n- b\n\n{table}"

    lines = wrapped(text).splitlines()

    assert [line for line in lines if len(line) > 100] == [table]
    assert "- b" in lines
    assert any(line.startswith("  word") for line in lines)
