"""Accuracy and time of the network over the mini-batch size."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.__main__ import main
from benchmarks.batch_sizes import EXPERIMENT, batch_size_table, labelled_sentences
from paper.records import Record, Records
from tests.corpora import reviews


@pytest.fixture
def _long_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path))
    (tmp_path / "long").mkdir()
    texts, labels = reviews(100, seed=0)
    long = [f"number {number} was so, so good. {text}!" for number, text in enumerate(texts)]
    pq.write_table(pa.table({"text": long, "label": labels}), tmp_path / "long" / "train.parquet")


@pytest.mark.usefixtures("_long_texts")
def test_sentences_have_the_label_of_their_text_and_no_text_is_in_both_parts() -> None:
    (train, train_labels), (held_out, held_out_labels) = labelled_sentences("long", seed=1)

    assert len(train) == len(train_labels)
    assert len(held_out) == len(held_out_labels)
    numbers = [
        {text.split()[1] for text in part if text.startswith("number")}
        for part in (train, held_out)
    ]
    assert numbers[1] == {str(number) for number in range(9, 100, 10)}
    assert not numbers[0] & numbers[1]


def test_the_table_has_means_in_the_order_of_the_sizes() -> None:
    records = [
        Record(EXPERIMENT, "imdb", size, metric, value + seed / 100, seed)
        for size in ("256", "64")
        for metric, value in (("accuracy", 0.7), ("seconds", 50.0))
        for seed in (0, 2)
    ]

    rows = batch_size_table(records).splitlines()[2:]

    assert rows == ["| 64 | 0.7100 ± 0.0141 | 50 s |", "| 256 | 0.7100 ± 0.0141 | 50 s |"]


@pytest.mark.slow
@pytest.mark.usefixtures("_long_texts")
def test_a_size_is_trained_and_recorded(tmp_path: Path) -> None:
    options = ["--sizes", "16", "--seeds", "0", "--device", "cpu", "--records", str(tmp_path)]

    assert main(["batch-sizes", "--dataset", "long", *options]) == 0

    records = {r.metric: r for r in Records(tmp_path).of(EXPERIMENT)}
    assert records["texts"].number > 90
    assert 0 <= records["accuracy"].number <= 1
