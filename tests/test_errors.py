import sys
from pathlib import Path

import pytest

from lamatext.errors import MissingExtraError, require


def test_a_missing_package_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(MissingExtraError, match=r"flying needs the package wings, .*\[sky\]'"):
        require("wings.left", extra="sky", purpose="flying")


def test_a_package_that_is_there_is_imported() -> None:
    assert require("json", extra="none", purpose="reading").loads("1") == 1


def test_a_package_broken_within_keeps_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brokenwithin.py").write_text("import notthere")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(ModuleNotFoundError, match="notthere") as caught:
        require("brokenwithin", extra="none", purpose="nothing")

    assert not isinstance(caught.value, MissingExtraError)
