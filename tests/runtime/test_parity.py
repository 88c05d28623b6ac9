from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.label_thresholds import LabelThresholds
from lamatext.runtime.parity import Parity, measure_parity, random_texts
from lamatext.runtime.torch_engine import TorchEngine
from lamatext.saved.model_io import load_model, load_network
from tests.serve.saved import WORDS, save

TEXTS = random_texts(WORDS, texts=20)


def in_torch(folder: Path) -> Predictor:
    model = load_model(folder)
    engine = TorchEngine(load_network(model))
    return Predictor(engine, model.encoder, np.array(model.labels), ngrams=model.ngrams)


def test_a_predictor_has_parity_with_itself(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", ngrams=True))

    parity = measure_parity(predictor, predictor, TEXTS)

    assert parity == Parity(texts=20, logits=0.0, probabilities=0.0, weights=0.0, changed=0)
    assert parity.holds


@pytest.mark.parametrize("ngrams", [False, True])
def test_a_graph_differs_from_torch_by_rounding_only(tmp_path: Path, ngrams: bool) -> None:
    folder = save(tmp_path / "model", ngrams=ngrams)

    parity = measure_parity(Predictor.load(folder), in_torch(folder), TEXTS)

    assert 0 < parity.difference < 1e-5


def test_the_largest_differences_are_reported(tmp_path: Path) -> None:
    ours = Predictor.load(save(tmp_path / "ours", storage="int8"))
    theirs = Predictor.load(save(tmp_path / "theirs"))

    parity = measure_parity(ours, theirs, TEXTS)

    pairs = [(ours.explain(text), theirs.explain(text)) for text in TEXTS]
    differences = [np.abs(a.probabilities - b.probabilities).max() for a, b in pairs]
    assert parity.probabilities == pytest.approx(max(differences), abs=1e-6)
    logits = [np.abs(a.logits - b.logits).max() for a, b in pairs]
    largest = max(np.abs(b.logits).max() for _, b in pairs)
    assert parity.logits == pytest.approx(max(logits) / largest, abs=1e-5)
    weights = [
        np.abs(a.weights - b.weights).max()
        for a, b in pairs
        if a.weights is not None and b.weights is not None
    ]
    assert parity.weights == pytest.approx(max(weights), abs=1e-6)
    assert parity.difference == max(parity.logits, parity.weights or 0)
    assert parity.changed == sum(a.predicted != b.predicted for a, b in pairs)


def test_without_attention_there_is_no_difference_of_weights(tmp_path: Path) -> None:
    predictor = Predictor.load(save(tmp_path / "model", "avg"))

    parity = measure_parity(predictor, predictor, TEXTS)

    assert parity.weights is None
    assert "weight" not in str(parity)


def test_with_several_labels_any_label_that_changes_breaks_parity(tmp_path: Path) -> None:
    several = replace(
        Predictor.load(save(tmp_path / "model", ngrams=True)),
        thresholds=LabelThresholds(np.full(3, 0.5, np.float32)),
    )
    probabilities = several.predict_proba(TEXTS)
    values = np.array([0.5, 0.5, np.median(probabilities[:, 2])], np.float32)
    other = replace(several, thresholds=LabelThresholds(values))

    parity = measure_parity(several, other, TEXTS)

    differ = (probabilities[:, 2] >= 0.5) != (probabilities[:, 2] >= values[2])
    assert parity.changed == differ.sum() > 0
    assert not parity.holds


def test_with_several_labels_probabilities_are_compared_label_by_label(tmp_path: Path) -> None:
    thresholds = LabelThresholds(np.full(3, 0.5, np.float32))
    ours = replace(Predictor.load(save(tmp_path / "ours", storage="int8")), thresholds=thresholds)
    theirs = replace(Predictor.load(save(tmp_path / "theirs")), thresholds=thresholds)

    parity = measure_parity(ours, theirs, TEXTS)

    differences = np.abs(ours.predict_proba(TEXTS) - theirs.predict_proba(TEXTS))
    assert parity.probabilities == pytest.approx(differences.max(), abs=1e-6)


@pytest.mark.parametrize(
    "change", [{"probabilities": 2e-3}, {"weights": 2e-3}, {"changed": 1}, {"weights": np.nan}]
)
def test_any_visible_difference_breaks_parity(change: dict[str, float]) -> None:
    equal = Parity(texts=200, logits=0.0, probabilities=1e-3, weights=1e-3, changed=0)

    assert equal.holds
    assert not replace(equal, **change).holds  # type: ignore[arg-type]


@pytest.mark.parametrize(("logits", "weights"), [(np.nan, 0.5), (0.5, np.nan), (np.nan, None)])
def test_the_difference_is_nan_if_one_is(logits: float, weights: float | None) -> None:
    assert np.isnan(Parity(1, logits, 0.0, weights, 0).difference)


@pytest.mark.parametrize("words", [["a", "b"], []])
def test_random_texts_have_one_to_two_hundred_words(words: list[str]) -> None:
    lengths = [len(text.split()) for text in random_texts(words)]

    assert len(lengths) == 200
    assert (min(lengths), max(lengths)) == (1, 200)
