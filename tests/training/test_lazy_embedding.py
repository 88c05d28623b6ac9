"""Lazy embedding updates, compared with torch's SGD and AdamW, which move all rows at each step."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from lamatext.data.token_ids import PAD
from lamatext.settings import TrainingSettings
from lamatext.training.lazy_embedding import (
    DenseUpdates,
    LazyAdamW,
    LazySgd,
    LazyUpdates,
    embedding_updates,
)
from lamatext.training.optimizers import make_optimizer

WORDS, WIDTH, STEPS = 30, 3, 40


class Scorer(nn.Module):
    """Vectors, and something that gives them a gradient which depends on them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH, padding_idx=PAD, dtype=torch.float64)
        self.last = nn.Linear(WIDTH, 1, dtype=torch.float64)

    def forward(self, ids: Tensor) -> Tensor:
        score: Tensor = self.last(self.embedding(ids).tanh()).square().mean()
        return score


def batches(seed: int) -> list[NDArray[np.int32]]:
    """Few of the words at a time; word 29 never, padding sometimes."""
    draw = np.random.default_rng(seed)
    return [draw.integers(0, WORDS - 1, (2, 4)).astype(np.int32) for _ in range(STEPS)]


def optimizer_of(network: nn.Module, momentum: float, decay: float) -> SGD:
    return SGD(network.parameters(), lr=0.1, momentum=momentum, weight_decay=decay)


def adamw_of(network: Scorer, *, epsilon: float) -> AdamW:
    groups: list[dict[str, Any]] = [
        {"params": list(network.last.parameters())},
        {"params": [network.embedding.weight], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=0.1, betas=(0.9, 0.99), eps=epsilon, weight_decay=1e-2, fused=True)


def run_both(
    dense: Scorer, by_torch: Optimizer, lazy: Scorer, rest: Optimizer, updates: LazyUpdates
) -> None:
    """Run two epochs of the same steps densely and lazily and compare all parameters after each."""
    whole = lazy.embedding.weight
    for epoch in range(2):
        constant = isinstance(updates, LazySgd)
        rates = [0.5 / (1 + epoch) if constant else 0.01 * (1 + step % 7) for step in range(STEPS)]
        with updates.epoch(rates):
            for rate, ids in zip(rates, batches(epoch), strict=True):
                for group in (*by_torch.param_groups, *rest.param_groups):
                    group["lr"] = rate
                for optimizer, model, given in (
                    (by_torch, dense, ids),
                    (rest, lazy, updates.load_rows(ids)),
                ):
                    optimizer.zero_grad()
                    model(torch.from_numpy(given)).backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    optimizer.step()
                updates.step()

        assert lazy.embedding.weight is whole
        for (name, one), other in zip(dense.named_parameters(), lazy.parameters(), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 1e-2), (0.9, 0.0), (0.0, 0.1), (0.0, 0.0)])
def test_lazy_sgd_ends_with_the_vectors_of_dense_sgd(momentum: float, decay: float) -> None:
    torch.manual_seed(0)
    dense = Scorer()
    lazy = deepcopy(dense)
    by_torch, rest = (optimizer_of(model, momentum, decay) for model in (dense, lazy))

    run_both(dense, by_torch, lazy, rest, LazySgd(lazy.embedding, rest))

    if momentum:
        torch.testing.assert_close(
            rest.state[lazy.embedding.weight]["momentum_buffer"],
            by_torch.state[dense.embedding.weight]["momentum_buffer"],
            rtol=1e-11,
            atol=1e-14,
        )


def test_lazy_adamw_ends_with_the_vectors_of_dense_adamw_while_the_rate_changes() -> None:
    torch.manual_seed(0)
    dense = Scorer()
    lazy = deepcopy(dense)
    by_torch, rest = (adamw_of(model, epsilon=1e-20) for model in (dense, lazy))

    run_both(dense, by_torch, lazy, rest, LazyAdamW(lazy.embedding, rest))

    mine, theirs = rest.state[lazy.embedding.weight], by_torch.state[dense.embedding.weight]
    assert mine["step"] == theirs["step"] == 2 * STEPS
    for name in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(mine[name], theirs[name], rtol=1e-9, atol=1e-16)


def test_the_epsilon_that_lazy_adamw_neglects_in_skipped_steps_hardly_matters() -> None:
    torch.manual_seed(0)
    dense = Scorer()
    lazy = deepcopy(dense)
    by_torch, rest = (adamw_of(model, epsilon=1e-8) for model in (dense, lazy))
    updates = LazyAdamW(lazy.embedding, rest)
    for group in (*by_torch.param_groups, *rest.param_groups):
        group["lr"] = 0.003

    with updates.epoch([0.003] * STEPS):
        for ids in batches(0):
            for optimizer, model, given in (
                (by_torch, dense, ids),
                (rest, lazy, updates.load_rows(ids)),
            ):
                optimizer.zero_grad()
                model(torch.from_numpy(given)).backward()
                optimizer.step()
            updates.step()

    torch.testing.assert_close(lazy.embedding.weight, dense.embedding.weight, rtol=1e-3, atol=1e-5)


def updates_of(kind: type[LazyUpdates], network: Scorer) -> LazyUpdates:
    is_sgd = kind is LazySgd
    optimizer = optimizer_of(network, 0.9, 0.0) if is_sgd else adamw_of(network, epsilon=1e-8)
    return kind(network.embedding, optimizer)


@pytest.mark.parametrize("kind", [LazySgd, LazyAdamW])
def test_renumbered_ids_find_their_vectors(kind: type[LazyUpdates]) -> None:
    network = Scorer()
    before = network.embedding.weight.detach().clone()
    ids = np.array([[7, 7, 3], [5, PAD, PAD]], np.int32)
    vectors = updates_of(kind, network)

    with vectors.epoch([0.1]):
        found = vectors.load_rows(ids)
        held = network.embedding.weight.detach().clone()

    assert len(held) == 4
    assert (found[ids == PAD] == PAD).all()
    assert torch.equal(held[torch.from_numpy(found)], before[torch.from_numpy(ids)])


@pytest.mark.parametrize("kind", [LazySgd, LazyAdamW])
@pytest.mark.parametrize("row", [WORDS, -WORDS - 1])
def test_the_whole_embedding_is_restored_when_an_epoch_fails(
    kind: type[LazyUpdates], row: int
) -> None:
    network = Scorer()
    whole = network.embedding.weight
    vectors = updates_of(kind, network)

    with pytest.raises(IndexError), vectors.epoch([0.1]):
        vectors.load_rows(np.array([[row]], np.int32))

    assert network.embedding.weight is whole


@pytest.mark.parametrize(
    ("optimizer", "schedule", "trained", "expected"),
    [
        ("sgd", "plateau", True, LazySgd),
        ("sgd", "one-cycle", True, DenseUpdates),  # the rate changes with every step
        ("sgd", "plateau", False, DenseUpdates),
        ("adamw", "one-cycle", True, LazyAdamW),
        ("adamw", "constant", False, DenseUpdates),
        ("adam", "plateau", True, DenseUpdates),  # its weight decay passes through the moments
    ],
)
def test_lazy_updates_are_used_where_their_result_is_that_of_the_optimizer(
    optimizer: str, schedule: str, trained: bool, expected: type
) -> None:
    network = Scorer()
    network.embedding.requires_grad_(trained)
    settings = TrainingSettings.model_validate({"schedule": schedule, "optimizer": optimizer})
    made = make_optimizer(network, settings)

    assert type(embedding_updates(network, made, settings)) is expected
    assert type(embedding_updates(nn.Linear(1, 1), made, settings)) is DenseUpdates
