"""Small runs of the benchmarks on a few synthetic texts."""

from pathlib import Path

import pytest
import torch

from benchmarks import memory, throughput, tokenization, training_step
from benchmarks.comparison import TARGETS, Comparison
from tests.corpora import write_csv


def metrics(comparisons: list[Comparison]) -> set[str]:
    assert all(0 < result.low <= result.ratio <= result.high for result in comparisons)
    return {result.metric for result in comparisons}


def test_tokenization_is_compared_with_spacy_and_countvectorizer(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    source = write_csv(tmp_path / "reviews.csv", 60)

    results = tokenization.measure(str(source), texts=60, rounds=1)

    assert metrics(results) == TARGETS["tokenization"].keys()


def test_a_training_step_is_compared_with_plain_pytorch(tmp_path: Path) -> None:
    source = str(write_csv(tmp_path / "reviews.csv", 60))
    before = torch.get_num_threads()

    (result,) = training_step.measure([source], rounds=1, batches=1)

    assert metrics([result]) == {f"step, {source}"}
    parts = result.details["parts_now"]
    assert isinstance(parts, dict)
    assert parts["encoder"] > 0
    assert torch.get_num_threads() == before


def test_both_sides_of_the_training_step_learn_the_same(tmp_path: Path) -> None:
    task = training_step.make_task(str(write_csv(tmp_path / "reviews.csv", 60)), 2)
    task.network.eval()  # without dropout

    ours, plain = (side(task) for side in (training_step.our_side, training_step.plain_side))
    ours.run(task.batches)
    plain.run(task.batches)

    for one, other in zip(ours.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_throughput_is_compared_with_what_users_would_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("train", "test"):
        write_csv(tmp_path / f"{part}.csv", 40)
    monkeypatch.setattr(throughput, "BATCH_WORDS", (64,))

    monkeypatch.setattr(throughput, "MORE_SHORT_TEXTS", 1)

    results = throughput.measure(str(tmp_path), str(tmp_path), train=40, test=20, rounds=1)

    assert metrics(results) >= TARGETS["throughput"].keys()


def test_peak_memory_is_that_of_a_separate_process(tmp_path: Path) -> None:
    source = str(write_csv(tmp_path / "reviews.csv", 40))

    (result,) = memory.measure(source, few=10, many=20)

    assert metrics([result]) == TARGETS["memory"].keys()
    assert 0.5 < result.ratio < 2
    assert result.ours > 20  # MB
