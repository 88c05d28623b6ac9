import torch

from benchmarks.encoder import Shape, figures


def test_measuring_compares_with_both_baselines_and_leaves_the_threads_alone() -> None:
    before = torch.get_num_threads()

    found = figures(Shape(batch=2, shortest=1, longest=4, width=3, hidden=2), turns=3)

    assert [figure.what for figure in found] == [
        "encoder, packed nn.GRU",
        "encoder, padded nn.GRU",
    ]
    assert all(0 < figure.low <= figure.ratio <= figure.high for figure in found)
    assert torch.get_num_threads() == before
