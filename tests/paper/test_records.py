"""Records: never lost, never measured twice unless forced."""

import json
from pathlib import Path

import pytest

from lamatext.errors import DataError
from paper.records import Record, Records


def record(value: float = 0.5, **fields: object) -> Record:
    return Record("accuracy", "r8", "avg", "accuracy", value, seed=0, **fields)  # type: ignore[arg-type]


def test_a_record_is_read_back_unchanged(tmp_path: Path) -> None:
    Records(tmp_path).add([record(config={"model.heads": 5})])

    assert Records(tmp_path).of("accuracy") == [record(config={"model.heads": 5})]


def test_an_existing_record_stays_unchanged(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add([record(0.5)])

    records.add([record(0.9)])

    assert [found.value for found in Records(tmp_path).of("accuracy")] == [0.5]


def test_records_with_different_settings_are_different_records(tmp_path: Path) -> None:
    records = Records(tmp_path)

    records.add([record(), record(config={"model.heads": 5})])

    assert len(Records(tmp_path).of("accuracy")) == 2
    assert records.has(record(config={"model.heads": 5}).key)
    assert not records.has(record(config={"model.heads": 6}).key)


def test_each_experiment_is_one_json_file(tmp_path: Path) -> None:
    Records(tmp_path).add([record(), Record("datasets", "r8", "", "train", 1.0)])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["accuracy.json", "datasets.json"]
    (entry,) = json.loads((tmp_path / "datasets.json").read_text())
    assert {"experiment", "dataset", "versions", "commit", "config", "paper"} <= set(entry)


def test_a_file_without_records_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "accuracy.json").write_text('[{"who": 1}]')

    with pytest.raises(DataError, match=r"accuracy\.json: not a list of records"):
        Records(tmp_path).of("accuracy")


def test_a_list_is_not_read_as_a_number() -> None:
    with pytest.raises(DataError, match="is a list, not a number"):
        _ = Record("heads", "r8", "avg", "validation_curve", [0.5]).number


def test_force_measures_an_existing_record_once_more(tmp_path: Path) -> None:
    Records(tmp_path).add([record(0.5)])
    forced = Records(tmp_path, force=True)
    assert not forced.has(record().key)

    forced.add([record(0.9)])

    assert forced.has(record().key)
    assert [found.value for found in Records(tmp_path).of("accuracy")] == [0.9]
