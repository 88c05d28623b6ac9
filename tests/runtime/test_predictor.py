from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lamatext.errors import DataError, ModelError
from lamatext.label_thresholds import LabelThresholds
from lamatext.runtime.predictor import CHUNK, Predictor

MODEL = Path(__file__).parents[1] / "fixtures" / "format-1"
TEXTS = ["a superb film", "", "dull , dull , dull", "unheard", "a film", "a dull film " * 30]


@pytest.fixture(scope="module")
def model() -> Predictor:
    return Predictor.load(MODEL)


def test_the_predicted_label_is_the_most_probable(model: Predictor) -> None:
    probabilities = model.predict_proba(TEXTS)

    assert model.predict(TEXTS).tolist() == model.classes_[probabilities.argmax(axis=1)].tolist()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)


def test_wrong_labels_limit_the_probabilities_and_change_no_label(model: Predictor) -> None:
    """With ε wrong labels, one that is right with the probability p is given as often as this."""
    noisy = replace(model, label_noise=0.2)
    right = model.predict_proba(TEXTS)

    given = noisy.predict_proba(TEXTS)

    np.testing.assert_allclose(given, 0.8 * right + 0.2 * (1 - right), atol=1e-6)
    np.testing.assert_allclose(given.sum(axis=1), 1, rtol=1e-6)
    assert noisy.predict(TEXTS).tolist() == model.predict(TEXTS).tolist()
    np.testing.assert_allclose(
        noisy.explain(TEXTS[0]).probabilities, noisy.predict_proba(TEXTS[:1])[0], atol=1e-6
    )


def test_a_text_below_the_threshold_is_unsure(model: Predictor) -> None:
    highest = model.predict_proba(TEXTS).max(axis=1)
    strict = replace(model, threshold=float(np.median(highest)))

    labels = strict.predict(TEXTS, unsure="not sure")

    assert (labels == "not sure").tolist() == (highest < np.median(highest)).tolist()
    assert strict.predict(TEXTS).tolist() == model.predict(TEXTS).tolist()
    assert strict.predict([], unsure="not sure").shape == (0,)
    numbers = replace(strict, classes_=np.array([1, 2])).predict(TEXTS, unsure="not sure")
    assert set(numbers.tolist()) <= {1, 2, "not sure"}
    with pytest.raises(ModelError, match="no threshold below which it is unsure"):
        model.predict(TEXTS, unsure="not sure")


def test_a_label_of_the_model_cannot_mean_unsure(model: Predictor) -> None:
    label = str(model.classes_[0])

    with pytest.raises(ModelError, match=f"'{label}' is a label of the model"):
        replace(model, threshold=0.9).predict(["a film"], unsure=label)


def test_a_model_with_several_labels_per_text_is_never_unsure(model: Predictor) -> None:
    several = replace(model, thresholds=LabelThresholds(np.full(2, 0.5, np.float32)))

    with pytest.raises(ModelError, match="several labels per text is never unsure"):
        several.predict(TEXTS, unsure="not sure")


@pytest.mark.parametrize("texts", [None, 5, {"text": TEXTS}, set(TEXTS)])
def test_an_argument_that_is_not_a_list_of_texts_is_an_error(model: Predictor, texts: Any) -> None:
    with pytest.raises(DataError, match="expected a list of texts, got"):
        model.predict_proba(texts)


@pytest.mark.parametrize("count", [1, len(TEXTS), CHUNK + 1])
@pytest.mark.parametrize(
    "collect",
    [
        tuple,
        iter,
        np.array,
        lambda texts: np.array(texts)[:, None],
        pa.array,
        lambda texts: pa.chunked_array([texts[:1], texts[1:]], pa.string()),
    ],
    ids=["tuple", "iterator", "array", "matrix of one column", "pyarrow", "pyarrow in chunks"],
)
def test_texts_may_be_any_iterable(
    model: Predictor, count: int, collect: Callable[[list[str]], Iterable[str]]
) -> None:
    texts = (TEXTS * CHUNK)[:count]

    np.testing.assert_array_equal(model.predict_proba(collect(texts)), model.predict_proba(texts))


@pytest.mark.parametrize("none", [[], (), iter([])], ids=["list", "tuple", "iterator"])
def test_no_texts_give_no_labels(model: Predictor, none: Iterable[str]) -> None:
    assert model.predict(none).shape == (0,)
    assert model.predict_proba([]).shape == (0, len(model.classes_))


def test_a_text_has_the_same_probabilities_alone_and_in_a_batch(model: Predictor) -> None:
    alone = np.concatenate([model.predict_proba([text]) for text in TEXTS])

    np.testing.assert_allclose(alone, model.predict_proba(TEXTS), atol=1e-6)


def test_one_text_instead_of_a_list_is_an_error(model: Predictor) -> None:
    with pytest.raises(DataError, match=r"got one text\. Wrap it in a list"):
        model.predict("a superb film")


def test_embeddings_keep_the_order_of_the_texts(model: Predictor) -> None:
    alone = np.concatenate([model.transform([text]) for text in TEXTS])

    np.testing.assert_allclose(model.transform(TEXTS), alone, atol=1e-6)
    assert model.transform([]).shape == (0, alone.shape[1])


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_contributions_of_network_and_n_grams_add_up_to_the_logits(
    model: Predictor, text: str
) -> None:
    explanation = model.explain(text)

    np.testing.assert_allclose(explanation.logits, model.logits([text])[0], atol=1e-5)
    np.testing.assert_allclose(explanation.probabilities, model.predict_proba([text])[0], atol=1e-6)
    assert explanation.parts is not None
    total = explanation.parts["network"] + explanation.parts["n-grams"]
    np.testing.assert_allclose(explanation.contributions, total, atol=1e-6)
    assert explanation.words == text.split()


def test_n_grams_explain_words_outside_the_vocabulary_and_the_network_does_not(
    model: Predictor,
) -> None:
    explanation = model.explain("unheard film")

    assert explanation.parts is not None
    assert explanation.weights is not None
    assert not explanation.parts["network"][:, 0].any()
    assert not explanation.weights[:, 0].any()
    assert explanation.weights[:, 1].all()
