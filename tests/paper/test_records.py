"""Records: written whole, never computed or written twice."""

import json
from pathlib import Path

import pytest

from lamatext.errors import DataError
from paper.records import Record, Results, blank


def record(value: float = 0.5, **fields: object) -> Record:
    return Record("accuracy", "r8", "avg", "accuracy", value, seed=0, **fields)  # type: ignore[arg-type]


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    Results(tmp_path).add([record(config={"model.heads": 5})])

    assert Results(tmp_path).of("accuracy") == [record(config={"model.heads": 5})]


def test_a_record_that_exists_stays_as_it_was(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add([record(0.5)])

    results.add([record(0.9)])

    assert [found.value for found in Results(tmp_path).of("accuracy")] == [0.5]


def test_other_settings_are_another_record(tmp_path: Path) -> None:
    results = Results(tmp_path)

    results.add([record(), record(config={"model.heads": 5})])

    assert len(Results(tmp_path).of("accuracy")) == 2
    assert results.has(record(config={"model.heads": 5}).key)
    assert not results.has(record(config={"model.heads": 6}).key)


def test_each_experiment_has_a_file_of_plain_json(tmp_path: Path) -> None:
    Results(tmp_path).add([record(), blank("datasets", "r8", "", "train")])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["accuracy.json", "datasets.json"]
    (entry,) = json.loads((tmp_path / "datasets.json").read_text())
    assert {"experiment", "dataset", "versions", "commit", "config", "paper"} <= set(entry)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "accuracy.json").write_text('[{"who": 1}]')

    with pytest.raises(DataError, match=r"accuracy\.json: not a list of records"):
        Results(tmp_path).of("accuracy")


def test_a_list_is_not_read_as_a_number() -> None:
    with pytest.raises(DataError, match="is no number"):
        _ = Record("heads", "r8", "avg", "valid_curve", [0.5]).number
