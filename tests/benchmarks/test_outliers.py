"""The outlier and coverage benchmarks: their measures, and small runs."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks import coverage, outliers
from benchmarks.accuracy_jobs import AccuracyJob
from benchmarks.leaderboard_tables import PAGE
from lamatext.recipes import resolve_recipe
from lamatext.settings import Recipe
from tests.corpora import TINY, reviews

RECORDS = Path(coverage.__file__).parent / "records"


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    inside, outside = draw.integers(0, 20, 200) / 20, draw.integers(5, 25, 80) / 20

    area = outliers.area_under_roc(inside, outside)

    truth = np.r_[np.zeros(200), np.ones(80)]
    assert area == pytest.approx(roc_auc_score(truth, np.r_[inside, outside]))


def test_the_share_caught_is_counted_above_the_refused_texts() -> None:
    inside, outside = np.arange(100.0), np.array([50.0, 94.5, 96.0, 200.0])

    assert outliers.share_caught(inside, outside, 0.05) == 0.75


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for number, part in enumerate(("train", "valid", "test")):
        texts, labels = reviews(80, seed=number)
        pq.write_table(pa.table({"text": texts, "label": labels}), tmp_path / f"{part}.parquet")
    nonsense = {"text": ["zonk quux blarg", "foo bar baz"] * 5, "label": ["oos"] * 10}
    pq.write_table(pa.table(nonsense), tmp_path / "oos-test.parquet")
    return str(tmp_path)


def tiny_recipe(_: str, seed: int) -> Recipe:
    return resolve_recipe(recipe="default", values={**TINY, "seed": seed, "ngrams.enabled": True})


@pytest.mark.parametrize(("model", "seed"), [("default", 0), ("tfidf-chars", None)])
def test_a_model_is_measured_on_texts_of_no_class(
    model: str, seed: int | None, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outliers, "_recipe", tiny_recipe)

    records = outliers.measure_job(AccuracyJob(folder, model, seed), "cpu")

    values = {record.metric: record.number for record in records}
    assert values["auroc"] > 0.9
    assert values["caught"] == 1.0
    assert 0.5 < values["accuracy"] <= 1
    assert ("flagged_in_scope" in values) == (model == "default")


def test_recorded_thresholds_hold_on_the_test_texts_as_often_as_the_page_says() -> None:
    records = json.loads((RECORDS / "coverage.json").read_text())
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        cells.setdefault((record["dataset"], record["seed"]), {})[record["metric"]] = record[
            "value"
        ]

    assert {name for name, _ in cells} == {"imdb", "clothing", "r8"}
    assert len(cells) == 9
    held = [cell["low"] <= cell["test_accuracy"] <= cell["high"] for cell in cells.values()]
    assert sum(held) == 8  # the intervals are of 95 %
    assert "inside the interval in eight of nine runs" in PAGE.read_text(encoding="utf-8")
