import errno
import os
import re
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from lamatext.atomic_write import (
    is_unfinished,
    replace_atomically,
    unfinished_until_end,
    write_text,
)
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


def killed_writer(path: Path) -> None:
    """Run a process that is killed while it writes ``path``."""
    code = (
        "import os, pathlib, signal, sys\n"
        "from lamatext.atomic_write import replace_atomically\n"
        "with replace_atomically(pathlib.Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)


def test_the_next_write_deletes_what_a_killed_process_has_left(tmp_path: Path) -> None:
    killed_writer(tmp_path / "p.csv")
    assert len(list(tmp_path.iterdir())) == 1

    write_text(tmp_path / "other.csv", "text")

    assert [path.name for path in tmp_path.iterdir()] == ["other.csv"]


def test_files_of_running_processes_and_other_machines_are_kept(tmp_path: Path) -> None:
    with replace_atomically(tmp_path / "b.csv") as temporary:
        temporary.write_text("first")
        host = temporary.name.split(".")[-2].partition("-")[0]
    kept = [f".a.csv.{host}-{os.getppid()}.lamatext", ".a.csv.00000000-999999999.lamatext"]
    kept += [".a.csv.1234", f"a.csv.{host}-999999999.lamatext"]
    for name in kept:
        (tmp_path / name).write_text("not ours")
    (tmp_path / f".a.csv.{host}-999999999.lamatext").write_text("of a dead process")

    write_text(tmp_path / "b.csv", "text")

    assert {path.name for path in tmp_path.iterdir()} == {*kept, "b.csv"}


def test_the_target_of_a_symbolic_link_is_replaced_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("there/old.txt", "there/new.txt"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(name)

        write_text(tmp_path / "link", "text")

        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / name).read_text() == "text"


def test_a_loop_of_symbolic_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(DataError, match=r"a: cannot be written: .*symbolic links"):
        write_text(tmp_path / "a", "text")


def test_a_fifo_is_written_not_replaced(tmp_path: Path) -> None:
    fifo, lines = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: lines.append(fifo.read_text()), daemon=True)
    reader.start()

    write_text(fifo, "through the pipe")

    assert fifo.is_fifo()
    reader.join(10)
    assert lines == ["through the pipe"]


def write_one_of_two(page: Path, numbers: Path, how: str = "os.kill(os.getpid(), 9)") -> None:
    """Run a process that is killed between its two files."""
    code = (
        "import os, pathlib, sys\n"
        "from lamatext.atomic_write import unfinished_until_end, write_text\n"
        "page, numbers = map(pathlib.Path, sys.argv[1:])\n"
        "with unfinished_until_end(page, numbers):\n"
        "    write_text(page, 'page')\n"
        f"    {how}\n"
        "    write_text(numbers, 'numbers')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(page), str(numbers)], check=False)


def test_a_file_is_unfinished_if_its_process_was_killed_before_the_next(tmp_path: Path) -> None:
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    write_one_of_two(page, numbers)
    assert (page.is_file(), numbers.is_file()) == (True, False)
    assert is_unfinished(page)

    with unfinished_until_end(page, numbers):
        write_text(page, "page")
        write_text(numbers, "numbers")

    assert not is_unfinished(page)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers.json", "page.html"]


def test_a_file_stays_unfinished_if_the_repetition_is_killed_too(tmp_path: Path) -> None:
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    write_one_of_two(page, numbers)

    with unfinished_until_end(page), replace_atomically(page) as temporary:
        temporary.write_text("half")
        assert is_unfinished(page)
    write_one_of_two(page, numbers)

    assert is_unfinished(page)


@pytest.mark.parametrize("change", ["replaced", "of the user", "of a running process"])
def test_no_other_file_is_taken_for_unfinished(change: str, tmp_path: Path) -> None:
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    write_one_of_two(page, numbers)
    (mark,) = (path for path in tmp_path.iterdir() if path != page)
    if change == "of a running process":
        mark.rename(re.sub(r"-\d+\.", f"-{os.getppid()}.", str(mark)))
    if change == "replaced":
        page.unlink()
        page.write_text("page")
    numbers.write_text("numbers")

    assert not is_unfinished(numbers if change == "of the user" else page)


def test_files_are_written_on_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)

    with unfinished_until_end(tmp_path / "a.txt"):
        write_text(tmp_path / "a.txt", "text")

    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "private.csv"
    path.write_text("old")
    path.chmod(0o600)

    with replace_atomically(path) as temporary:
        temporary.write_text("new")
        assert temporary.stat().st_mode & 0o777 == 0o600

    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_may_not_be_read_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_text("old")
    path.chmod(0o200)

    with replace_atomically(path) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600  # some writers read what they wrote

    assert path.stat().st_mode & 0o777 == 0o200


@pytest.mark.parametrize("folder", ["out", "."])
def test_a_missing_input_is_not_blamed_on_the_output(folder: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    missing = tmp_path / "in" / "data.csv"

    with (
        pytest.raises(DataError, match=re.escape(f"{missing}: No such file")),
        replace_atomically(tmp_path / folder / "a.csv"),
    ):
        missing.read_text()


@pytest.mark.parametrize(("code", "is_kept"), [(errno.ENOSPC, True), (errno.EINVAL, False)])
def test_a_file_that_does_not_reach_the_disk_replaces_nothing(
    code: int, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(DataError, match="cannot be written") if is_kept else nullcontext():
        write_text(path, "new")

    assert path.read_text() == ("old" if is_kept else "new")
    assert list(tmp_path.iterdir()) == [path]


def test_threads_may_write_the_same_file(tmp_path: Path) -> None:
    path, errors = tmp_path / "a.txt", []

    def write() -> None:
        try:
            for _ in range(50):
                write_text(path, "text")
        except DataError as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["r" * 251 + ".csv", "é" * 125 + ".csv"])
def test_a_name_may_be_as_long_as_the_system_allows(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    try:
        path.touch()
    except OSError:
        pytest.skip("the file system allows shorter names only")

    with unfinished_until_end(path):
        write_text(path, "whole")
        assert is_unfinished(path)

    assert path.read_text() == "whole"
    assert not is_unfinished(path)
    assert list(tmp_path.iterdir()) == [path]
