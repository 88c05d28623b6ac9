import numpy as np
import pytest

from lamatext.baselines import BASELINES, check_baselines, measure
from lamatext.errors import ConfigError
from tests.corpora import reviews


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_and_is_measured(name: str) -> None:
    if name.startswith("fasttext"):
        pytest.importorskip("fasttext")
    texts, labels = reviews(200)
    numbers = np.array([int(label == "pos") for label in labels])

    row = measure(name, (texts[:160], numbers[:160]), (texts[160:], numbers[160:]), ["neg", "pos"])

    assert row.model == BASELINES[name][0]
    assert row.accuracy > 0.9
    assert row.bytes > 0
    assert row.texts_per_second > 0
    assert row.as_dict()["macro_f1"] == row.macro_f1


def test_several_classes_are_told_apart() -> None:
    texts = [f"{word} film" for word in ("good", "bad", "odd")] * 20
    numbers = np.arange(60) % 3

    row = measure("tfidf-svc", (texts, numbers), (texts, numbers), ["a", "b", "c"])

    assert row.accuracy == 1


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown baseline 'svm'. Known: tfidf, .*avg"):
        check_baselines(["tfidf", "svm"])
