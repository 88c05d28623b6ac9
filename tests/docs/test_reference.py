"""The generated reference page is current and complete."""

import re
from pathlib import Path

import pytest

from docs.make_reference import ENVIRONMENT, PAGE, make_reference
from lamatext.cli.main import COMMANDS
from lamatext.settings import setting_names

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == make_reference(), (
        "docs/reference.md is outdated. Run: python -m docs.make_reference"
    )


@pytest.mark.parametrize("name", setting_names())
def test_every_setting_has_a_meaning(name: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(name)}` \|(.*)\|$", make_reference(), re.MULTILINE)

    assert len(row.split(" | ")[-1].strip()) > 10


def test_every_option_has_a_meaning() -> None:
    section = make_reference().split("## Command line")[1].split("## Environment")[0]

    assert section.count("### lamatext ") == len(COMMANDS)
    for row in re.findall(r"^\| (`.*) \|$", section, re.MULTILINE):
        option, _, _, meaning = re.split(r" \| ", row)
        assert len(meaning) > 8, option
    assert "| `--validation` | text |" in section
    assert "| `--quiet`, `-q` | flag |" in section


def test_every_environment_variable_is_listed() -> None:
    files = [
        path for part in ("src", "paper", "benchmarks") for path in ROOT.glob(f"{part}/**/*.py")
    ]
    used = {name for path in files for name in re.findall(r"LAMATEXT_[A-Z_]+", path.read_text())}

    assert used == set(ENVIRONMENT)
