"""Dropout with 16 random bits per element."""

import torch

from lamatext.nn.network import Dropout


def test_elements_are_dropped_with_the_given_probability_and_the_mean_is_kept() -> None:
    torch.manual_seed(0)

    dropped = Dropout(0.4)(torch.ones(300, 1000))

    assert abs(float((dropped == 0).float().mean()) - 0.4) < 0.002
    assert abs(float(dropped.mean()) - 1) < 0.004
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(2**16 / (2**16 - 26214)))}


def test_neighbouring_elements_are_dropped_independently() -> None:
    torch.manual_seed(0)

    keep = (Dropout(0.5)(torch.ones(400_001)) > 0).float()

    for distance in (1, 2, 3, 4):
        both = float((keep[distance:] * keep[:-distance]).mean())
        assert abs(both - 0.25) < 0.004


def test_gradients_pass_where_elements_were_kept() -> None:
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)

    y = Dropout(0.5)(x)
    y.sum().backward()

    assert x.grad is not None
    torch.testing.assert_close(y, x * x.grad)


def test_evaluation_and_a_probability_of_zero_change_nothing() -> None:
    x = torch.randn(5, 4)

    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_torchs_seed_fixes_the_dropped_elements() -> None:
    layer, x, results = Dropout(0.5), torch.ones(1000), []

    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(layer(x))

    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
