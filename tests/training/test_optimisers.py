import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from lamatext.config import TrainingSettings
from lamatext.training.optimisers import WARM_UP, Average, make_optimizer, one_cycle


def settings(**values: object) -> TrainingSettings:
    return TrainingSettings.model_validate(values)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.last = nn.Linear(2, 2)


@pytest.mark.parametrize(("name", "kind"), [("sgd", SGD), ("adam", Adam), ("adamw", AdamW)])
def test_the_settings_name_the_optimiser(name: str, kind: type[torch.optim.Optimizer]) -> None:
    made = make_optimizer(Words(), settings(optimizer=name, rate=0.3, weight_decay=0.02))

    assert type(made) is kind
    assert {group["lr"] for group in made.param_groups} == {0.3}
    assert made.param_groups[0]["weight_decay"] == 0.02


def test_sgd_has_the_papers_momentum() -> None:
    made = make_optimizer(Words(), settings(optimizer="sgd", momentum=0.9))

    assert made.param_groups[0]["momentum"] == 0.9


def test_word_vectors_do_not_decay_under_adamw() -> None:
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


def test_frozen_weights_are_left_alone() -> None:
    network = Words()
    network.embedding.requires_grad_(False)

    made = make_optimizer(network, settings(optimizer="sgd"))

    assert len(made.param_groups[0]["params"]) == 2


def test_one_cycle_goes_up_then_down_to_nothing() -> None:
    factors = [one_cycle(step / 1000) for step in range(1000)]
    top = factors.index(max(factors))

    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    assert top == pytest.approx(1000 * WARM_UP, abs=1)
    assert max(factors) == pytest.approx(1)
    assert factors[-1] < 0.01


def test_the_average_of_weights_that_stand_still_is_those_weights() -> None:
    network = nn.Linear(2, 2)
    average = Average(network, 0.99)
    with torch.no_grad():
        network.weight.fill_(3.0)

    for _ in range(200):
        average.update()

    assert torch.allclose(average.tensors()["weight"], torch.full((2, 2), 3.0), atol=0.05)


def test_the_average_follows_its_formula() -> None:
    network = nn.Linear(1, 1, bias=False)
    average = Average(network, 0.9)
    mean = network.weight.item()

    for step in range(1, 200):
        with torch.no_grad():
            network.weight.fill_(float(step))
        average.update()
        decay = min(0.9, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * step

    assert average.tensors()["weight"].item() == pytest.approx(mean, rel=1e-5)


def test_within_the_block_the_network_has_the_averaged_weights() -> None:
    network = nn.Linear(2, 2)
    average = Average(network, 0.9)
    with torch.no_grad():
        network.weight.add_(1)
    live, mean = network.weight.clone(), average.tensors()["weight"].clone()

    with average.applied():
        inside = network.weight.clone()
    after = network.weight.clone()

    assert torch.equal(inside, mean)
    assert torch.equal(after, live)
    assert torch.equal(average.tensors()["weight"], mean)


def test_weights_come_back_when_the_block_fails() -> None:
    network = nn.Linear(2, 2)
    average = Average(network, 0.9)
    with torch.no_grad():
        network.weight.add_(1)
    live = network.weight.clone()

    with pytest.raises(ZeroDivisionError), average.applied():
        raise ZeroDivisionError

    assert torch.equal(network.weight, live)


def test_without_decay_there_is_no_average() -> None:
    network = nn.Linear(2, 2)
    average = Average(network, 0.0)

    average.update()
    average.load({})
    with average.applied():
        pass

    assert average.tensors() == {}


def test_an_average_goes_on_where_it_was() -> None:
    torch.manual_seed(0)
    network = nn.Linear(2, 2)
    whole, halves = Average(network, 0.9), Average(network, 0.9)
    for step in range(20):
        with torch.no_grad():
            network.weight.add_(torch.randn(2, 2))
        whole.update()
        halves.update()
        if step == 9:
            kept = {name: tensor.clone() for name, tensor in halves.tensors().items()}
            halves = Average(network, 0.9)
            halves.load(kept)

    assert torch.equal(whole.tensors()["weight"], halves.tensors()["weight"])
