"""Outlier scores on hand-made logits, and their calibration in a trained model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.errors import ModelError
from lamatext.outliers import (
    STEPS,
    ValidationStatistics,
    collect_statistics,
    known_share,
    outlier_scores,
    text_evidence,
)
from tests.corpora import reviews
from tests.trained_model import trained

REFERENCE = np.linspace(0, 10, STEPS + 1).tolist()


def test_the_evidence_is_the_formula_written_as_a_loop() -> None:
    draw = np.random.default_rng(0)
    network, ngrams = draw.normal(size=(2, 5, 3)).astype(np.float32)
    base = draw.normal(size=3).astype(np.float32)
    known = draw.random(5).astype(np.float32)

    evidence = text_evidence(network, ngrams, base, known)

    for row in range(5):
        best = max(ngrams[row, c] + network[row, c] / 2 for c in range(3))
        expected = known[row] * best + (1 - known[row]) * min(base)
        assert evidence[row] == pytest.approx(expected)
    alone = text_evidence(network, None, None, known)
    np.testing.assert_allclose(alone, known * network.max(axis=1) / 2, rtol=1e-6)


def test_a_text_without_words_knows_none() -> None:
    assert known_share(np.array([4, 0]), np.array([1, 0])).tolist() == [0.75, 0.0]


def test_a_score_is_the_share_of_validation_texts_with_more_evidence() -> None:
    scores = outlier_scores(np.array([10.0, 5.0, 0.1, 0.0, -5.0], np.float32), REFERENCE)

    np.testing.assert_allclose(scores, [0.0, 0.5, 0.99, 1.0, 2.0], rtol=1e-6)


def test_a_text_of_unknown_words_is_an_outlier_whatever_the_most_frequent_class() -> None:
    logits = np.array([[5.0, -5.0]] * 3, np.float32)
    base = logits[0]
    known = np.array([0.0, 0.1, 1.0], np.float32)
    rarely_without = [-1e6, *REFERENCE[1:]]

    evidence = text_evidence(np.zeros_like(logits), logits, base, known)

    np.testing.assert_allclose(outlier_scores(evidence, REFERENCE), [2.0, 1.8, 0.5], rtol=1e-6)
    assert outlier_scores(evidence, rarely_without)[0] == pytest.approx(1.0)
    often_without = [-1e6] * 6 + REFERENCE[6:]  # of 5 % of the validation texts
    assert outlier_scores(evidence, often_without)[0] == pytest.approx(0.95)


def test_validation_texts_with_equal_evidence_give_finite_scores() -> None:
    scores = outlier_scores(np.array([3.0, 2.0], np.float32), [3.0] * (STEPS + 1))

    assert np.isfinite(scores).all()
    assert scores[1] > 1


def test_statistics_survive_json() -> None:
    counts = np.array([3, 4])
    statistics = collect_statistics(np.array([1.0, 2.0], np.float32), counts, counts // 2, [2, 0])

    again = ValidationStatistics.from_dict(json.loads(json.dumps(statistics.as_dict())))

    assert again == statistics
    assert (again.texts, again.words, again.unknown_words) == (2, 7, 3)
    assert again.evidence[0] == 1.0
    assert again.evidence[-1] == 2.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained().save(tmp_path_factory.mktemp("outliers") / "model")


def test_a_trained_model_finds_foreign_texts_unusual_and_its_own_not(folder: Path) -> None:
    usual = Predictor.load(folder).assess(reviews(100, seed=5)[0])
    foreign = Predictor.load(folder).assess(["quux zonk blarg", "ein Satz auf Deutsch", "", "!"])

    assert (usual.outlier_scores >= 0.99).mean() < 0.2
    assert (foreign.outlier_scores >= 0.99).all()
    assert foreign.words.tolist() == [3, 4, 0, 1]
    assert foreign.unknown_words[:2].tolist() == [3, 4]
    assert foreign.empty.tolist() == [False, False, True, False]
    assert not usual.empty.any()


def test_an_assessment_has_the_probabilities_of_predict_proba(folder: Path) -> None:
    model, texts = Predictor.load(folder), reviews(300, seed=6)[0]

    assessed = model.assess(texts)

    np.testing.assert_allclose(assessed.probabilities, model.predict_proba(texts), atol=1e-6)
    alone = np.concatenate([model.assess([text]).outlier_scores for text in texts[:20]])
    np.testing.assert_allclose(alone, assessed.outlier_scores[:20], atol=1e-5)
    assert model.assess([]).outlier_scores.shape == (0,)
    in_memory = trained()._predictor().assess(texts[:20])
    np.testing.assert_allclose(in_memory.outlier_scores, assessed.outlier_scores[:20], atol=1e-4)


def test_a_model_without_statistics_names_what_to_do() -> None:
    old = Predictor.load(Path(__file__).parent / "fixtures" / "format-1")

    with pytest.raises(ModelError, match="no statistics of its validation texts"):
        old.assess(["a film"])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("evidence", [1.0] * STEPS, "a list of 101 numbers"),
        ("evidence", [2.0, *[1.0] * STEPS], "ascending"),
        ("labels", [1], "a list of 2 numbers"),
        ("words", -1, "a whole number of at least 0"),
        ("texts", "many", "a whole number of at least 0"),
    ],
)
def test_wrong_statistics_in_a_config_are_an_error(
    folder: Path, tmp_path: Path, key: str, value: Any, message: str
) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["validation"][key] = value
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelError, match=rf"validation\.{key} to be {message}"):
        Predictor.load(tmp_path)
