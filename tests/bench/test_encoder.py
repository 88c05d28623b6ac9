import torch

from lamatext.bench.encoder import Shape, measure


def test_measuring_compares_with_both_rivals_and_leaves_the_threads_alone() -> None:
    before = torch.get_num_threads()

    ratios = measure(Shape(batch=2, shortest=1, longest=4, width=3, hidden=2), turns=3)

    assert [ratio.rival for ratio in ratios] == ["packed", "padded"]
    assert all(0 < ratio.low <= ratio.median <= ratio.high for ratio in ratios)
    assert torch.get_num_threads() == before
