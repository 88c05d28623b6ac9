from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lamatext.baselines import BASELINES, TfidfLinear, check_baselines, train_baseline
from lamatext.data.dataset import Dataset
from lamatext.errors import ConfigError, DataError
from lamatext.settings import TrainingSettings
from tests.corpora import reviews


def dataset(texts: Sequence[str], labels: Sequence[str]) -> Dataset:
    return Dataset(
        pa.chunked_array([texts], pa.large_string()),
        pa.chunked_array([labels], pa.string()),
        "made up",
    )


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_and_is_scored(name: str) -> None:
    if name.startswith("fasttext"):
        pytest.importorskip("fasttext")
    data = dataset(*reviews(200))
    train, test = data.take(np.arange(160)), data.take(np.arange(160, 200))

    baseline = train_baseline(name, train)
    row = baseline.evaluate(test)

    assert row.model == BASELINES[name].title
    assert row.accuracy > 0.9
    assert row.bytes > 0
    assert row.texts_per_second > 0
    assert row.seconds == baseline.seconds > 0
    assert row.as_dict()["macro_f1"] == row.macro_f1


@pytest.mark.parametrize("name", ["tfidf", "tfidf-svc"])
def test_a_baseline_predicts_one_probability_per_class(name: str) -> None:
    texts = [f"{word} film" for word in ("good", "bad", "odd")] * 20
    data = dataset(texts, ["a", "c", "b"] * 20)

    baseline = train_baseline(name, data)
    probabilities = baseline.model.predict_proba(texts)

    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert baseline.labels.classes == ("a", "b", "c")
    assert baseline.labels.decode(probabilities.argmax(axis=1)).tolist() == ["a", "c", "b"] * 20


@pytest.mark.parametrize("name", ["tfidf", "tfidf-svc", "tfidf-chars"])
def test_tfidf_reads_characters_in_scripts_without_spaces(name: str) -> None:
    start, end = "หนังเรื่องนี้ที่ฉันดูเมื่อวาน", "สำหรับทุกคนในครอบครัว"
    texts = [
        f"{start}{verdict}{number}{end}" for number in range(40) for verdict in ("ดีมาก", "แย่มาก")
    ]
    data = dataset(texts, ["good", "bad"] * 40)
    train, test = data.take(np.arange(40)), data.take(np.arange(40, 80))

    assert train_baseline(name, train).evaluate(test).accuracy == 1


def test_tfidf_reads_words_of_a_single_text_unless_there_are_many_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = dataset(["a wise film", "a dull film", "a long film"], ["good", "bad", "bad"])

    few = train_baseline("tfidf", data).evaluate(data)
    monkeypatch.setattr("lamatext.baselines.MANY_TEXTS", 3)
    many = train_baseline("tfidf", data).evaluate(data)

    assert few.accuracy == 1
    assert many.accuracy == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["tfidf", "tfidf-svc"])
@pytest.mark.parametrize("weights", ["balanced", {"good": 50.0}])
def test_tfidf_gets_the_class_weights_of_the_model_that_it_is_compared_with(
    name: str, weights: str | dict[str, float]
) -> None:
    data = dataset(["a film"] * 100 + ["a film"] * 4, ["bad"] * 100 + ["good"] * 4)
    test = dataset(["a film"], ["good"])
    settings = TrainingSettings.model_validate({"class_weight": weights})

    plain = train_baseline(name, data).predict_proba(test.texts.to_pylist())
    weighted = train_baseline(name, data, training=settings).predict_proba(test.texts.to_pylist())

    assert plain[0, 1] < 0.3
    assert weighted[0, 1] > 0.45


def test_a_test_label_that_was_not_trained_on_is_refused() -> None:
    baseline = train_baseline("tfidf", dataset(*reviews(20)))

    with pytest.raises(DataError, match="'other', which is not among the known labels"):
        baseline.evaluate(dataset(["a film"], ["other"]))


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown baseline 'svm'. Known: tfidf, .*avg"):
        check_baselines(["tfidf", "svm"])


def test_logistic_regression_per_label_is_fitted_to_more_texts_than_fit_into_one_message() -> None:
    generator = np.random.default_rng(0)  # processes share arrays over 1 MB, read-only by default
    words = np.array([f"word{number}" for number in range(300)])
    texts = [" ".join(words[generator.integers(0, 300, 80)]) for _ in range(3_000)]
    labels = (generator.random((3_000, 2)) < 0.3).astype(np.float32)
    baseline = TfidfLinear("lr", words=(1, 1))

    baseline.fit(texts, labels)

    assert baseline.predict_proba(texts[:5]).shape == (5, 2)
