import os

import pytest
import torch

from benchmarks.plain import SWITCHES, best_threads, plain_torch


@pytest.mark.parametrize("before", [None, "kernel"])
def test_plain_torch_leaves_the_process_as_it_was(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
    threads = torch.get_num_threads()

    with plain_torch(1):
        assert torch.get_num_threads() == 1
        assert {os.environ[name] for name in SWITCHES} == {"plain"}

    assert torch.get_num_threads() == threads
    assert {os.environ.get(name) for name in SWITCHES} == {before}


def test_the_best_threads_are_one_or_all() -> None:
    assert best_threads(lambda: None) in (1, torch.get_num_threads())
