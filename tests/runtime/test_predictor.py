from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamatext.errors import DataError
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


@pytest.mark.parametrize("texts", [None, 5])
def test_an_argument_that_is_not_a_list_of_texts_is_an_error(model: Predictor, texts: Any) -> None:
    with pytest.raises(DataError, match="expected a list of texts, got"):
        model.predict_proba(texts)


@pytest.mark.parametrize("count", [1, len(TEXTS), CHUNK + 1])
@pytest.mark.parametrize("collect", [tuple, np.array, iter], ids=["tuple", "array", "iterator"])
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
