"""The benchmark of flipped labels: what it flips and counts, and a small run."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import flipped_labels
from benchmarks.accuracy_jobs import AccuracyJob
from lamatext.recipes import resolve_recipe
from tests.corpora import TINY, reviews


@pytest.fixture
def folder(tmp_path: Path) -> str:
    texts, labels = reviews(100)
    pq.write_table(pa.table({"text": texts, "label": labels}), tmp_path / "train.parquet")
    return str(tmp_path)


def test_five_percent_of_the_labels_are_flipped_to_another_one(folder: str) -> None:
    data = flipped_labels.flip_labels(folder, seed=3)

    true = np.unique(reviews(100)[1], return_inverse=True)[1]
    assert data.is_flipped.sum() == 5
    assert ((data.labels != true) == data.is_flipped).all()
    assert (flipped_labels.flip_labels(folder, seed=4).is_flipped != data.is_flipped).any()


def test_the_precision_is_counted_among_the_first_five_percent() -> None:
    badness, is_flipped = np.arange(40.0), np.zeros(40, bool)
    is_flipped[[39, 3]] = True

    assert flipped_labels.precision_of_first(badness, is_flipped) == 0.5


def test_lamatext_and_cleanlab_rank_the_same_probabilities(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("cleanlab")
    job = AccuracyJob(folder, "ngrams", 3)
    flipped_labels.save_probabilities(job, "cpu", tmp_path)

    computed = flipped_labels.measure_job(job, "cpu")
    loaded = flipped_labels.measure_job(job, "cpu", saved=tmp_path)

    values = {record.metric: record.number for record in computed}
    assert values == {record.metric: record.number for record in loaded}
    assert values["lamatext"] >= 0.8
    assert set(flipped_labels.CLEANLAB) < set(values)


@pytest.mark.slow
def test_the_default_recipe_is_trained_on_the_same_folds(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = resolve_recipe(recipe="default", values={**TINY, "model.classifier_width": 0})
    monkeypatch.setattr(flipped_labels, "resolve_recipe", lambda **_: tiny)
    data = flipped_labels.flip_labels(folder, seed=3)

    both = flipped_labels.predict_out_of_fold(data, "both", 3, "cpu")

    assert both.shape == (100, 2)
    assert both.sum(axis=1) == pytest.approx(1)
