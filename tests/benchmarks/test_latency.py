from pathlib import Path

import pytest

from benchmarks.latency import figures, text_of
from tests.corpora import write_csv


def test_the_figures_are_those_with_bars(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "reviews.csv", 40)

    found = figures(str(source), texts=40, words=12, turns=2, starts=1)

    assert [figure.what for figure in found] == [
        "one text, eager torch",
        "default recipe, eager torch",
        "default recipe, lama-ctx",
        "cold start, import torch",
    ]
    assert all(0 < figure.low <= figure.ratio <= figure.high for figure in found)


@pytest.mark.parametrize("words", [1, 3, 5])
def test_a_text_has_as_many_words_as_asked(words: int) -> None:
    assert len(text_of(words, ["one, two", "three", "four"]).replace(",", " ,").split()) == words
