from collections.abc import Iterator

import pytest
import torch
from torch import nn

from lamatext.kernels.kernel_threads import THREADS, kernel_threads, thread_count
from lamatext.nn.network import Network, build_network
from lamatext.settings import ModelName, ModelSettings
from lamatext.training.cpu_threads import training_threads


def network(name: ModelName) -> Network:
    model = ModelSettings(
        name=name, heads=1, hidden_size=1, transformer_feed_forward=2, transformer_positions=4
    )
    return build_network(model, vocabulary=3, width=2, classes=2)


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(THREADS, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_torch_gets_one_thread_and_the_kernel_all_of_them() -> None:
    with training_threads(network("lama-ctx")):
        assert (torch.get_num_threads(), thread_count(torch.get_num_threads())) == (1, 2)
        with training_threads(network("lama-ctx")):
            assert (torch.get_num_threads(), thread_count(torch.get_num_threads())) == (1, 2)

    assert (torch.get_num_threads(), thread_count(torch.get_num_threads())) == (2, 2)


@pytest.mark.usefixtures("two_threads")
def test_thread_counts_are_restored_when_training_fails() -> None:
    with pytest.raises(ZeroDivisionError), training_threads(network("lama-ctx")):
        raise ZeroDivisionError

    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_every_small_network_gets_one_thread_and_a_transformer_keeps_all() -> None:
    with training_threads(network("avg")):
        assert torch.get_num_threads() == 1
    with training_threads(network("te")):
        assert torch.get_num_threads() == 2
    with training_threads(nn.Linear(1, 1)):
        assert torch.get_num_threads() == 2


def test_the_environment_variable_overrides_the_thread_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(THREADS, "3")

    with kernel_threads(2):
        assert thread_count(1) == 3
