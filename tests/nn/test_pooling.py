"""The pooling layers against loops over the words."""

import pytest
import torch
from torch import Tensor, nn

from lamatext.nn.pooling import MaxPooling, MeanPooling, masked_max, masked_mean

LENGTHS = (4, 1, 3)


def states_and_mask() -> tuple[Tensor, Tensor]:
    """Return three texts whose padding is larger and smaller than any word."""
    torch.manual_seed(0)
    states = torch.randn(3, 4, 5, dtype=torch.float64) - 3
    mask = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
    states[~mask] = torch.tensor([99.0, -99.0, 99.0, -99.0, 0.0], dtype=torch.float64)
    return states, mask


def test_max_pooling_ignores_padding() -> None:
    states, mask = states_and_mask()

    embedding, weights = MaxPooling()(states, mask)

    assert weights is None
    assert embedding.shape == (3, 1, 5)
    for text, length in enumerate(LENGTHS):
        for i in range(5):
            assert embedding[text, 0, i] == max(float(states[text, t, i]) for t in range(length))


def test_mean_pooling_ignores_padding() -> None:
    states, mask = states_and_mask()

    embedding, weights = MeanPooling()(states, mask)

    assert weights is None
    assert embedding.shape == (3, 1, 5)
    for text, length in enumerate(LENGTHS):
        for i in range(5):
            total = sum(float(states[text, t, i]) for t in range(length))
            assert float(embedding[text, 0, i]) == pytest.approx(total / length, abs=1e-12)


@pytest.mark.parametrize("pooling", [MaxPooling(), MeanPooling()])
def test_gradients_pass_gradcheck(pooling: nn.Module) -> None:
    states, mask = states_and_mask()

    assert torch.autograd.gradcheck(lambda s: pooling(s, mask)[0], (states.requires_grad_(),))


def test_padding_gets_no_gradient() -> None:
    states, mask = states_and_mask()
    states.requires_grad_()

    total = masked_max(states, mask).sum() + masked_mean(states, mask).sum()
    (gradient,) = torch.autograd.grad(total, states)

    assert gradient[~mask].eq(0).all()
    assert gradient[mask].ne(0).any(-1).all()
