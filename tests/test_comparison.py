"""Paired bootstrap intervals between models, ties, and kinds of texts."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from lamatext.comparison import (
    ComparedModel,
    Comparison,
    TextGroup,
    compare_predictions,
    text_groups,
)

Flags = NDArray[np.bool_]


def one_hot(classes: NDArray[np.int64], count: int = 3) -> Flags:
    flags: Flags = np.eye(count, dtype=np.bool_)[classes]
    return flags


def made_up_models(
    truth: NDArray[np.int64], accuracies: dict[str, float], seed: int = 0
) -> list[ComparedModel]:
    """Models that are right on a random share of the texts."""
    generator = np.random.default_rng(seed)
    models = []
    for name, accuracy in accuracies.items():
        is_wrong = generator.random(len(truth)) >= accuracy
        predicted = np.where(is_wrong, (truth + 1) % 3, truth)
        models.append(ComparedModel(name, one_hot(predicted), 2_400_000, 0.31, 12.5))
    return models


def made_up_comparison(texts: int = 600, *, folds: int = 0) -> Comparison:
    truth = np.random.default_rng(1).integers(3, size=texts)
    models = made_up_models(truth, {"lamatext": 0.9, "TF-IDF + LR": 0.7, "<b>runs/x</b>": 0.905})
    is_short = np.arange(texts) % 3 == 0
    groups = [
        TextGroup("length", "up to 12 words", is_short),
        TextGroup("length", "more than 12 words", ~is_short),
        TextGroup("unknown words", "none", np.ones(texts, np.bool_)),
    ]
    return compare_predictions(
        one_hot(truth),
        models,
        groups,
        ["business", "<i>sport</i>", "travel"],
        is_multi_label=False,
        source="news.csv",
        training_texts=4_000,
        folds=folds,
    )


def test_the_scores_are_those_of_scikit_learn() -> None:
    truth = np.random.default_rng(0).integers(3, size=200)
    (model,) = made_up_models(truth, {"one": 0.6})

    comparison = compare_predictions(
        one_hot(truth), [model], [], "abc", is_multi_label=False, source="", training_texts=1
    )

    predicted = model.decided.argmax(axis=1)
    scores = comparison.rows[0].scores
    assert scores["accuracy"] == pytest.approx((predicted == truth).mean())
    assert scores["macro-F1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    per_class = [group.scores[0] for group in comparison.groups if group.kind == "class"]
    assert per_class == pytest.approx(f1_score(truth, predicted, average=None).tolist())


def test_several_labels_are_scored_by_micro_and_macro_f1() -> None:
    generator = np.random.default_rng(0)
    truth, decided = generator.random((2, 100, 4)) < 0.3
    truth[:, 3] = False  # a label that no test text has counts in the mean

    comparison = compare_predictions(
        truth,
        [ComparedModel("one", decided, 1, 1.0, None)],
        [],
        "abcd",
        is_multi_label=True,
        source="",
        training_texts=1,
    )

    scores = comparison.rows[0].scores
    assert scores["micro-F1"] == pytest.approx(f1_score(truth, decided, average="micro"))
    assert scores["macro-F1"] == pytest.approx(
        f1_score(truth, decided, average="macro", zero_division=0)
    )


def test_the_interval_of_a_difference_is_paired() -> None:
    """Models that are wrong on the same texts differ by less than their accuracies vary."""
    truth = np.random.default_rng(0).integers(3, size=400)
    (own,) = made_up_models(truth, {"own": 0.7})
    other = own.decided.copy()
    right = np.flatnonzero(own.decided.argmax(axis=1) == truth)[:12]
    other[right] = one_hot((truth[right] + 1) % 3)
    models = [own, ComparedModel("other", other, 1, 1.0, 1.0)]

    comparison = compare_predictions(
        one_hot(truth), models, [], "abc", is_multi_label=False, source="", training_texts=1
    )

    gap = comparison.rows[1].differences["accuracy"]
    assert gap.value == pytest.approx(-12 / 400)
    error = np.sqrt(0.03 * 0.97 / 400)  # of a mean of 400 values, 12 of which are 1
    assert gap.low == pytest.approx(-0.03 - 1.96 * error, abs=0.004)
    assert gap.high == pytest.approx(-0.03 + 1.96 * error, abs=0.004)
    assert not gap.is_tie


def test_a_difference_that_can_be_due_to_chance_is_called_a_tie() -> None:
    comparison = made_up_comparison()

    behind, tie = comparison.verdicts()

    assert behind.startswith("lamatext is ahead of TF-IDF + LR by ")
    assert tie.startswith("lamatext and <b>runs/x</b> tie: ")


def test_equal_predictions_tie_with_an_interval_that_is_not_empty() -> None:
    truth = np.arange(60) % 3
    models = made_up_models(truth, {"one": 1.0, "other": 1.0})

    comparison = compare_predictions(
        one_hot(truth), models, [], "abc", is_multi_label=False, source="", training_texts=1
    )

    gap = comparison.rows[1].differences["accuracy"]
    assert (gap.low, gap.value, gap.high) == pytest.approx((-0.05, 0, 0.05))
    assert comparison.verdicts()[0].startswith("one and other tie: the same accuracy on 60 texts")


def test_cross_validation_widens_the_intervals() -> None:
    widths = [
        gap.high - gap.low
        for folds in (0, 5)
        for gap in [made_up_comparison(folds=folds).rows[1].differences["accuracy"]]
    ]

    assert widths[1] > 1.05 * widths[0]


def test_the_winner_of_a_kind_of_texts_must_be_told_apart_from_every_other() -> None:
    truth = np.zeros(400, np.int64)
    is_short = np.arange(400) < 200
    good, bad = one_hot(truth), one_hot(truth)
    good[200:220], bad[:150] = one_hot(truth[:20] + 1), one_hot(truth[:150] + 1)
    groups = [TextGroup("length", "short", is_short), TextGroup("length", "long", ~is_short)]
    models = [ComparedModel("a", good, 1, 1.0, 1.0), ComparedModel("b", bad, 1, 1.0, 1.0)]

    comparison = compare_predictions(
        one_hot(truth), models, groups, "abc", is_multi_label=False, source="", training_texts=1
    )

    short, long, only_class = comparison.groups
    assert (short.winners, long.winners) == (["a"], ["b"])
    assert short.scores == pytest.approx([1.0, 0.25])
    assert only_class.name == "a"
    assert only_class.texts == 400


def test_texts_are_divided_by_length_and_by_words_unseen_in_training() -> None:
    train = ["one two three four five six seven eight nine ten"]
    test = ["one two", "one two three new", "one two three four five six seven eight nine ten new"]

    groups = text_groups([(train, test)])

    members = {(g.kind, g.name): np.flatnonzero(g.is_member).tolist() for g in groups}
    assert members["length", "up to 2 words"] == [0]
    assert members["length", "more than 4 words"] == [2]
    assert members["unknown words", "none"] == [0]
    assert members["unknown words", "up to 10 % of the words"] == [2]
    assert members["unknown words", "more than 10 % of the words"] == [1]


def test_the_comparison_is_json_with_the_scores_of_each_group_by_model() -> None:
    comparison = made_up_comparison()

    data = json.loads(json.dumps(comparison.as_dict()))

    assert data["rows"][1]["differences"]["accuracy"]["high"] < 0
    assert data["groups"][0]["scores"].keys() == {"lamatext", "TF-IDF + LR", "<b>runs/x</b>"}
