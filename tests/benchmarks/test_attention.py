import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.attention import (
    DOT,
    EAGER,
    LAMA,
    WRITTEN,
    Point,
    _calls,
    measure_cpu,
    plain_attention,
    slope,
    summary,
)
from benchmarks.attention_figure import draw
from benchmarks.figures import write
from lamatext.kernels.attention import SWITCH


def points() -> list[Point]:
    """LAMA grows in proportion to the words, its baseline with their square."""
    lengths = [1024, 2048, 32_768, 65_536, 262_144]
    return [
        *(Point(LAMA, n, [1e-6 * n, 1e-6 * n], 10 * n) for n in lengths),
        *(Point(EAGER, n, [1e-5 * n, 1e-5 * n], 40 * n) for n in lengths),
        *(Point(DOT, n, [1e-9 * n * n], 20 * n) for n in lengths),
    ]


def test_slopes_are_those_of_the_last_decade() -> None:
    assert slope(points(), LAMA) == pytest.approx(1)
    assert slope([Point(DOT, 1, [9.0], 0), *points()[-3:]], DOT) == pytest.approx(2)


def test_a_summary_tells_slopes_and_ratios() -> None:
    found = {figure.what: figure for figure in summary(points())}

    assert found["slope, SDPA"].ratio == pytest.approx(2)
    assert found["time at 262144 words, LAMA, eager"].ratio == pytest.approx(10)
    assert found["memory at 1024 words, SDPA"].ratio == pytest.approx(2)


def test_measuring_on_a_cpu_counts_time_and_memory_of_both_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.attention.ENOUGH", 0.0)

    found = measure_cpu([16, 64], turns=2)

    assert [(point.layer, point.words) for point in found] == [
        (LAMA, 16), (DOT, 16), (LAMA, 64), (DOT, 64),
    ]  # fmt: skip
    assert all(point.typical > 0 and point.bytes > 0 for point in found)
    assert found[2].bytes >= 64 * 128 * 4  # u of every word


def test_all_forms_of_the_layer_give_the_same() -> None:
    calls = _calls(70, torch.device("cpu"), torch.float32)
    fused: Any = calls[LAMA]()
    for name in (EAGER, WRITTEN):
        plain: Any = calls[name]()
        for ours, theirs in zip(fused, plain, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


def test_the_plain_layer_is_asked_for_within_the_block_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)

    with plain_attention():
        assert os.environ[SWITCH] == "plain"

    assert SWITCH not in os.environ


def test_the_figure_is_drawn_from_the_records(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = write("attention", summary(points()), tmp_path)

    png, svg = draw(path)

    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text(encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8"))
