from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.runtime.onnx_engine import OnnxEngine
from lamatext.runtime.parity import (
    EngineParity,
    PredictorParity,
    compare_engines,
    compare_predictors,
    random_texts,
)
from tests.runtime import networks
from tests.serve.saved import WORDS, save

TEXTS = random_texts(WORDS, texts=20)
BATCHES = [networks.random_texts(8, words, seed=words) for words in (1, 12, 60)]


def test_a_graph_differs_from_torch_by_rounding_only(tmp_path: Path) -> None:
    model = networks.settings("lama-ctx")
    torch_engine, tensors = networks.random_network(model)
    engine = OnnxEngine.load(networks.save(tmp_path, model, tensors))

    assert 0 <= compare_engines(engine, torch_engine, BATCHES).difference < 1e-5
    assert compare_engines(engine, engine, BATCHES) == EngineParity(24, 0.0, 0)


def test_a_difference_that_is_not_a_number_stays_one(tmp_path: Path) -> None:
    model = networks.settings("avg")
    torch_engine, tensors = networks.random_network(model)
    tensors["classifier.3.bias"] = tensors["classifier.3.bias"] * np.float32(np.nan)
    engine = OnnxEngine.load(networks.save(tmp_path, model, tensors))

    assert np.isnan(compare_engines(engine, torch_engine, BATCHES).difference)


def test_changed_labels_of_engines_are_counted(tmp_path: Path) -> None:
    model = networks.settings("avg")
    torch_engine, tensors = networks.random_network(model)
    expected = np.concatenate([torch_engine.logits(*batch) for batch in BATCHES]).argmax(axis=1)
    tensors["classifier.3.bias"] = np.array([1e4, 0, 0, 0], np.float32)
    engine = OnnxEngine.load(networks.save(tmp_path, model, tensors))

    parity = compare_engines(engine, torch_engine, BATCHES)

    assert (parity.texts, parity.changed) == (24, int((expected != 0).sum()))


def test_a_predictor_has_parity_with_itself(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", ngrams=True))

    parity = compare_predictors(predictor, predictor, TEXTS)

    assert parity == PredictorParity(texts=20, probabilities=0.0, weights=0.0, changed=0)
    assert parity.holds


def test_the_largest_differences_are_reported(tmp_path: Path) -> None:
    ours = Predictor.load(save(tmp_path / "ours", storage="int8"))
    theirs = Predictor.load(save(tmp_path / "theirs"))

    parity = compare_predictors(ours, theirs, TEXTS)

    pairs = [(ours.explain(text), theirs.explain(text)) for text in TEXTS]
    differences = [np.abs(a.probabilities - b.probabilities).max() for a, b in pairs]
    assert parity.probabilities == pytest.approx(max(differences), abs=1e-6)
    weights = [
        np.abs(a.weights - b.weights).max()
        for a, b in pairs
        if a.weights is not None and b.weights is not None
    ]
    assert parity.weights == pytest.approx(max(weights), abs=1e-6)
    assert parity.changed == sum(a.predicted != b.predicted for a, b in pairs)


def test_without_attention_only_probabilities_are_compared(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", "avg"))

    parity = compare_predictors(predictor, predictor, TEXTS)

    assert parity.weights is None
    assert "weight" not in str(parity)


@pytest.mark.parametrize("change", [{"probabilities": 2e-3}, {"weights": 2e-3}, {"changed": 1}])
def test_any_visible_difference_breaks_parity(change: dict[str, float]) -> None:
    equal = PredictorParity(texts=200, probabilities=1e-3, weights=1e-3, changed=0)

    assert equal.holds
    assert not replace(equal, **change).holds  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [["a", "b"], []])
def test_random_texts_have_one_to_two_hundred_words(words: list[str]) -> None:
    lengths = [len(text.split()) for text in random_texts(words)]

    assert len(lengths) == 200
    assert (min(lengths), max(lengths)) == (1, 200)
