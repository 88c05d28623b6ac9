"""A small run of the benchmark of several training processes."""

import pytest
import torch

from benchmarks import training_processes
from benchmarks.comparison import TARGETS
from lamatext.kernels.kernel_threads import THREADS


@pytest.mark.slow
def test_two_processes_are_compared_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS, "1")
    monkeypatch.setattr(training_processes, "usable_cores", lambda: 2)
    threads = torch.get_num_threads()

    results = training_processes.measure(rounds=1, texts=0.01)

    torch.set_num_threads(threads)
    assert {result.metric for result in results} == TARGETS["training_processes"].keys()
    for part in ("exchange_ms", "embedding_ms"):
        assert all(result.details[part] for result in results)
