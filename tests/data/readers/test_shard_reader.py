"""Shards: many files that a pattern or a folder names, read as one table."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import has_test_split, load_dataset
from lamatext.data.streaming import source_files
from lamatext.errors import DataError


def shard(
    path: Path, rows: list[tuple[str, str]], columns: tuple[str, str] = ("text", "label")
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {name: pa.array([r[i] for r in rows], pa.string()) for i, name in enumerate(columns)}
    )
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


def read(source: Path | str, split: str = "train", **options: float) -> list[tuple[str, str]]:
    dataset = load_dataset(str(source), ReadOptions(**options), split=split)  # type: ignore[arg-type]
    assert dataset.labels is not None
    return list(zip(dataset.texts.to_pylist(), dataset.labels.to_pylist(), strict=True))


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_pattern_and_a_folder_read_all_shards_in_order(tmp_path: Path, suffix: str) -> None:
    shard(tmp_path / f"b.{suffix}", [("second", "x")])
    shard(tmp_path / f"a.{suffix}", [("first", "y"), ("one", "x")])

    expected = [("first", "y"), ("one", "x"), ("second", "x")]
    assert read(f"{tmp_path}/*.{suffix}") == expected
    assert read(tmp_path) == expected
    assert not has_test_split(str(tmp_path))


def test_short_shards_have_no_header_if_the_first_has_none(tmp_path: Path) -> None:
    rows = [(f"I saw film number {number}", "pos" if number % 2 else "neg") for number in range(20)]
    for name, count in (("1.csv", 20), ("2.csv", 2)):
        (tmp_path / name).write_text("".join(f"{text},{label}\n" for text, label in rows[:count]))

    assert read(f"{tmp_path}/*.csv") == rows + rows[:2]


def test_a_short_shard_has_the_separator_of_the_first(tmp_path: Path) -> None:
    rows = [(f"film {number}; seen", "pos" if number % 2 else "neg") for number in range(20)]
    for name, count in (("1.csv", 20), ("2.csv", 1)):
        (tmp_path / name).write_text("".join(f'"{text}";{label}\n' for text, label in rows[:count]))
    with (tmp_path / "2.csv").open("a") as file:
        file.write("one, two;neg\n")

    assert read(f"{tmp_path}/*.csv") == [*rows, *rows[:1], ("one, two", "neg")]


def test_a_shard_with_a_header_is_refused_if_the_first_has_none(tmp_path: Path) -> None:
    rows = "".join(f"I saw film number {number},{'pn'[number % 2]}\n" for number in range(20))
    (tmp_path / "1.csv").write_text(rows)
    (tmp_path / "2.csv").write_text("text,label\na film,p\n")

    with pytest.raises(DataError, match=r"2\.csv: the shard has no column 'column 1'"):
        read(f"{tmp_path}/*.csv")


def test_shards_named_after_splits(tmp_path: Path) -> None:
    shard(tmp_path / "train-0.parquet", [("a", "x")])
    shard(tmp_path / "test-0.parquet", [("b", "y")])

    assert read(tmp_path) == [("a", "x")]
    assert read(tmp_path, "test") == [("b", "y")]
    assert has_test_split(str(tmp_path))


@pytest.mark.parametrize("split", ["test", "validation", "valid", "val", "dev"])
def test_shards_of_other_splits_are_no_training_data(split: str, tmp_path: Path) -> None:
    shard(tmp_path / "part-0.parquet", [("a", "x")])
    shard(tmp_path / f"{split}-0.parquet", [("b", "y")])

    assert read(tmp_path) == [("a", "x")]


def test_a_folder_of_folders_stays_one_label_per_folder(tmp_path: Path) -> None:
    shard(tmp_path / "pos" / "a.jsonl", [("good", "x")])

    assert [label for _, label in read(tmp_path)] == ["pos"]


def test_shards_with_their_columns_in_another_order(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", [("one", "x")])
    shard(tmp_path / "b.parquet", [("y", "two")], ("label", "text"))

    assert read(tmp_path) == [("one", "x"), ("two", "y")]


def test_a_shard_with_other_columns_is_named(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", [("one", "x")])
    shard(tmp_path / "b.parquet", [("two", "y")], ("text", "topic"))

    with pytest.raises(DataError, match=r"b\.parquet: the shard has no column 'label', unlike .*a"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_an_empty_shard_is_skipped_with_a_note(tmp_path: Path, suffix: str) -> None:
    shard(tmp_path / f"a.{suffix}", [])
    shard(tmp_path / f"b.{suffix}", [("two", "y")])

    dataset = load_dataset(str(tmp_path))

    assert len(dataset) == 1
    assert f"a.{suffix}: an empty shard, skipped" in dataset.notes[1]


def test_only_empty_shards_are_an_error(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", [])

    with pytest.raises(DataError, match="no rows in 1 shard\\."):
        read(tmp_path)


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\*\.parquet: no file matches this pattern"):
        read(f"{tmp_path}/*.parquet")


def test_bad_rows_are_named_with_their_shard(tmp_path: Path) -> None:
    shard(tmp_path / "a.jsonl", [(f"text {i}", "x") for i in range(9)])
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("{broken\n")

    dataset = load_dataset(str(tmp_path), ReadOptions(max_bad_rows=0.5))

    assert len(dataset) == 9
    assert dataset.notes[-1].endswith("a.jsonl: expected a JSON object (line 10)")


def test_the_layout_of_shards_is_that_of_the_first(tmp_path: Path) -> None:
    for number in range(2):
        content = "text;label\nGrüße;a\nschön;b\n".encode("cp1252")
        (tmp_path / f"{number}.csv").write_bytes(content)

    dataset = load_dataset(str(tmp_path / "*.csv"))

    assert dataset.texts.to_pylist() == ["Grüße", "schön"] * 2
    assert (dataset.layout.separator, dataset.layout.format) == (";", "csv")


def test_a_folder_with_tables_of_several_kinds_is_refused(tmp_path: Path) -> None:
    shard(tmp_path / "b.jsonl", [("one", "x")])
    (tmp_path / "a.csv").write_text("text,label\ntwo,y\n")

    for read_folder in (load_dataset, source_files):
        with pytest.raises(
            DataError, match=r"files of several kinds: b\.jsonl; a\.csv\. Name one of its files"
        ):
            read_folder(str(tmp_path))


def test_files_of_other_splits_and_facts_in_json_are_not_of_another_kind(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", [("one", "x")])
    (tmp_path / "test.csv").write_text("text,label\ntwo,y\n")
    (tmp_path / "dataset_info.json").write_text("{}")

    dataset = load_dataset(str(tmp_path))

    assert dataset.texts.to_pylist() == ["one"]
    assert dataset.notes[0] == (
        "read 1 file of the folder: a.parquet; not read: dataset_info.json, test.csv"
    )


def test_the_shards_of_a_folder_are_listed_up_to_five(tmp_path: Path) -> None:
    for number in range(7):
        shard(tmp_path / f"{number}.jsonl", [(f"text {number}", "x")])

    assert load_dataset(str(tmp_path)).notes[0] == (
        "read 7 files of the folder: 0.jsonl, 1.jsonl, 2.jsonl, 3.jsonl, 4.jsonl and 2 more"
    )
