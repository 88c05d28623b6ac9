from pathlib import Path

import pytest

from lamatext.atomic_write import replace_atomically, write_text
from lamatext.errors import DataError


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"

    with replace_atomically(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()

    assert path.read_text() == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with replace_atomically(path) as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_lone_surrogates_are_written_as_question_marks(tmp_path: Path) -> None:
    write_text(tmp_path / "a.html", "half \ud800 pair")

    assert (tmp_path / "a.html").read_text() == "half ? pair"


@pytest.mark.parametrize("name", ["file/a.txt", "folder"])
def test_an_error_names_the_file_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    with pytest.raises(DataError, match=f"{name}: cannot be written: "):
        write_text(tmp_path / name, "text")
