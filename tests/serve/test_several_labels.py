"""The server and the exported page of a model that gives a text several labels."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from lamatext import Predictor
from lamatext.serve.app import create_app
from lamatext.serve.registry import load_models
from lamatext.views.web_model import describe_model
from tests.test_multi_label import fitted

TEXT = "the actor is in the kitchen"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted().save(tmp_path_factory.mktemp("models") / "topics")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(load_models([folder]))) as client:
        yield client


def test_the_server_answers_with_a_list_of_labels(client: TestClient, folder: Path) -> None:
    texts = [TEXT, "two people in a town"]

    response = client.post("/predict", json={"texts": texts, "proba": True})

    predictions, expected = response.json()["predictions"], Predictor.load(folder).predict(texts)
    assert [one["labels"] for one in predictions] == expected.tolist() == [["film", "food"], []]
    assert "label" not in predictions[0]
    assert list(predictions[0]["probabilities"]) == ["film", "food", "sport", "war"]


def test_the_metrics_count_every_predicted_label(folder: Path) -> None:
    with TestClient(create_app(load_models([folder]))) as client:
        client.post("/predict", json={"texts": [TEXT, TEXT, "two people in a town"]})
        lines = client.get("/metrics").text.splitlines()

    counts = [line.rpartition("{")[2] for line in lines if "predicted_labels_total{" in line]
    assert counts == ['model="topics",label="film"} 2', 'model="topics",label="food"} 2']


def test_an_explanation_has_the_predicted_labels_and_thresholds(client: TestClient) -> None:
    explanation = client.post("/explain", json={"text": TEXT}).json()["explanations"][0]

    assert set(explanation["predicted_labels"]) == {"film", "food"}
    assert len(explanation["thresholds"]) == 4
    for row, base, probability in zip(
        explanation["contributions"], explanation["base"], explanation["probabilities"], strict=True
    ):
        assert (sum(row) + base > 0) == (probability > 0.5)


def test_the_page_gets_the_thresholds(client: TestClient, folder: Path) -> None:
    thresholds = client.get("/models").json()[0]["thresholds"]

    assert thresholds == describe_model(folder)["thresholds"]
    assert len(thresholds) == 4


def test_an_explanation_names_its_labels_and_adds_up_to_their_logits(
    client: TestClient, folder: Path
) -> None:
    explanation = client.post("/explain", json={"text": TEXT}).json()["explanations"][0]

    logits = Predictor.load(folder).logits([TEXT])[0]
    assert explanation["explained"] == explanation["predicted_labels"]
    for label in explanation["explained"]:
        column = explanation["labels"].index(label)
        total = sum(explanation["contributions"][column]) + explanation["base"][column]
        assert total == pytest.approx(float(logits[column]), abs=2e-6)


def test_a_request_can_name_the_label_to_explain(client: TestClient) -> None:
    texts = [TEXT, "two people in a town"]

    response = client.post("/explain", json={"texts": texts, "label": "war"})
    refused = client.post("/explain", json={"text": TEXT, "label": "wine"})

    assert [one["explained"] for one in response.json()["explanations"]] == [["war"], ["war"]]
    assert refused.status_code == 404
    assert refused.json()["detail"] == (
        "label: the model has no such label. It has film, food, sport, war."
    )
