from pathlib import Path

import pytest

from benchmarks.latency import measure, text_of
from tests.corpora import write_csv


def test_latency_is_compared_with_eager_pytorch_and_its_import(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "reviews.csv", 40)

    results = measure(str(source), texts=40, words=12, rounds=2, starts=1)

    assert [result.metric for result in results] == [
        "one text, eager torch",
        "default recipe, eager torch",
        "default recipe, lama-ctx",
        "with outlier score, without",
        "cold start, import torch",
    ]
    assert all(0 < result.low <= result.ratio <= result.high for result in results)


@pytest.mark.parametrize("words", [1, 3, 5])
def test_the_timed_text_has_the_requested_number_of_words(words: int) -> None:
    assert len(text_of(words, ["one, two", "three", "four"]).replace(",", " ,").split()) == words
