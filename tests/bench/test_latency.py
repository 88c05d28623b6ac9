import os

import pytest
import torch

from lamatext.bench.latency import made_up_text, measure, one_plain_thread
from lamatext.kernels.gru import SWITCH


def test_measure_gives_a_ratio_within_its_spread() -> None:
    found = measure(words=12, vocabulary=60, rounds=3, repeats=2)

    assert found.words == 12
    assert 0 < found.ratio_low <= found.ratio <= found.ratio_high
    assert found.onnx_ms > 0
    assert found.torch_ms > 0


def test_made_up_text_has_as_many_known_words_as_asked() -> None:
    encoder, text = made_up_text(30, 100)

    ids = encoder.encode([text])[0]

    assert len(ids) == 30
    assert ids.min() >= 2


@pytest.mark.parametrize("before", [None, "kernel"])
def test_plain_thread_leaves_the_process_as_it_was(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    if before is not None:
        monkeypatch.setenv(SWITCH, before)
    threads = torch.get_num_threads()

    with one_plain_thread():
        assert (torch.get_num_threads(), os.environ[SWITCH]) == (1, "plain")

    assert (torch.get_num_threads(), os.environ.get(SWITCH)) == (threads, before)
