import pytest
import torch

from benchmarks import gpu
from benchmarks.figures import SkippedError

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def test_both_loops_run_and_are_compared_in_words_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "WORDS", 6)
    monkeypatch.setattr(gpu, "VOCABULARY", 30)

    figure = gpu.measure(4, torch.device("cpu"), turns=2, steps=2)

    assert figure.what == "words/s at batch 4, cuDNN"
    assert figure.ratio == pytest.approx(figure.ours / figure.theirs, rel=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_that_it_is_skipped() -> None:
    with pytest.raises(SkippedError, match="needs an NVIDIA GPU"):
        gpu.figures()


@on_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_never_waits_for_the_gpu() -> None:
    device = torch.device("cuda")
    loop = gpu.our_loop(8, device)
    loop(2)
    waiting = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop(3)
    finally:
        torch.cuda.set_sync_debug_mode(waiting)
