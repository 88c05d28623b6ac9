import numpy as np
import torch
from torch import nn

from lamatext.training.label_calibration import (
    LabelFactors,
    apply_label_factors,
    fit_label_factors,
)

LABELS = 5


def examples(texts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of two parts, and labels of which 2·ngrams + 0.5·network − 1 are the true logits."""
    draw = np.random.default_rng(0)
    ngrams, network = draw.normal(size=(2, texts, LABELS)).astype(np.float32)
    truth = 1 / (1 + np.exp(-(2 * ngrams + 0.5 * network - 1)))
    return ngrams, network, (draw.random(truth.shape) < truth).astype(np.float32)


def test_the_factors_of_both_parts_and_the_shift_are_found() -> None:
    factors = fit_label_factors(*examples(4000))

    np.testing.assert_allclose(factors.ngrams, 2, atol=0.1)
    np.testing.assert_allclose(factors.network, 0.5, atol=0.1)
    np.testing.assert_allclose(factors.shifts, -1, atol=0.15)


def test_a_rare_label_is_shifted_like_the_others() -> None:
    ngrams, network, targets = examples(300)
    targets[:, 0] = 0  # no validation text has it

    factors = fit_label_factors(ngrams, network, targets)

    assert -5 < factors.shifts[0] < factors.shifts[1:].min()


def test_n_grams_decide_on_a_label_with_few_training_texts() -> None:
    texts = np.array([2.0, 1000, 1000, 1000, 1000])

    factors = fit_label_factors(*examples(2000), training_texts=texts)

    assert factors.network[0] < 0.3 * factors.network[1]
    assert factors.ngrams[0] >= factors.ngrams[1]
    np.testing.assert_allclose(factors.network[1:], factors.network[1], rtol=1e-5)


def test_label_weights_raise_the_shift_of_their_label() -> None:
    plain = fit_label_factors(*examples(2000))
    weighted = fit_label_factors(*examples(2000), label_weights=np.array([5.0, 1, 1, 1, 1]))

    assert weighted.shifts[0] > plain.shifts[0] + 0.8


def test_the_network_applies_its_factor_and_the_shifts() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, LABELS))
    inputs, shifts = torch.randn(6, 3), np.arange(LABELS, dtype=np.float32)
    before = network(inputs).detach().numpy()

    apply_label_factors(
        network, LabelFactors(np.ones(5, np.float32), np.full(5, 0.5, np.float32), shifts)
    )

    np.testing.assert_allclose(network(inputs).detach().numpy(), 0.5 * before + shifts, atol=1e-6)
