from pathlib import Path

import pytest

from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import has_test_split, load_dataset
from lamatext.errors import DataError


def make(root: Path, files: dict[str, str | bytes]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(root)


def rows(source: str, split: str = "train") -> list[tuple[str, str]]:
    dataset = load_dataset(source, split=split)
    assert dataset.labels is not None
    return list(zip(dataset.texts.to_pylist(), dataset.labels.to_pylist(), strict=True))


def test_one_folder_per_label(tmp_path: Path) -> None:
    root = make(tmp_path, {"pos/0.txt": "good\nfilm", "neg/0.txt": "bad", "neg/.hidden": "x"})

    assert rows(root) == [("bad", "neg"), ("good\nfilm", "pos")]
    assert not has_test_split(root)


def test_the_folder_layout_of_aclimdb(tmp_path: Path) -> None:
    root = make(
        tmp_path,
        {
            "train/pos/0_9.txt": "good",
            "train/neg/0_1.txt": "bad",
            "train/unsup/0_0.txt": "who knows",
            "train/urls_pos.txt": "http://",
            "test/pos/0_8.txt": "fine",
            "test/neg/0_2.txt": "poor",
        },
    )

    assert rows(root) == [("bad", "neg"), ("good", "pos")]
    assert rows(root, "test") == [("poor", "neg"), ("fine", "pos")]
    assert has_test_split(root)


def test_one_file_per_split(tmp_path: Path) -> None:
    root = make(
        tmp_path, {"train.csv": "text,label\na,1\n", "test.jsonl": '{"text": "b", "label": 0}'}
    )

    assert rows(root) == [("a", "1")]
    assert rows(root, "test") == [("b", "0")]
    assert has_test_split(root)


def test_an_encoding_error_names_the_file_in_the_folder(tmp_path: Path) -> None:
    root = make(tmp_path, {"pos/0.txt": "é\n".encode() + b"\xe9"})

    with pytest.raises(DataError, match=r"pos/0.txt:2: not UTF-8"):
        load_dataset(root)


def test_the_error_for_an_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"nothing to read. Expected one folder of text files per label"
    ):
        load_dataset(str(tmp_path))


def test_the_error_for_a_folder_of_other_files_names_one_of_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Name one of its files: .*reviews.csv"):
        load_dataset(make(tmp_path, {"reviews.csv": "text,label\na,1\n"}))


def test_a_missing_split_of_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder has no test split"):
        load_dataset(make(tmp_path, {"pos/0.txt": "good"}), split="test")


def test_a_file_has_no_test_split(tmp_path: Path) -> None:
    root = make(tmp_path, {"reviews.csv": "text,label\na,1\n"})

    with pytest.raises(DataError, match=r"a file has no test split. Name the file"):
        load_dataset(f"{root}/reviews.csv", split="test")


def test_an_unknown_encoding_is_an_error_for_label_folders(tmp_path: Path) -> None:
    for label in ("pos", "neg"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text("a text")

    with pytest.raises(DataError, match="--encoding foo: not a known text encoding"):
        load_dataset(str(tmp_path), ReadOptions(encoding="foo"))
