from pathlib import Path

import pytest

from lamatext.atomic_write import open_text, replacing, write_text
from lamatext.errors import DataError


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"

    with replacing(path) as unfinished:
        unfinished.write_text("new")
        assert not path.exists()

    assert path.read_text() == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with open_text(path) as file:
            file.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_text_is_written_bit_by_bit(tmp_path: Path) -> None:
    with open_text(tmp_path / "a.txt") as file:
        file.write("a\n")
        file.write("ü\n")

    assert (tmp_path / "a.txt").read_bytes() == "a\nü\n".encode()


def test_lone_surrogates_do_not_stop_a_page(tmp_path: Path) -> None:
    write_text(tmp_path / "a.html", "half \ud800 pair")

    assert (tmp_path / "a.html").read_text() == "half ? pair"


@pytest.mark.parametrize("name", ["file/a.txt", "folder"])
def test_what_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    with pytest.raises(DataError, match=f"{name}: cannot be written: "):
        write_text(tmp_path / name, "text")
