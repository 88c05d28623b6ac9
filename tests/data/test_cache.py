import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import save_file

from lamatext.data import cache
from lamatext.data.cache import Arrays, cache_folder, cached, empty_cache, fingerprint


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def one() -> Arrays:
    return {"a": np.arange(5)}


def never() -> Arrays:
    raise AssertionError("made again")


def test_a_cached_result_is_not_computed_again() -> None:
    first, again = cached("thing", "key", one), cached("thing", "key", never)

    np.testing.assert_array_equal(first["a"], again["a"])


def test_a_damaged_cache_entry_is_computed_again(folder: Path) -> None:
    cached("thing", "key", one)
    (folder / "thing-key.safetensors").write_bytes(b"broken")

    assert cached("thing", "key", one)["a"].shape == (5,)
    cached("thing", "key", never)


@pytest.mark.parametrize("place", [-1, 9, 20, 30])
def test_a_cache_entry_with_one_changed_bit_is_computed_again(place: int, folder: Path) -> None:
    cached("thing", "key", one)
    path = folder / "thing-key.safetensors"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)

    np.testing.assert_array_equal(cached("thing", "key", one)["a"], np.arange(5))
    cached("thing", "key", never)


@pytest.mark.parametrize("arrays", [{"b": np.arange(5)}, {"a": np.arange(6)}])
def test_a_cache_entry_without_a_checksum_is_computed_again(arrays: Arrays, folder: Path) -> None:
    folder.mkdir()
    save_file(arrays, folder / "thing-key.safetensors")

    assert cached("thing", "key", one)["a"].shape == (5,)


def test_a_cache_entry_copied_over_another_is_computed_again(folder: Path) -> None:
    cached("thing", "key", one)
    cached("thing", "other", lambda: {"a": np.zeros(5)})
    (folder / "thing-other.safetensors").replace(folder / "thing-key.safetensors")

    np.testing.assert_array_equal(cached("thing", "key", one)["a"], np.arange(5))


def test_a_cache_folder_that_cannot_be_written_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAMATEXT_CACHE", str(tmp_path / "file" / "kept"))

    assert cached("thing", "key", one)["a"].shape == (5,)


def test_the_least_recently_used_entries_are_deleted_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [fingerprint(number) for number in range(5)]
    for number, key in enumerate(keys[:4]):
        cached("thing", key, one)
        os.utime(folder / f"thing-{key}.safetensors", (number, number))
    size = (folder / f"thing-{keys[0]}.safetensors").stat().st_size
    monkeypatch.setattr(cache, "MAX_BYTES", 3 * size)

    cached("thing", keys[0], never)  # used just now
    cached("thing", keys[4], one)

    kept = {path.name for path in folder.iterdir()}
    assert kept == {f"thing-{keys[number]}.safetensors" for number in (0, 3, 4)}


def test_a_file_that_is_no_cache_entry_is_never_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.safetensors"
    model.write_bytes(b"of somebody else")
    monkeypatch.setattr(cache, "MAX_BYTES", 1)

    for number in range(3):
        cached("thing", fingerprint(number), one)

    assert model.is_file()


def test_the_cache_folder_can_be_set_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMATEXT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/lamatext")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/lamatext")


def test_a_fingerprint_does_not_depend_on_chunks() -> None:
    whole = pa.chunked_array([["ab", "c", ""]])
    cut = pa.chunked_array([["ab"], [], ["c", ""]], pa.string())
    sliced = pa.chunked_array([pa.array(["x", "ab", "c", "", "y"]).slice(1, 3)])

    assert fingerprint(whole) == fingerprint(cut) == fingerprint(sliced)
    assert fingerprint(whole) != fingerprint(pa.chunked_array([["a", "bc", ""]]))
    assert fingerprint(whole) != fingerprint(pa.chunked_array([["ab", "c"]]))


def test_a_fingerprint_depends_on_arrays_and_settings() -> None:
    parts = [1, "a", (2, None), np.arange(3)]

    assert fingerprint(*parts) == fingerprint(*parts)
    assert fingerprint(*parts) != fingerprint(*parts[:-1], np.arange(4))
    assert fingerprint("a", "b") != fingerprint("ab")


def test_the_cache_is_empty_inside_the_block_and_restored_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAMATEXT_CACHE", "kept")

    with empty_cache():
        inside = Path(os.environ["LAMATEXT_CACHE"])
        assert not list(inside.iterdir())

    assert os.environ["LAMATEXT_CACHE"] == "kept"
    assert not inside.exists()
