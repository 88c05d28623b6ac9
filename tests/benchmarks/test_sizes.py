import pytest

from benchmarks import sizes
from benchmarks.figures import BARS
from benchmarks.sizes import BATCHES, HIDDEN, WORDS, figures, shapes


def test_every_width_has_its_worst_ratio_and_all_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "MOST_TURNS", 3)

    (found,) = figures(hidden=(2,), batches=(1, 3))

    all_sizes = found.details["sizes"]
    assert isinstance(all_sizes, dict)
    assert list(all_sizes) == [
        "1 texts of 1 to 8 words",
        "1 texts of 8 to 8 words",
        "1 texts of 50 to 200 words",
        "3 texts of 1 to 8 words",
        "3 texts of 8 to 8 words",
        "3 texts of 50 to 200 words",
    ]
    assert round(found.ratio, 3) == min(min(ratios.values()) for ratios in all_sizes.values())
    assert found.low <= found.ratio <= found.high


def test_every_width_has_a_bar() -> None:
    assert set(BARS["sizes"]) == {f"slowest at {hidden} units, nn.GRU" for hidden in HIDDEN}


def test_batches_are_of_bounded_size_and_reach_from_one_text_to_many() -> None:
    found = list(shapes(128, BATCHES))

    assert {shape.batch for shape in found} >= {1, 512}
    assert all(shape.batch * shape.longest <= WORDS for shape in found)
    assert all(1 <= shape.shortest <= shape.longest for shape in found)
