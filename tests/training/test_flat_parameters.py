"""Flat parameters: one update of all weights, compared with one update per weight."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings, TrainingSettings
from lamatext.training.checkpoint import optimizer_tensors, restore_optimizer
from lamatext.training.flat_parameters import FlatUpdates, WeightUpdates, weight_updates
from lamatext.training.lazy_embedding import LazyUpdates, embedding_updates
from lamatext.training.optimizers import make_optimizer

MODELS = ("lama-ctx", "lama", "lama-blocks", "lama-encoder", "lama-phrases", "san", "bilinear",
          "cnn", "bigru", "te", "avg")  # fmt: skip
IDS = [np.random.default_rng(step).integers(1, 30, (4, 6)).astype(np.int32) for step in range(6)]
LENGTHS = torch.tensor([6, 4, 6, 1])


def network_of(name: str = "lama-ctx") -> nn.Module:
    torch.manual_seed(0)
    settings = ModelSettings.model_validate(
        {"name": name, "heads": 2, "hidden_size": 4, "dropout": 0.0, "transformer_feed_forward": 8}
    )
    network = build_network(settings, vocabulary=30, width=8, classes=3)
    return network.double().eval()  # a Transformer has dropout of its own


def settings_of(optimizer: str) -> TrainingSettings:
    return TrainingSettings.model_validate(
        {"optimizer": optimizer, "schedule": "plateau", "learning_rate": 0.003, "weight_decay": 0.1}
    )


def run(
    network: nn.Module, parts: tuple[LazyUpdates, WeightUpdates], steps: Any, clip: float | None
) -> None:
    embeddings, weights = parts
    with embeddings.epoch([0.003] * len(steps)):
        for ids in steps:
            numbers = torch.from_numpy(embeddings.load_rows(ids))
            weights.set_learning_rate(0.003)
            weights.zero_grad()
            weights.backward(network(numbers, LENGTHS).logits.square().sum())
            weights.step(clip)
            embeddings.step()


def parts_of(
    network: nn.Module, optimizer: Optimizer, settings: TrainingSettings
) -> tuple[LazyUpdates, WeightUpdates]:
    embeddings = embedding_updates(network, optimizer, settings)
    assert isinstance(embeddings, LazyUpdates)
    weights = weight_updates(network, optimizer, embeddings)
    assert isinstance(weights, FlatUpdates)
    return embeddings, weights


def weights_of(network: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("name", MODELS)
def test_flat_updates_give_the_weights_of_separate_updates(
    name: str, optimizer: str, clip: float | None
) -> None:
    settings = settings_of(optimizer)
    flat, separate = network_of(name), network_of(name)
    run(flat, parts_of(flat, make_optimizer(flat, settings), settings), IDS, clip)
    by_torch = make_optimizer(separate, settings)
    embeddings = embedding_updates(separate, by_torch, settings)
    assert isinstance(embeddings, LazyUpdates)
    run(separate, (embeddings, WeightUpdates(separate, by_torch)), IDS, clip)

    torch.testing.assert_close(weights_of(flat), weights_of(separate), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_restored_optimizer_continues_flat_updates_bit_for_bit(optimizer: str) -> None:
    settings = settings_of(optimizer)
    whole = network_of()
    first_optimizer = make_optimizer(whole, settings)
    parts = parts_of(whole, first_optimizer, settings)
    run(whole, parts, IDS[:3], 0.5)
    parts[1].export_state()
    resumed = network_of()
    resumed.load_state_dict(whole.state_dict())
    second_optimizer = make_optimizer(resumed, settings)
    restore_optimizer(second_optimizer, deepcopy(optimizer_tensors(first_optimizer)))

    run(whole, parts, IDS[3:], 0.5)
    run(resumed, parts_of(resumed, second_optimizer, settings), IDS[3:], 0.5)

    assert torch.equal(weights_of(resumed), weights_of(whole))


def test_a_weight_without_a_gradient_stays_as_it_is() -> None:
    settings, network = settings_of("sgd"), network_of()
    settings = settings.model_copy(update={"weight_decay": 0.0})
    network.register_parameter("unused", nn.Parameter(torch.ones(3, dtype=torch.float64)))
    before = weights_of(network)

    run(network, parts_of(network, make_optimizer(network, settings), settings), IDS, None)

    assert torch.equal(network.get_parameter("unused"), torch.ones(3, dtype=torch.float64))
    assert not torch.equal(weights_of(network), before)


def test_a_released_network_has_separate_weights_of_the_same_values() -> None:
    settings, network = settings_of("adamw"), network_of()
    parts = parts_of(network, make_optimizer(network, settings), settings)
    run(network, parts, IDS, None)
    before = weights_of(network)

    parts[1].release()

    assert torch.equal(weights_of(network), before)
    assert all(
        parameter.untyped_storage().nbytes() == parameter.nbytes
        for parameter in network.parameters()
    )


def test_dense_embeddings_have_separate_updates() -> None:
    network, settings = network_of(), settings_of("adam")
    optimizer = make_optimizer(network, settings)

    updates = weight_updates(network, optimizer, embedding_updates(network, optimizer, settings))

    assert type(updates) is WeightUpdates
