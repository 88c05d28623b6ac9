"""Loading made-up files in the official formats."""

from pathlib import Path

import pytest

from lamatext.data import named_datasets
from paper.loading_cost import REAL_SIZES, loading_table, write_made_up
from paper.official_datasets import is_available, load_paper_dataset
from paper.records import Records


@pytest.mark.parametrize("name", REAL_SIZES)
def test_made_up_files_are_read_as_the_official_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(named_datasets.DATA_VARIABLE, str(tmp_path))
    write_made_up(tmp_path / name, name, [60, 20][: len(REAL_SIZES[name])])

    assert is_available(name)
    train, test = (load_paper_dataset(name, split) for split in ("train", "test"))

    assert len(train) + len(test) == (80 if len(REAL_SIZES[name]) == 2 else 60)
    assert len(set(train.require_labels().to_pylist())) > 1


def test_what_was_not_measured_has_a_dash(tmp_path: Path) -> None:
    assert "| yelp | review.json | – | – | – | – |" in loading_table(Records(tmp_path))
