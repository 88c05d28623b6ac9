"""Several labels per text, from ``fit`` to a saved model that predicts without torch."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from lamatext import (
    ConfigError,
    DataError,
    ModelError,
    Predictor,
    TextClassifier,
    label_thresholds,
)
from tests.corpora import TINY, TOPICS, topic_texts

TEXTS, LABELS = topic_texts(240)
NEW, NEW_LABELS = topic_texts(200, seed=1)
MATRIX = MultiLabelBinarizer().fit(LABELS)
SETTINGS = {**TINY, "ngrams.enabled": True, "training.epochs": 10, "training.learning_rate": 0.02}


def classifier(**values: Any) -> TextClassifier:
    settings = {**SETTINGS, **values.pop("settings", {})}
    return TextClassifier(device="cpu", recipe="default", settings=settings, **values)


@cache
def fitted() -> TextClassifier:
    return classifier().fit(TEXTS, LABELS)


def test_it_learns_which_topics_a_text_has() -> None:
    predicted = fitted().predict(NEW)

    score = f1_score(MATRIX.transform(NEW_LABELS), MATRIX.transform(predicted), average="macro")
    assert list(fitted().classes_) == list(TOPICS)
    assert score > 0.9
    assert any(labels == [] for labels in predicted)


def test_the_probabilities_are_one_sigmoid_per_label() -> None:
    model = fitted()

    probabilities, logits = model.predict_proba(NEW), model._predictor().logits(NEW)

    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-logits)), rtol=1e-4, atol=1e-6)
    assert probabilities.sum(axis=1).max() > 1.5
    assert model.thresholds_ is not None
    decided = probabilities >= model.thresholds_.values
    assert (MATRIX.transform(model.predict(NEW)) == decided).all()


def test_the_saved_label_counts_are_those_of_the_thresholds(tmp_path: Path) -> None:
    predictor = Predictor.load(fitted().save(tmp_path / "model"))

    assert predictor.validation is not None
    assert sum(predictor.validation.labels) > predictor.validation.texts  # not one per text
    counts = predictor.count_labels(predictor.predict_proba(NEW))
    assert counts.tolist() == MATRIX.transform(predictor.predict(NEW)).sum(axis=0).tolist()


@pytest.mark.parametrize("form", [list, set, tuple])
def test_lists_sets_and_tuples_train_the_same_model(form: type) -> None:
    model = classifier(settings={"training.epochs": 1})

    one = model.fit(TEXTS, [form(row) for row in LABELS]).predict_proba(NEW)

    np.testing.assert_array_equal(one, model.fit(TEXTS, LABELS).predict_proba(NEW))


def test_an_indicator_matrix_is_answered_with_a_matrix(tmp_path: Path) -> None:
    model = classifier().fit(TEXTS, MATRIX.transform(LABELS))

    predicted = model.predict(NEW)

    assert model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(predicted, MATRIX.transform(fitted().predict(NEW)))
    model.save(tmp_path)
    np.testing.assert_array_equal(Predictor.load(tmp_path).predict(NEW), predicted)
    assert model.score(NEW, MATRIX.transform(NEW_LABELS)) == fitted().score(NEW, NEW_LABELS)


def test_sets_are_answered_with_sets(tmp_path: Path) -> None:
    model = classifier(settings={"training.epochs": 1}).fit(TEXTS, [set(row) for row in LABELS])

    model.save(tmp_path)

    for one in (model, Predictor.load(tmp_path), TextClassifier.load(tmp_path)):
        assert any(row == {"film", "food"} for row in one.predict(NEW).tolist())
        assert all(isinstance(row, set) for row in one.predict(NEW))


def test_score_takes_a_matrix_in_the_order_of_the_classes_and_no_other() -> None:
    matrix = MATRIX.transform(NEW_LABELS)

    assert fitted().score(NEW, matrix) == fitted().score(NEW, NEW_LABELS)
    with pytest.raises(DataError, match=r"expected an indicator matrix with 4 columns.*got 3\."):
        fitted().score(NEW, matrix[:, :3])


def test_score_leaves_unknown_labels_out_with_a_warning() -> None:
    labels = [[*row, "wine"] for row in NEW_LABELS]

    with pytest.warns(UserWarning, match=r"a label that the training data lacks \('wine'\)"):
        score = fitted().score(NEW, labels)

    assert score == fitted().score(NEW, NEW_LABELS)


def test_a_saved_model_predicts_the_same_lists(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path)

    loaded, again = Predictor.load(tmp_path), TextClassifier.load(tmp_path)

    np.testing.assert_allclose(loaded.logits(NEW), model._predictor().logits(NEW), atol=2e-4)
    assert loaded.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert again.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert again.thresholds_ is not None


def test_two_labels_have_two_independent_rows(tmp_path: Path) -> None:
    two = [[label for label in row if label in ("film", "food")] for row in LABELS]
    model = classifier().fit(TEXTS, two)

    model.save(tmp_path)
    loaded = Predictor.load(tmp_path)

    both = [i for i, row in enumerate(NEW_LABELS) if {"film", "food"} <= set(row)]
    assert loaded.ngrams is not None
    assert len(loaded.ngrams.bias) == 2
    assert (loaded.predict_proba([NEW[i] for i in both]) > 0.5).all(axis=1).mean() > 0.8


def test_contributions_add_up_to_the_logit_of_each_label() -> None:
    model = fitted()
    text = "the actor is in the kitchen"

    explanation = model.explain(text)

    logits = model._predictor().logits([text])[0]
    np.testing.assert_allclose(
        explanation.relative.sum(axis=1) + explanation.base, logits, atol=1e-4
    )
    assert explanation.predicted_labels in (["film", "food"], ["food", "film"])
    assert explanation.top(1, "film")[0].word == "actor"
    assert explanation.top(1, "food")[0].word == "kitchen"
    assert json.loads(explanation.to_json())["predicted_labels"] == explanation.predicted_labels


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1"])
def test_the_thresholds_serve_the_metric(metric: str) -> None:
    model = classifier(settings={"training.metric": metric}).fit(TEXTS, LABELS)

    assert model.thresholds_ is not None
    distinct = len(set(model.thresholds_.values.tolist()))
    assert distinct == (1 if metric == "micro-f1" else 4)


def test_the_thresholds_of_rare_labels_are_above_the_probability_of_an_empty_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(label_thresholds, "RARE_SHARE", 1.0)
    monkeypatch.setattr(label_thresholds, "EVIDENCE", 4.0)  # more than these labels need
    monkeypatch.setattr(label_thresholds, "MAX_LOWER_LIMIT", 1.0)

    model = classifier().fit(TEXTS, LABELS)

    assert model.thresholds_ is not None
    logits = model._predictor().logits([""])[0]
    limits = 1 / (1 + np.exp(-logits - 4))
    assert (model.thresholds_.values >= limits - 1e-3).all()


def test_a_minimum_precision_raises_the_thresholds_and_names_the_labels_that_lack_it() -> None:
    careful = classifier(settings={"training.min_precision": 0.99})
    with pytest.warns(
        UserWarning, match=r"cannot reach a precision of 0\.99 .*: film, (food, )?war\."
    ):
        careful.fit(TEXTS, LABELS)

    assert careful.thresholds_ is not None
    assert fitted().thresholds_ is not None
    assert careful.thresholds_.values.mean() > fitted().thresholds_.values.mean()  # type: ignore[union-attr]


def test_a_class_weight_raises_the_probability_of_its_label() -> None:
    draw, war = np.random.default_rng(0), list(TOPICS).index("war")
    noisy = [[label for label in row if label != "war" or draw.random() < 0.5] for row in LABELS]

    plain = classifier().fit(TEXTS, noisy).predict_proba(NEW)
    heavier = classifier(class_weight={"war": 20.0}).fit(TEXTS, noisy).predict_proba(NEW)

    assert heavier[:, war].mean() > 1.2 * plain[:, war].mean()
    others = [i for i in range(4) if i != war]
    np.testing.assert_allclose(
        heavier[:, others].mean(axis=0), plain[:, others].mean(axis=0), rtol=0.2
    )


def test_balanced_weights_and_sample_weights_train() -> None:
    model = classifier(class_weight="balanced", settings={"training.epochs": 1})

    model.fit(TEXTS, LABELS, sample_weight=np.linspace(0.5, 2, len(TEXTS)))

    assert model.predict_proba(NEW).shape == (len(NEW), 4)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"war": -1}, "= -1: input should be greater than 0. Give balanced, or a weight above 0"),
        ("balancd", "input should be 'balanced'. Give balanced, or a weight above 0"),
        ([1.0], "Give balanced, or a weight above 0 for each label"),
    ],
)
def test_a_wrong_class_weight_says_what_it_may_be(weight: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        classifier(class_weight=weight).fit(TEXTS, LABELS)


def test_a_label_that_no_text_has_is_never_predicted() -> None:
    matrix = np.c_[MATRIX.transform(LABELS), np.zeros(len(LABELS), int)]

    predicted = classifier(settings={"training.epochs": 3}).fit(TEXTS, matrix).predict(NEW)

    assert predicted.shape == (len(NEW), 5)
    assert not predicted[:, 4].any()


BAD: dict[str, tuple[Any, Any, str]] = {
    "mixed": (["film", ["food"]] * 120, None, r"labels\[1\] is \['food'\], but labels\[0\]"),
    "one label": ([["film"], []] * 120, None, "have the label 'film' or none"),
    "columns": (
        MATRIX.transform(LABELS),
        (NEW, MATRIX.transform(NEW_LABELS)[:, :3]),
        r"validation data are an indicator matrix with 3 columns \(0, 1, 2\), those of the",
    ),
    "lists and a matrix": (
        LABELS,
        (NEW, MATRIX.transform(NEW_LABELS)),
        "an indicator matrix with 4 columns .*, those of the training data lists of 4 labels",
    ),
    "nested lists": (
        [[row] for row in LABELS],
        None,
        r"labels\[0\] is \[.*\] \(list\), expected",
    ),
    "validation with one label each": (LABELS, (NEW, ["film"] * 200), "one has several labels"),
    "unknown validation label": (LABELS, (NEW, [["art"]] * 200), "row 1 has the label 'art'"),
}


@pytest.mark.parametrize(("labels", "validation", "message"), BAD.values(), ids=BAD)
def test_wrong_labels_get_an_error_that_says_what_to_do(
    labels: Any, validation: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        classifier().fit(TEXTS, labels, validation_data=validation)


@pytest.mark.parametrize(
    "section",
    [
        {"thresholds": [0.5, 0.5, 0.5, 1.5], "indicator": False},
        {"thresholds": [0.5, 0.5, 0.5], "indicator": False},
        {"thresholds": [0.5, 0.5, 0.5, "x"], "indicator": False},
        {"thresholds": [0.5, 0.5, 0.5, 0.5], "indicator": 1},
        {"thresholds": [0.5, 0.5, 0.5, 0.5]},
        {"thresholds": [0.5, 0.5, 0.5, 0.5], "indicator": False, "more": 1},
        {"thresholds": [0.5, 0.5, 0.5, 0.5], "indicator": False, "sets": 1},
        [0.5],
        None,
    ],
)
def test_a_saved_threshold_out_of_range_is_an_error(tmp_path: Path, section: Any) -> None:
    fitted().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["multi_label"] = section
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")

    with pytest.raises(ModelError, match=r"config\.json: expected multi_label .* from 0 to 1"):
        Predictor.load(tmp_path)
