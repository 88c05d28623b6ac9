import pytest
import torch

from benchmarks import gpu_training
from benchmarks.comparison import SkippedError

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_both_loops_run_and_are_compared_in_words_per_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_training, "WORDS", 6)
    monkeypatch.setattr(gpu_training, "VOCABULARY", 30)
    ours_then_baseline = [9.0, 9.0, 2.0, 1.0, 2.0, 1.0]  # seconds; the first round is a warm-up

    def run_with_fake_clock(loop: gpu_training.Loop, steps: int, _: torch.device) -> float:
        loop(steps)
        return ours_then_baseline.pop(0)

    monkeypatch.setattr(gpu_training, "_timed", run_with_fake_clock)

    result = gpu_training.compare_loops(4, torch.device("cpu"), rounds=2, steps=3)

    assert result.metric == "words/s at batch 4, cuDNN"
    assert result.ratio == pytest.approx(0.5)
    assert result.baseline == pytest.approx(4 * 6 * 3 / 1e6)  # texts x words x steps in 1 s
    assert not ours_then_baseline


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_is_skipped() -> None:
    with pytest.raises(SkippedError, match="needs an NVIDIA GPU"):
        gpu_training.measure()


@on_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_never_waits_for_the_gpu() -> None:
    device = torch.device("cuda")
    loop = gpu_training.training_loop(8, device)
    loop(2)
    mode_before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop(3)
    finally:
        torch.cuda.set_sync_debug_mode(mode_before)
