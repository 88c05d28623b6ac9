import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lamatext.data.token_ids import TokenIds
from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings
from lamatext.training.batching import EncodedDataset
from lamatext.training.calibration import (
    PRIOR_FACTORS,
    fit_factors,
    fit_temperature,
    scale_logits,
)
from lamatext.training.loop import predict_logits


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_fitted_temperature_is_the_one_the_labels_were_drawn_with(temperature: float) -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(20_000, 3)) * 2
    powers = np.exp(logits)
    chances = powers / powers.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < draw.random(len(logits))[:, None]).sum(axis=1)

    fitted = fit_temperature((logits * temperature).astype(np.float32), labels)

    assert fitted == pytest.approx(temperature, rel=0.06)


@pytest.mark.parametrize("hidden", [0, 4])
def test_scaling_the_last_layer_scales_every_logit(hidden: int) -> None:
    torch.manual_seed(0)
    model = ModelSettings(name="avg", classifier_width=hidden)
    network = build_network(model, vocabulary=9, width=5, classes=3)
    rows = TokenIds.from_lists(np.random.default_rng(0).integers(2, 9, (30, 4)))
    dataset = EncodedDataset(rows, np.random.default_rng(1).integers(0, 3, 30))
    before = predict_logits(network, dataset, torch.device("cpu"))

    scale_logits(network, 0.4)
    after = predict_logits(network, dataset, torch.device("cpu"))

    np.testing.assert_allclose(after, before * 0.4, rtol=1e-5, atol=1e-7)


Arrays = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]


def drawn(texts: int, *, ngrams: float, network: float) -> Arrays:
    """Logits of two parts, and labels drawn from their sum with the given factors."""
    random = np.random.default_rng(0)
    first = random.normal(size=(texts, 3)).astype(np.float32)
    second = random.normal(size=(texts, 3)).astype(np.float32)
    noise = random.gumbel(size=(texts, 3))
    labels = (ngrams * first + network * second + noise).argmax(axis=1)
    return first, second, labels


def test_the_fitted_factors_are_those_the_labels_were_drawn_with() -> None:
    a, b = fit_factors(*drawn(20_000, ngrams=2.0, network=0.7))

    np.testing.assert_allclose([a, b], [2.0, 0.7], atol=0.1)


def test_a_part_that_misleads_gets_the_factor_zero() -> None:
    _, b = fit_factors(*drawn(2_000, ngrams=2.0, network=-1.0))

    assert b == 0


def test_without_texts_the_factors_are_the_prior() -> None:
    assert fit_factors(*drawn(0, ngrams=1.0, network=1.0)) == PRIOR_FACTORS
