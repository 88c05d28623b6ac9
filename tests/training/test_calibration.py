import numpy as np
import pytest
import torch

from lamatext.data.token_ids import TokenIds
from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings
from lamatext.training.batching import Examples
from lamatext.training.calibration import best_temperature, fold_temperature
from lamatext.training.loop import logits_of


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_of_made_up_logits_is_found(temperature: float) -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(20_000, 3)) * 2
    powers = np.exp(logits)
    chances = powers / powers.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < draw.random(len(logits))[:, None]).sum(axis=1)

    found = best_temperature((logits * temperature).astype(np.float32), labels)

    assert found == pytest.approx(temperature, rel=0.06)


@pytest.mark.parametrize("hidden", [0, 4])
def test_folding_divides_the_logits_and_changes_no_label(hidden: int) -> None:
    torch.manual_seed(0)
    model = ModelSettings(name="avg", classifier_width=hidden)
    network = build_network(model, vocabulary=9, width=5, classes=3)
    rows = TokenIds.from_lists(np.random.default_rng(0).integers(2, 9, (30, 4)))
    examples = Examples(rows, np.random.default_rng(1).integers(0, 3, 30))
    before = logits_of(network, examples, torch.device("cpu"))

    temperature = fold_temperature(network, examples, torch.device("cpu"))
    after = logits_of(network, examples, torch.device("cpu"))

    np.testing.assert_allclose(after, before / temperature, rtol=1e-5, atol=1e-7)
    assert temperature != 1
