"""Each benchmark on a few made-up texts, through the same code."""

from pathlib import Path

import pytest
import torch

from benchmarks import memory, prepare, throughput, train
from benchmarks.encoder import Shape
from benchmarks.figures import BARS, Figure
from tests.corpora import write_csv


def names(figures: list[Figure]) -> set[str]:
    assert all(0 < figure.low <= figure.ratio <= figure.high for figure in figures)
    return {figure.what for figure in figures}


def test_preparing_is_held_against_spacy_and_countvectorizer(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    source = write_csv(tmp_path / "reviews.csv", 60)

    found = prepare.figures(str(source), texts=60, turns=1)

    assert names(found) == BARS["prepare"].keys()


def test_the_whole_step_is_held_against_plain_torch(tmp_path: Path) -> None:
    source = str(write_csv(tmp_path / "reviews.csv", 60))
    shape = Shape(batch=2, shortest=1, longest=3, width=2, hidden=2)
    before = torch.get_num_threads()

    found = train.figures([source], turns=1, batches=1, shape=shape)

    assert names(found) == {
        "encoder, packed nn.GRU",
        "encoder, padded nn.GRU",
        f"step, {source}",
    }
    assert torch.get_num_threads() == before


def test_both_sides_of_the_step_learn_the_same(tmp_path: Path) -> None:
    task = train.task(str(write_csv(tmp_path / "reviews.csv", 60)), 2)
    task.network.eval()  # without dropout

    ours, plain = (side(task) for side in (train.our_side, train.plain_side))
    ours.run(task.batches)
    plain.run(task.batches)

    for one, other in zip(ours.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_predicting_many_is_held_against_what_users_pick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("train", "test"):
        write_csv(tmp_path / f"{part}.csv", 40)
    monkeypatch.setattr(throughput, "BATCHES", (64,))

    found = throughput.figures(str(tmp_path), train=40, test=20, turns=1)

    assert names(found) >= BARS["throughput"].keys()


def test_the_peak_of_memory_is_that_of_a_process_of_its_own(tmp_path: Path) -> None:
    source = str(write_csv(tmp_path / "reviews.csv", 40))

    (found,) = memory.figures(source, few=10, many=20)

    assert names([found]) == BARS["memory"].keys()
    assert 0.5 < found.ratio < 2
    assert found.ours > 20
