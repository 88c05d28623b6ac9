"""Steps that are recorded and played make what plain steps make."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lamatext.data.token_ids import PAD, TokenIds
from lamatext.nn.network import build_network
from lamatext.recipes import load_recipe
from lamatext.training.batching import Examples
from lamatext.training.cuda_graphs import RecordedSteps, _Recording, _room, can_record, steps_of
from lamatext.training.lazy_sgd import AllVectors
from lamatext.training.optimizers import make_optimizer
from lamatext.training.training_step import Batch, Plan, batch_of

CUDA = torch.device("cuda")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def texts(count: int, longest: int) -> Examples:
    draw = np.random.default_rng(longest)
    lengths = draw.integers(1, longest + 1, count)
    lengths[0] = longest
    ids = draw.integers(2, 50, lengths.sum()).astype(np.int32)
    rows = TokenIds(ids, np.concatenate([[0], np.cumsum(lengths)]))
    return Examples(rows, draw.integers(0, 3, count))


def losses(name: str, values: dict[str, object], *, recorded: bool) -> tuple[list[float], Tensor]:
    """Of twelve steps on batches of two shapes at a falling rate, and the weights after them."""
    recipe = load_recipe(f"paper/{name}").with_values(values)
    torch.manual_seed(0)
    network = build_network(recipe.model, vocabulary=50, width=100, classes=3).to(CUDA).train()
    plan = Plan(recipe.model, recipe.training, 0, CUDA)
    optimizer = make_optimizer(network, recipe.training)
    make_step = steps_of(network, optimizer, plan)
    assert isinstance(make_step, RecordedSteps) == recorded
    examples = [texts(8, longest) for longest in (30, 75, 25, 80)]
    found = []
    for number in range(12):
        given = batch_of(examples[number % 4], np.arange(8), CUDA, AllVectors())
        found.append(make_step(given, 0.05 / (1 + number)).detach().item())
    return found, torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@needs_gpu
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", ["lama-ctx", "lama-ctx-dp", "bigru", "lama-encoder", "avg"])
def test_recorded_steps_are_the_plain_ones(
    name: str, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"model.dropout": 0.0, "training.optimizer": optimizer, "training.gradient_clip": 1.0}
    played, weights = losses(name, values, recorded=True)
    monkeypatch.setenv("LAMATEXT_STEPS", "plain")
    made, expected = losses(name, values, recorded=False)
    assert played == pytest.approx(made, abs=2e-4)
    assert float((weights - expected).abs().max()) < 2e-3


@needs_gpu
def test_a_recording_draws_new_random_numbers_each_time_it_is_played() -> None:
    values = {"model.dropout": 0.5, "training.learning_rate": 1e-9}
    recipe = load_recipe("paper/lama-ctx").with_values(values)
    network = build_network(recipe.model, vocabulary=50, width=100, classes=3).to(CUDA).train()
    plan = Plan(recipe.model, recipe.training, 0, CUDA)
    make_step = steps_of(network, make_optimizer(network, recipe.training), plan)
    given = batch_of(texts(8, 40), np.arange(8), CUDA, AllVectors())
    found = {make_step(given, 0.0).detach().item() for _ in range(10)}
    assert len(found) == 10


def test_a_shorter_batch_leaves_nothing_of_the_one_before() -> None:
    def batch(words: int, value: int) -> Batch:
        ids = torch.full((2, words), value, dtype=torch.int32)
        return Batch(ids, torch.tensor([words, 1], dtype=torch.int32), torch.tensor([1, 0]))

    recording = _Recording(_room(batch(5, 7), (2, 16)), torch.zeros(()))
    recording.put(batch(16, 7))
    recording.put(batch(3, 9))
    assert recording.batch.ids[:, :3].eq(9).all()
    assert recording.batch.ids[:, 3:].eq(PAD).all()
    assert recording.batch.lengths.tolist() == [3, 1]


def test_nothing_is_recorded_without_a_gpu() -> None:
    recipe = load_recipe("paper/lama-ctx")
    network = build_network(recipe.model, vocabulary=5, width=100, classes=2)
    plan = Plan(recipe.model, recipe.training, 0, torch.device("cpu"))
    assert not can_record(network, plan)
