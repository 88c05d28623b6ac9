"""Drift of new texts from the validation texts of a model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext import Predictor
from lamatext.errors import DataError, ModelError
from lamatext.input_drift import measure_drift
from lamatext.outliers import ValidationStatistics
from tests.serve.saved import save


class FakePredictor(Predictor):
    """A predictor whose texts are "LABEL UNKNOWN OUTLIER": three digits."""

    __slots__ = ()

    def assess(self, texts: Sequence[str]) -> object:  # type: ignore[override]
        digits = np.array([[int(digit) for digit in text.split()] for text in texts])
        probabilities = np.eye(len(self.classes_), dtype=np.float32)[digits[:, 0]]
        return _Found(probabilities, digits[:, 2] * 1.0, np.full(len(texts), 10), digits[:, 1])


class _Found:
    def __init__(self, *columns: np.ndarray) -> None:
        self.probabilities, self.outlier_scores, self.words, self.unknown_words = columns


def fake(labels: tuple[int, ...], *, texts: int = 1000, unknown: int = 1000) -> FakePredictor:
    statistics = ValidationStatistics(texts, 10 * texts, unknown, labels, (0.0,) * 101)
    names = np.array([f"c{number}" for number in range(len(labels))])
    return FakePredictor(None, None, names, validation=statistics)  # type: ignore[arg-type]


def test_the_same_kind_of_texts_have_not_drifted() -> None:
    draw = np.random.default_rng(0)
    rows = [
        f"{draw.integers(2)} {draw.binomial(10, 0.1)} {int(draw.random() < 0.01)}"
        for _ in range(2000)
    ]

    drift = measure_drift(fake((500, 500)), [rows[:1500], rows[1500:]], "new")

    assert drift.texts == 2000
    assert drift.words == 20_000
    assert not any(share.has_changed for share in drift.shares)
    assert drift.unknown_words.low < 0.1 < drift.unknown_words.high
    assert drift.outliers.validation == pytest.approx(0.01)


def test_other_texts_have_drifted_and_intervals_contain_the_new_share() -> None:
    rows = ["0 5 1"] * 60 + ["1 0 0"] * 40

    drift = measure_drift(fake((500, 300, 200)), [rows], "new")

    assert [share.new for share in drift.labels] == [0.6, 0.4, 0.0]
    assert [share.has_changed for share in drift.labels] == [False, False, True]
    assert drift.outliers.new == 0.6
    assert drift.outliers.has_changed
    assert drift.unknown_words.new == pytest.approx(0.3)
    assert drift.unknown_words.has_changed
    assert all(share.low <= share.new <= share.high for share in drift.shares)


def test_words_of_one_text_are_not_independent() -> None:
    alike, clustered = ["0 1 0"] * 100, ["0 10 0"] * 10 + ["0 0 0"] * 90

    same, spread = (measure_drift(fake((100, 0)), [rows], "new") for rows in (alike, clustered))

    assert same.unknown_words.new == spread.unknown_words.new == pytest.approx(0.1)
    assert same.unknown_words.high - same.unknown_words.low < 0.001
    assert spread.unknown_words.high - spread.unknown_words.low == pytest.approx(0.118, abs=0.002)


def test_few_false_alarms_with_many_labels() -> None:
    draw = np.random.default_rng(1)
    alarms = 0
    for _ in range(100):
        old = np.bincount(draw.integers(0, 50, 1000), minlength=50)
        rows = [f"{label} 1 0" for label in draw.integers(0, 50, 500)]
        drift = measure_drift(fake(tuple(old.tolist())), [rows], "new")
        alarms += any(share.has_changed for share in drift.labels)

    assert alarms <= 12


def test_no_texts_and_no_statistics_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.csv: no texts"):
        measure_drift(fake((1, 1)), [], "nothing.csv")
    with pytest.raises(ModelError, match="no statistics of its validation texts"):
        measure_drift(Predictor.load(save(tmp_path)), [["a film"]], "new")
    without = replace(Predictor.load(tmp_path), validation=None)
    with pytest.raises(ModelError, match="no statistics of its validation texts"):
        measure_drift(without, [], "new")
