"""Word vectors that move when they are read, against torch's SGD that moves them at every step."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from lamatext.data.token_ids import PAD
from lamatext.settings import TrainingSettings
from lamatext.training.lazy_sgd import DenseUpdates, LazySgd, embedding_updates

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


@pytest.mark.parametrize(("momentum", "decay"), [(0.9, 1e-2), (0.9, 0.0), (0.0, 0.1), (0.0, 0.0)])
def test_lazy_sgd_ends_with_the_vectors_of_dense_sgd(momentum: float, decay: float) -> None:
    torch.manual_seed(0)
    dense = Scorer()
    lazy = deepcopy(dense)
    by_torch, rest = (optimizer_of(model, momentum, decay) for model in (dense, lazy))
    whole = lazy.embedding.weight
    vectors = LazySgd(lazy.embedding, rest)

    for epoch, rate in enumerate((0.5, 0.25)):  # the rate may change between epochs
        for group in (*by_torch.param_groups, *rest.param_groups):
            group["lr"] = rate
        with vectors.epoch(rate, STEPS):
            for ids in batches(epoch):
                for optimizer, model, given in (
                    (by_torch, dense, ids),
                    (rest, lazy, vectors.load_rows(ids)),
                ):
                    optimizer.zero_grad()
                    model(torch.from_numpy(given)).backward()
                    optimizer.step()
                vectors.step()

        assert lazy.embedding.weight is whole
        for (name, one), other in zip(dense.named_parameters(), lazy.parameters(), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-14, msg=name)
        if momentum:
            torch.testing.assert_close(
                rest.state[whole]["momentum_buffer"],
                by_torch.state[dense.embedding.weight]["momentum_buffer"],
                rtol=1e-11,
                atol=1e-14,
            )


def test_renumbered_ids_find_their_vectors() -> None:
    network = Scorer()
    before = network.embedding.weight.detach().clone()
    ids = np.array([[7, 7, 3], [5, PAD, PAD]], np.int32)
    vectors = LazySgd(network.embedding, optimizer_of(network, 0.9, 0.0))

    with vectors.epoch(0.1, 1):
        found = vectors.load_rows(ids)
        held = network.embedding.weight.detach().clone()

    assert len(held) == 4
    assert (found[ids == PAD] == PAD).all()
    assert torch.equal(held[torch.from_numpy(found)], before[torch.from_numpy(ids)])


def test_the_whole_embedding_is_restored_when_an_epoch_fails() -> None:
    network = Scorer()
    whole = network.embedding.weight
    vectors = LazySgd(network.embedding, optimizer_of(network, 0.9, 0.0))

    with pytest.raises(IndexError), vectors.epoch(0.1, 1):
        vectors.load_rows(np.array([[WORDS]], np.int32))

    assert network.embedding.weight is whole


@pytest.mark.parametrize(
    ("kind", "schedule", "trained", "expected"),
    [
        (SGD, "plateau", True, LazySgd),
        (SGD, "one-cycle", True, DenseUpdates),  # the rate changes with every step
        (SGD, "plateau", False, DenseUpdates),
        (AdamW, "plateau", True, DenseUpdates),
    ],
)
def test_lazy_sgd_is_used_where_it_is_exact(
    kind: type[Optimizer], schedule: str, trained: bool, expected: type
) -> None:
    network = Scorer()
    network.embedding.requires_grad_(trained)
    settings = TrainingSettings.model_validate({"schedule": schedule})
    optimizer = kind(network.parameters(), lr=0.1)  # type: ignore[call-arg]

    assert type(embedding_updates(network, optimizer, settings)) is expected
    assert type(embedding_updates(nn.Linear(1, 1), optimizer, settings)) is DenseUpdates
