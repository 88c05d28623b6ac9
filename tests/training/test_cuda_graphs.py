"""Steps replayed as CUDA graphs compute what plain steps compute."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lamatext.data.token_ids import PAD, TokenIds
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe
from lamatext.training.batching import Batch, EncodedDataset, make_batch
from lamatext.training.cuda_graphs import (
    CudaGraphSteps,
    _empty_batch,
    _RecordedShape,
    supports_cuda_graphs,
)
from lamatext.training.loop import LoopSettings, make_training_step
from lamatext.training.optimizers import make_optimizer

CUDA = torch.device("cuda")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def texts(count: int, longest: int, *, weighted: bool = False) -> EncodedDataset:
    draw = np.random.default_rng(longest)
    lengths = draw.integers(1, longest + 1, count)
    lengths[0] = longest
    ids = draw.integers(2, 50, lengths.sum()).astype(np.int32)
    rows = TokenIds(ids, np.concatenate([[0], np.cumsum(lengths)]))
    weights = draw.random(count).astype(np.float32) if weighted else None
    return EncodedDataset(rows, draw.integers(0, 3, count), weights)


def losses(
    name: str, values: dict[str, object], *, recorded: bool, weighted: bool
) -> tuple[list[float], Tensor]:
    """Losses of twelve steps on two batch shapes at a falling learning rate, and the weights."""
    recipe = load_recipe(f"paper/{name}").with_values(values)
    torch.manual_seed(0)
    network = build_network(recipe.model, vocabulary=50, width=100, classes=3).to(CUDA).train()
    settings = LoopSettings(recipe.model, recipe.training, 0, CUDA)
    step = make_training_step(network, make_optimizer(network, recipe.training), settings)
    assert isinstance(step, CudaGraphSteps) == recorded
    datasets = [texts(8, longest, weighted=weighted) for longest in (30, 75, 25, 80)]
    found = []
    for number in range(12):
        batch = make_batch(datasets[number % 4], np.arange(8), CUDA)
        found.append(step(batch, 0.05 / (1 + number)).detach().item())
    return found, torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@needs_gpu
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(
    "name",
    ["lama-ctx", "lama-ctx-dp", "bigru", "lama-encoder", "lama-blocks", "lama-phrases", "avg"],
)
def test_replayed_steps_equal_plain_steps(
    name: str, optimizer: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"model.dropout": 0.0, "training.optimizer": optimizer, "training.gradient_clip": 1.0}
    replayed, weights = losses(name, values, recorded=True, weighted=weighted)
    monkeypatch.setenv("LAMATEXT_STEPS", "plain")
    plain, expected = losses(name, values, recorded=False, weighted=weighted)

    assert replayed == pytest.approx(plain, rel=1e-4, abs=2e-4)
    assert float((weights - expected).abs().max()) < 2e-3


@needs_gpu
def test_every_replay_draws_new_random_numbers() -> None:
    values = {"model.dropout": 0.5, "training.learning_rate": 1e-9}
    recipe = load_recipe("paper/lama-ctx").with_values(values)
    network = build_network(recipe.model, vocabulary=50, width=100, classes=3).to(CUDA).train()
    settings = LoopSettings(recipe.model, recipe.training, 0, CUDA)
    step = make_training_step(network, make_optimizer(network, recipe.training), settings)
    batch = make_batch(texts(8, 40), np.arange(8), CUDA)

    found = {step(batch, 0.0).detach().item() for _ in range(10)}

    assert len(found) == 10


def test_a_shorter_batch_leaves_nothing_of_the_previous_one() -> None:
    def batch(words: int, value: int, weight: float) -> Batch:
        ids = torch.full((2, words), value, dtype=torch.int32)
        lengths = torch.tensor([words, 1], dtype=torch.int32)
        return Batch(ids, lengths, torch.tensor([1, 0]), torch.full((2,), weight))

    recorded = _RecordedShape(_empty_batch(batch(5, 7, 1.0), (2, 16)), torch.zeros(()))
    recorded.copy_from(batch(16, 7, 1.0))
    recorded.copy_from(batch(3, 9, 0.5))

    assert recorded.batch.ids[:, :3].eq(9).all()
    assert recorded.batch.ids[:, 3:].eq(PAD).all()
    assert recorded.batch.lengths.tolist() == [3, 1]
    assert recorded.batch.labels.tolist() == [1, 0]
    assert recorded.batch.sample_weight is not None
    assert recorded.batch.sample_weight.tolist() == [0.5, 0.5]


def test_no_cuda_graph_is_recorded_without_a_gpu() -> None:
    recipe = load_recipe("paper/lama-ctx")
    network = build_network(recipe.model, vocabulary=5, width=100, classes=2)

    assert not supports_cuda_graphs(network, torch.device("cpu"))
