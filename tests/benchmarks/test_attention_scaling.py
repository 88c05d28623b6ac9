import os
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.attention_scaling import (
    DOT,
    EAGER,
    LAMA,
    WRITTEN,
    Point,
    _layer_calls,
    draw,
    eager_attention,
    measure_cpu,
    measure_on_gpu,
    scaling_slope,
    summarize,
)
from benchmarks.comparison import SkippedError, write_records
from lamatext.kernels.attention_dispatch import SWITCH


def points() -> list[Point]:
    """LAMA grows linearly with the words, dot-product attention quadratically."""
    lengths = [1024, 2048, 32_768, 65_536, 262_144]
    return [
        *(Point(LAMA, n, [1e-6 * n, 1e-6 * n], 10 * n) for n in lengths),
        *(Point(EAGER, n, [1e-5 * n, 1e-5 * n], 40 * n) for n in lengths),
        *(Point(DOT, n, [1e-9 * n * n], 20 * n) for n in lengths),
    ]


def test_slopes_are_fitted_to_the_last_decade_of_lengths() -> None:
    assert scaling_slope(points(), LAMA) == pytest.approx(1)
    assert scaling_slope([Point(DOT, 1, [9.0], 0), *points()[-3:]], DOT) == pytest.approx(2)


def test_the_summary_has_slopes_and_ratios() -> None:
    found = {comparison.metric: comparison for comparison in summarize(points())}

    assert found["slope, SDPA"].ratio == pytest.approx(2)
    assert found["time at 262144 words, LAMA, eager"].ratio == pytest.approx(10)
    assert found["memory at 1024 words, SDPA"].ratio == pytest.approx(2)


def test_time_and_memory_of_both_layers_are_measured_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.attention_scaling.ROUND_SECONDS", 0.0)

    found = measure_cpu([16, 64], rounds=2)

    assert [(point.layer, point.words) for point in found] == [
        (LAMA, 16), (DOT, 16), (LAMA, 64), (DOT, 64),
    ]  # fmt: skip
    assert all(point.median_seconds > 0 and point.bytes > 0 for point in found)
    assert found[2].bytes >= 64 * 128 * 4  # u of every word


def test_all_variants_of_the_layer_give_the_same_output() -> None:
    calls = _layer_calls(70, torch.device("cpu"), torch.float32)
    fused: Any = calls[LAMA]()
    for name in (EAGER, WRITTEN):
        plain: Any = calls[name]()
        for ours, theirs in zip(fused, plain, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


def test_eager_attention_is_switched_on_within_the_block_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)

    with eager_attention():
        assert os.environ[SWITCH] == "plain"

    assert SWITCH not in os.environ


def test_the_figure_is_drawn_from_the_records(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    records = write_records("attention_scaling", summarize(points()), tmp_path / "records")

    png, svg = draw(records, tmp_path / "figures")

    assert png.read_bytes().startswith(b"\x89PNG")
    assert "LAMA (ours), slope 1.00" in svg.read_text(encoding="utf-8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_gpu_benchmark_is_skipped() -> None:
    with pytest.raises(SkippedError, match="needs an NVIDIA GPU"):
        measure_on_gpu()
