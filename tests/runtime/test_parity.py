from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.runtime.parity import Agreement, agreement, made_up_texts
from tests.serve.saved import WORDS, save

TEXTS = made_up_texts(WORDS, texts=20)


def test_a_predictor_agrees_with_itself(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", ngrams=True))

    found = agreement(predictor, predictor, TEXTS)

    assert found == Agreement(texts=20, probabilities=0.0, weights=0.0, changed=0)
    assert found.holds


def test_the_largest_differences_are_found(tmp_path: Path) -> None:
    ours = Predictor.load(save(tmp_path / "ours", storage="int8"))
    theirs = Predictor.load(save(tmp_path / "theirs"))

    found = agreement(ours, theirs, TEXTS)

    pairs = [(ours.explain(text), theirs.explain(text)) for text in TEXTS]
    gaps = [np.abs(a.probabilities - b.probabilities).max() for a, b in pairs]
    assert found.probabilities == pytest.approx(max(gaps), abs=1e-6)
    weights = [
        np.abs(a.weights - b.weights).max()
        for a, b in pairs
        if a.weights is not None and b.weights is not None
    ]
    assert found.weights == pytest.approx(max(weights), abs=1e-6)
    assert found.changed == sum(a.predicted != b.predicted for a, b in pairs)


def test_without_attention_there_are_only_probabilities(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", "avg"))

    found = agreement(predictor, predictor, TEXTS)

    assert found.weights is None
    assert "weight" not in str(found)


@pytest.mark.parametrize("change", [{"probabilities": 2e-3}, {"weights": 2e-3}, {"changed": 1}])
def test_any_difference_that_can_be_seen_is_too_large(change: dict[str, float]) -> None:
    fine = Agreement(texts=200, probabilities=1e-3, weights=1e-3, changed=0)

    assert fine.holds
    assert not replace(fine, **change).holds  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [["a", "b"], []])
def test_made_up_texts_have_one_word_to_two_hundred(words: list[str]) -> None:
    lengths = [len(text.split()) for text in made_up_texts(words)]

    assert len(lengths) == 200
    assert (min(lengths), max(lengths)) == (1, 200)
