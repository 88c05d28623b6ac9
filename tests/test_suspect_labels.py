"""Suspect labels: flipped labels are found, by models that did not see the text."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lamatext.suspect_labels as module
from lamatext.data.dataset import Dataset
from lamatext.data.duplicates import group_rows
from lamatext.data.suspects_file import COLUMNS, text_hash
from lamatext.errors import DataError
from lamatext.suspect_labels import (
    FOLDS,
    OutOfFoldModels,
    SuspectSearch,
    conflicting_duplicates,
    find_outliers,
    find_suspects,
    suspect_rows,
)
from tests.corpora import BAD, GOOD, reviews


def dataset(texts: list[str], labels: list[str]) -> Dataset:
    return Dataset(
        pa.chunked_array([texts], pa.large_string()),
        pa.chunked_array([labels], pa.string()),
        "reviews.csv",
    )


def flipped(count: int, rows: tuple[int, ...]) -> Dataset:
    texts, labels = reviews(count)
    for row in rows:
        labels[row] = {"neg": "pos", "pos": "neg"}[labels[row]]
    return dataset(texts, labels)


def search(data: Dataset, folder: Path, seed: int = 0) -> SuspectSearch:
    with find_suspects(data, partial_folder=folder / "partial", seed=seed) as found:
        return found


def test_flipped_labels_come_first_with_the_words_that_contradict_them(tmp_path: Path) -> None:
    data = flipped(200, (17, 60))

    found = search(data, tmp_path)

    assert {suspect.row for suspect in found.suspects[:2]} == {17, 60}
    first = found.suspects[0]
    assert (first.label, first.suggestion) == {17: ("neg", "pos"), 60: ("pos", "neg")}[first.row]
    assert first.label_probability is not None
    assert first.suggestion_probability is not None
    assert first.label_probability < 0.1 < 0.9 < first.suggestion_probability
    assert first.supporting_words[0] in data.texts[first.row].as_py().split()
    assert first.supporting_words[0] in (*GOOD, *BAD)
    assert found.agreement > 0.95
    assert found.unchecked == 0


def test_clean_data_has_almost_no_suspects(tmp_path: Path) -> None:
    found = search(dataset(*reviews(200)), tmp_path)

    assert sum(suspect.is_improbable for suspect in found.suspects) == 0


def test_no_model_is_trained_on_a_text_that_it_predicts_or_on_a_near_duplicate() -> None:
    texts, labels = reviews(60)
    texts[40] = f"{texts[3].upper()}!!"
    data = dataset(texts, labels)
    groups = group_rows(data.texts)

    models = OutOfFoldModels.prepare(data, 0, groups)

    for train, held_out in models.folds:
        assert not set(groups[train]) & set(groups[held_out])
    times_held_out = np.bincount(np.concatenate([held_out for _, held_out in models.folds]))
    assert (times_held_out == module.REPETITIONS).all()


def test_the_rarer_label_of_near_duplicates_is_suspect_and_in_a_tie_both() -> None:
    labels = np.array([0, 0, 1, 0, 1, 2, 2])
    groups = np.array([0, 0, 0, 3, 3, 5, 5])

    assert conflicting_duplicates(labels, groups) == {2: 0, 3: 4, 4: 3}


def test_near_duplicates_with_different_labels_are_listed_with_each_others_rows(
    tmp_path: Path,
) -> None:
    texts, labels = reviews(60)
    texts[40], labels[40] = f"{texts[3].upper()}!!", "neg"
    data = dataset(texts, labels)

    found = search(data, tmp_path)

    rows = {row["row"]: row for row in suspect_rows(found, data)}
    assert "near-duplicate of row 41 with the label neg" in str(rows[4]["reason"])
    assert "near-duplicate of row 4 with the label pos" in str(rows[41]["reason"])
    assert rows[41]["suggested_label"] == "pos"


def test_a_text_of_unknown_words_is_an_outlier_and_usual_texts_are_not(tmp_path: Path) -> None:
    texts, labels = reviews(150)
    texts[20] = "qwzx plokm vrrt gnnbb xxyzz"

    found = search(dataset(texts, labels), tmp_path)

    outliers = [suspect.row for suspect in found.suspects if suspect.is_outlier]
    assert 20 in outliers
    assert len(outliers) <= 2  # the score is above that of 99 % of the texts
    even = np.linspace(1, 2, 1000, dtype=np.float32)
    known = np.ones(1000, np.float32)
    assert not find_outliers(even, known, even).any()
    known[:3] = 0
    assert np.flatnonzero(find_outliers(even, known, even)).tolist() == [0, 1, 2]


def test_outliers_come_last_and_have_no_suggestion(tmp_path: Path) -> None:
    texts, labels = reviews(150)
    texts[20] = "qwzx plokm vrrt gnnbb xxyzz"
    labels[31] = "neg"
    data = dataset(texts, labels)

    rows = suspect_rows(search(data, tmp_path), data)

    assert rows[0]["row"] == 32
    last = next(row for row in rows if row["row"] == 21)
    assert last["reason"] == "unusual text"
    assert last["suggested_label"] is None
    assert not any("improbable" in str(row["reason"]) for row in rows[rows.index(last) :])
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["text_hash"] == text_hash(texts[31])


def test_the_only_text_of_a_label_is_not_checked_and_counted(tmp_path: Path) -> None:
    texts, labels = reviews(60)
    labels[7] = "once"

    found = search(dataset(texts, labels), tmp_path)

    assert found.unchecked == 1
    assert 7 not in [suspect.row for suspect in found.suspects]


def test_a_label_that_only_a_near_duplicate_has_does_not_break_the_search(tmp_path: Path) -> None:
    texts, labels = reviews(60)
    texts[40], labels[40] = f"{texts[3].upper()}!!", "once"

    found = search(dataset(texts, labels), tmp_path)

    assert {3, 40} <= {suspect.row for suspect in found.suspects}


@pytest.mark.parametrize("count", [10, 40])
def test_little_data_is_checked(count: int, tmp_path: Path) -> None:
    found = search(dataset(*reviews(count)), tmp_path)

    assert found.texts == count


def test_data_that_cannot_be_checked_is_a_named_error(tmp_path: Path) -> None:
    texts, labels = reviews(20)
    several = pa.chunked_array([[[label] for label in labels]], pa.list_(pa.string()))

    with pytest.raises(DataError, match=r"reviews.csv: 2 texts are too few .* at least 10"):
        search(dataset(texts[:2], labels[:2]), tmp_path)
    with pytest.raises(DataError, match="every text has the label 'pos'"):
        search(dataset(texts, ["pos"] * 20), tmp_path)
    with pytest.raises(DataError, match="no label can be checked"):
        search(dataset(["the same text"] * 20, labels), tmp_path)
    with pytest.raises(DataError, match="several labels per text"):
        search(dataset(texts, labels).with_labels(several), tmp_path)


def test_finished_folds_are_kept_when_the_search_stops_and_deleted_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder = flipped(60, (5,)), tmp_path / "partial"
    expected = suspect_rows(search(data, tmp_path / "whole"), data)
    predict_fold, fitted = OutOfFoldModels.predict_fold, list[int]()

    def stop_at_4(self: OutOfFoldModels, number: int, _: object) -> pa.Table:
        if number == 4:
            raise KeyboardInterrupt
        return predict_fold(self, number)

    def count(self: OutOfFoldModels, number: int, _: object) -> pa.Table:
        fitted.append(number)
        return predict_fold(self, number)

    monkeypatch.setattr(OutOfFoldModels, "predict_fold", stop_at_4)
    with pytest.raises(KeyboardInterrupt):
        search(data, tmp_path)
    monkeypatch.setattr(OutOfFoldModels, "predict_fold", count)
    (folder / "part-00001.parquet").write_bytes(b"damaged")
    again = suspect_rows(search(data, tmp_path), data)

    assert fitted == [1, *range(4, 2 * FOLDS)]
    assert again == expected
    assert not folder.exists()


def test_finished_folds_of_other_data_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict_fold, fitted = OutOfFoldModels.predict_fold, list[int]()

    def stop_at_2(self: OutOfFoldModels, number: int, _: object) -> pa.Table:
        fitted.append(number)
        if number == 2:
            raise KeyboardInterrupt
        return predict_fold(self, number)

    monkeypatch.setattr(OutOfFoldModels, "predict_fold", stop_at_2)
    for data, seed in ((flipped(60, (5,)), 0), (flipped(60, (6,)), 0), (flipped(60, (6,)), 1)):
        with pytest.raises(KeyboardInterrupt):
            search(data, tmp_path, seed)

    assert fitted == [0, 1, 2] * 3


def test_a_label_among_many_improbable_ones_is_more_suspect_than_the_only_alternative() -> None:
    probabilities = np.array(
        [[0.05, 0.94, 0.005, 0.005], [0.05, 0.85, 0.05, 0.05], [0.97, 0.01, 0.01, 0.01]]
    )

    scores = module.suspect_scores(probabilities, np.zeros(3, np.int64))

    assert 1 > scores[1] > scores[0] > scores[2] == 0
    assert module.suspect_scores(np.eye(2), np.array([0, 1])).tolist() == [0, 0]
