import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from lamatext.settings import TrainingSettings
from lamatext.training.optimizers import WARM_UP, make_optimizer, one_cycle_factor


def settings(**values: object) -> TrainingSettings:
    return TrainingSettings.model_validate(values)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.last = nn.Linear(2, 2)


@pytest.mark.parametrize(("name", "kind"), [("sgd", SGD), ("adam", Adam), ("adamw", AdamW)])
def test_the_settings_choose_the_optimizer(name: str, kind: type[torch.optim.Optimizer]) -> None:
    made = make_optimizer(Words(), settings(optimizer=name, learning_rate=0.3, weight_decay=0.02))

    assert type(made) is kind
    assert {group["lr"] for group in made.param_groups} == {0.3}
    assert made.param_groups[0]["weight_decay"] == 0.02


def test_sgd_has_the_momentum_of_the_settings() -> None:
    made = make_optimizer(Words(), settings(optimizer="sgd", momentum=0.9))

    assert made.param_groups[0]["momentum"] == 0.9


def test_adamw_does_not_decay_word_vectors() -> None:
    network = Words()

    made = make_optimizer(network, settings(optimizer="adamw", weight_decay=0.5))

    decays = {
        id(parameter): group["weight_decay"]
        for group in made.param_groups
        for parameter in group["params"]
    }
    assert decays[id(network.embedding.weight)] == 0
    assert decays[id(network.last.weight)] == 0.5
    assert len(decays) == 3


def test_frozen_weights_are_not_optimized() -> None:
    network = Words()
    network.embedding.requires_grad_(False)

    made = make_optimizer(network, settings(optimizer="sgd"))

    assert len(made.param_groups[0]["params"]) == 2


def test_the_one_cycle_rate_rises_then_falls_to_zero() -> None:
    factors = [one_cycle_factor(step / 1000) for step in range(1000)]
    top = factors.index(max(factors))

    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    assert top == pytest.approx(1000 * WARM_UP, abs=1)
    assert max(factors) == pytest.approx(1)
    assert factors[-1] < 0.01
