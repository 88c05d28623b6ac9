import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from benchmarks import score_intervals
from benchmarks.__main__ import main
from benchmarks.score_intervals import Vectors, score_sample
from lamatext.errors import DataError
from lamatext.progress import SILENT

RECORDS = Path(score_intervals.__file__).parent / "records" / "score_intervals.json"


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    """Make texts up whose class can be told in nine of ten cases."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 15_000)
    seen = np.where(rng.random(15_000) < 0.85, classes, rng.integers(0, 3, 15_000))
    features = np.eye(3, dtype=np.float32)[seen] + rng.normal(0, 0.05, (15_000, 3))
    targets = 2 * np.eye(3, dtype=np.float32)[classes] - 1
    return Vectors(
        sparse.csr_matrix(features.astype(np.float32)), targets, pa.array(map(str, classes))
    )


@pytest.fixture(scope="module")
def several(vectors: Vectors) -> Vectors:
    """Give the same texts a second label at random."""
    second = np.random.default_rng(1).integers(0, 3, len(vectors.labels))
    targets = np.maximum(vectors.targets, 2 * np.eye(3, dtype=np.float32)[second] - 1)
    labels = pa.array([[str(c) for c in np.flatnonzero(row > 0)] for row in targets])
    return Vectors(vectors.features, targets, labels)


@pytest.mark.parametrize(("size", "folds", "texts"), [(150, 5, 150), (2100, 0, 210)])
def test_a_sample_is_scored_as_training_does(
    vectors: Vectors, size: int, folds: int, texts: int
) -> None:
    sample = score_sample(vectors, size, 0)

    assert (sample.texts, sample.folds) == (texts, folds)
    assert sample.score == pytest.approx(0.9, abs=0.07)
    assert sample.further == pytest.approx(0.9, abs=0.01)


def test_several_labels_per_text_are_scored_by_micro_f1(several: Vectors) -> None:
    values = score_intervals.measure(several, 150, 40, SILENT)
    sample = score_sample(several, 150, 0)

    assert sample.folds == 5
    assert sample.score == pytest.approx(sample.further, abs=0.1)
    assert sample.interval[0] < sample.score < sample.interval[1]
    assert values["coverage"] >= 0.9


def test_too_few_further_texts_are_an_error(vectors: Vectors) -> None:
    with pytest.raises(DataError, match="expected at least 8,000"):
        score_sample(vectors, 8_000, 0)


def test_the_interval_holds_where_the_model_is_the_best_possible(vectors: Vectors) -> None:
    values = score_intervals.measure(vectors, 200, 60, SILENT)

    assert values["coverage"] >= 0.9


def test_the_command_writes_records(
    vectors: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_intervals, "vectorize", lambda _: vectors)
    arguments = ["--datasets", "made-up", "--sizes", "60", "--splits", "3"]

    assert main(["score-intervals", *arguments, "--records", str(tmp_path)]) == 0

    records = json.loads((tmp_path / "score_intervals.json").read_text())
    assert {record["metric"] for record in records} >= {"coverage", "width"}


@pytest.mark.skipif(not RECORDS.is_file(), reason="not measured yet")
def test_the_recorded_coverage_is_at_least_91_percent_and_with_one_label_at_most_99() -> None:
    records = [r for r in json.loads(RECORDS.read_text()) if r["metric"] == "coverage"]

    assert {record["dataset"] for record in records} >= {"imdb", "news"}
    for record in records:
        assert record["config"]["splits"] == 200
        most = 1 if record["dataset"] in ("goemotions", "reuters") else 0.99
        assert 0.91 <= record["value"] <= most, record
