import os
import time

import pytest
import torch

from benchmarks.plain_pytorch import SWITCHES, best_threads, plain_pytorch


@pytest.mark.parametrize("before", [None, "kernel"])
def test_plain_pytorch_restores_threads_and_switches(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
    threads = torch.get_num_threads()

    with plain_pytorch(1):
        assert torch.get_num_threads() == 1
        assert {os.environ[name] for name in SWITCHES} == {"plain"}

    assert torch.get_num_threads() == threads
    assert {os.environ.get(name) for name in SWITCHES} == {before}


@pytest.mark.parametrize("fastest", [1, 2])
def test_the_faster_number_of_threads_is_chosen(fastest: int) -> None:
    def run() -> None:
        time.sleep(0.0 if torch.get_num_threads() == fastest else 0.1)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert best_threads(run) == fastest
    finally:
        torch.set_num_threads(before)
