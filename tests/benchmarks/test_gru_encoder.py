import pytest
import torch

from benchmarks import gru_encoder
from benchmarks.comparison import TARGETS
from benchmarks.gru_encoder import (
    BATCHES,
    HIDDEN,
    MAX_WORDS,
    Shape,
    compare_gru,
    slowest_size,
    sweep_shapes,
)


def test_the_encoder_is_compared_with_both_baselines_and_threads_are_restored() -> None:
    before = torch.get_num_threads()

    results = compare_gru(Shape(batch=2, shortest=1, longest=4, width=3, hidden=2), rounds=3)

    assert [result.metric for result in results] == [
        "encoder, packed nn.GRU",
        "encoder, padded nn.GRU",
    ]
    assert all(0 < result.low <= result.ratio <= result.high for result in results)
    assert torch.get_num_threads() == before


def test_the_slowest_size_lists_the_ratios_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gru_encoder, "MAX_ROUNDS", 3)

    worst = slowest_size(2, batches=(1, 3))

    all_sizes = worst.details["sizes"]
    assert isinstance(all_sizes, dict)
    assert list(all_sizes) == [
        "1 texts of 1 to 8 words",
        "1 texts of 8 to 8 words",
        "1 texts of 50 to 200 words",
        "3 texts of 1 to 8 words",
        "3 texts of 8 to 8 words",
        "3 texts of 50 to 200 words",
    ]
    assert round(worst.ratio, 3) == min(min(ratios.values()) for ratios in all_sizes.values())
    assert worst.low <= worst.ratio <= worst.high


def test_every_number_of_hidden_units_has_a_target() -> None:
    assert {f"slowest at {hidden} units, nn.GRU" for hidden in HIDDEN} <= set(
        TARGETS["gru_encoder"]
    )


def test_the_sweep_covers_one_text_to_many_within_a_bounded_batch() -> None:
    shapes = list(sweep_shapes(128, BATCHES))

    assert {shape.batch for shape in shapes} >= {1, 512}
    assert all(shape.batch * shape.longest <= MAX_WORDS for shape in shapes)
    assert all(1 <= shape.shortest <= shape.longest for shape in shapes)
