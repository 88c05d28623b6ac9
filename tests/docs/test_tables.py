"""The generated tables of the documentation are current."""

from pathlib import Path

import pytest

from docs.make_tables import PAGES, fill_tables, parts_table


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_the_tables_are_current(path: Path) -> None:
    page = path.read_text(encoding="utf-8")

    assert fill_tables(page) == page, "Outdated tables. Run: python -m docs.make_tables"


def test_the_parts_of_a_step_are_added_up() -> None:
    parts = {"parts_before": {"a": 1.0, "b": 2.5}, "parts_now": {"a": 0.5, "b": 1.0}}

    last = parts_table({"step, r8": parts, "step, imdb": parts}).splitlines()[-1]

    assert last == "| total | 3.5 | 1.5 | 3.5 | 1.5 |"
