"""The server marks unsure texts and outliers, and counts them for Prometheus."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from lamatext import Predictor
from lamatext.serve.app import create_app
from lamatext.serve.prometheus import Metrics, SharedMetrics
from lamatext.serve.registry import load_models
from tests.serve.saved import LABELS, save, validation_facts

TEXTS = ["a good film", "bad", "quux zonk", "", "the film and the mess"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plain = save(tmp_path / "plain", ngrams=True)
    highest = sorted(Predictor.load(plain).predict_proba(TEXTS).max(axis=1).tolist())
    return save(tmp_path / "m", ngrams=True, facts=validation_facts((highest[1] + highest[2]) / 2))


def test_answers_say_whether_a_text_is_unsure_and_an_outlier(folder: Path) -> None:
    expected = Predictor.load(folder).assess_each(TEXTS)
    with TestClient(create_app(load_models([folder]))) as client:
        predictions = client.post("/predict", json={"texts": TEXTS}).json()["predictions"]
        explained = client.post("/explain", json={"texts": TEXTS}).json()["explanations"]

    for one, other, assessment in zip(predictions, explained, expected, strict=True):
        assert assessment.outlier_score is not None
        for answer in (one, other):
            assert answer["unsure"] is assessment.is_unsure
            assert answer["outlier_score"] == pytest.approx(assessment.outlier_score, abs=1e-4)
            assert answer["outlier"] is (assessment.outlier_score >= 0.99)
        assert one["label"] in LABELS
    assert sum(one["unsure"] for one in predictions) == 2


def test_a_model_without_threshold_and_statistics_answers_as_before(tmp_path: Path) -> None:
    with TestClient(create_app(load_models([save(tmp_path / "plain")]))) as client:
        (prediction,) = client.post("/predict", json={"text": "a film"}).json()["predictions"]
        metrics = client.get("/metrics").text

    assert set(prediction) == {"label", "probability"}
    assert "lamatext_validation_unknown_word_share{" not in metrics
    assert "lamatext_predicted_labels_total{" in metrics


def test_metrics_count_labels_outliers_and_unknown_words_but_no_text(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]))) as client:
        predictions = client.post("/predict", json={"texts": TEXTS}).json()["predictions"]
        text = client.get("/metrics").text

    lines = text.splitlines()
    for label in {one["label"] for one in predictions}:
        count = sum(one["label"] == label for one in predictions)
        name = json.dumps(label)
        assert f'lamatext_predicted_labels_total{{model="m",label={name}}} {count}' in lines
    assert 'lamatext_unsure_total{model="m"} 2' in lines
    outliers = sum(one["outlier"] for one in predictions)
    assert f'lamatext_outliers_total{{model="m"}} {outliers}' in lines
    assert 'lamatext_words_total{model="m"} 11' in lines
    assert 'lamatext_unknown_words_total{model="m"} 2' in lines
    assert 'lamatext_validation_label_share{model="m",label="good"} 0.333333' in lines
    assert 'lamatext_validation_unknown_word_share{model="m"} 0.1' in lines
    assert "quux" not in text


def test_workers_add_up_what_they_counted(folder: Path, tmp_path: Path) -> None:
    one, other = Metrics(), Metrics()
    assessments = Predictor.load(folder).assess_each(TEXTS)
    for metrics in (one, other):
        metrics.count_inputs("m", assessments, [{"label": "good"}] * len(assessments))
    SharedMetrics(tmp_path, 1).save(other)

    total = SharedMetrics(tmp_path, 0).total(one)

    assert total.inputs["words", "m", ""] == 22


def test_labels_in_the_metrics_are_escaped_as_prometheus_reads_them(folder: Path) -> None:
    metrics, [assessment] = Metrics(), Predictor.load(folder).assess_each(TEXTS[:1])
    metrics.count_inputs("m", [assessment], [{"label": 'a"b\\c\nd\x1bé'}])

    expected = 'lamatext_predicted_labels_total{model="m",label="a\\"b\\\\c\\nd\x1bé"} 1'
    assert expected in metrics.exposition().split("\n")
