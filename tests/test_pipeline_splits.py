"""Splits of a training run with a validation file: no validation text is a test text."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lamatext import pipeline
from lamatext.data.dataset import Dataset
from lamatext.pipeline import DataSources, Splits, fit_recipe_fold, read_splits, split_dataset
from lamatext.progress import SILENT
from lamatext.recipes import resolve_recipe
from tests.corpora import TINY

RECIPE = resolve_recipe(recipe="default", values={**TINY, "seed": 0})


def write_random_texts(place: Path, count: int) -> list[dict[str, str]]:
    """Write texts of random words with random labels, and a fifth of them as a validation file."""
    draw = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnprst"]
    rows = [
        {"text": " ".join(draw.choice(words, 12)), "label": str(draw.choice(["yes", "no"]))}
        for _ in range(count)
    ]
    for name, part in (("all", rows), ("validation", rows[::5])):
        lines = "".join(json.dumps(row) + "\n" for row in part)
        (place / f"{name}.jsonl").write_text(lines)
    return rows


def splits_of(place: Path) -> Splits:
    sources = DataSources(str(place / "all.jsonl"), validation=str(place / "validation.jsonl"))
    return read_splits(sources, RECIPE)


def texts_of(dataset: Dataset | None) -> set[str]:
    return set() if dataset is None else set(dataset.texts.to_pylist())


def test_validation_texts_that_are_test_texts_are_not_used(tmp_path: Path) -> None:
    rows = write_random_texts(tmp_path, 2400)

    splits = splits_of(tmp_path)

    given = {row["text"] for row in rows[::5]}
    both = given & texts_of(splits.test)
    assert both
    assert texts_of(splits.validation) == given - both
    note = f"{len(both)} of 480 validation texts of {tmp_path}/validation.jsonl are also test texts"
    assert any(note in each for each in splits.train.notes)


def test_validation_texts_of_a_fold_are_not_used_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_random_texts(tmp_path, 100)
    splits = splits_of(tmp_path)
    fitted: list[Splits] = []

    class StoppedError(Exception):
        pass

    def stop(_: object, fold: Splits, *__: object, **___: object) -> None:
        fitted.append(fold)
        raise StoppedError

    monkeypatch.setattr(pipeline, "fit_recipe", stop)
    for train, test in splits.folds:
        parts = splits.test.take(train), splits.test.take(test)
        with pytest.raises(StoppedError):
            fit_recipe_fold(RECIPE, splits, "cpu", *parts, SILENT)

    assert len(fitted) == 5
    for fold in fitted:
        assert not texts_of(fold.validation) & texts_of(fold.test)
    assert len(texts_of(splits.validation)) == 20


@pytest.mark.filterwarnings("ignore:.* seen once")
def test_the_training_texts_of_every_fold_have_two_classes() -> None:
    words = np.random.default_rng(0).choice(list("bdfgklmnprst"), (80, 30))
    texts = pa.chunked_array([["".join(row[:5]) + " " + "".join(row[5:]) for row in words]])
    groups = np.repeat(np.arange(20), 4)
    labels = np.where(np.isin(np.arange(80), (0, 4)), "b", "a")  # in two groups, a minority in each
    data = Dataset(
        texts, pa.chunked_array([labels.tolist()]), "x",
        group_values=pa.chunked_array([groups.astype(str).tolist()]),
    )  # fmt: skip

    for seed in range(30):
        splits = split_dataset(data, None, None, RECIPE.with_values({"seed": seed}))

        assert len(splits.folds) >= 4
        assert all(len(set(labels[train])) == 2 for train, _ in splits.folds)
