import io

import pytest
from rich.console import Console

from lamatext.views.terminal_table import TerminalTable

COLUMNS = ("model", "accuracy", "minus lamatext", "95 % interval", "macro-F1", "size", "winner")
ROWS = [
    ("lamatext", "96.7 %", "", "", "0.924", "3.3 MB", "lamatext"),
    ("a model with a long name", "92.9 %", "−3.7", "−5.2 to −2.4", "0.748", "5.8 MB",
     "tie of lamatext, a model with a long name"),
]  # fmt: skip


def shown(width: int, columns: tuple[str, ...] = COLUMNS) -> list[str]:
    file = io.StringIO()
    rows = [row[: len(columns)] for row in ROWS]
    Console(file=file, width=width).print(TerminalTable(columns, rows, texts=1))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_table_that_fits_has_one_line_per_row() -> None:
    lines = shown(TerminalTable(COLUMNS, ROWS).width)

    assert len(lines) == 3
    assert lines[0].startswith("model                     accuracy  minus lamatext  95 % interval")
    assert lines[2].endswith("5.8 MB  tie of lamatext, a model with a long name")


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_table_shows_every_title_and_number_at_every_width(width: int) -> None:
    lines = shown(width)

    words = " ".join(lines).split()
    assert max(map(len, lines)) <= width
    assert "…" not in words
    for cell in (*COLUMNS, *ROWS[0], *ROWS[1]):
        assert set(cell.split()) <= set(words)
    assert any("−5.2 to −2.4" in line for line in lines)  # numbers are not wrapped


def test_titles_are_wrapped_before_columns_move_to_another_table() -> None:
    columns = COLUMNS[:6]

    lines = shown(70, columns)

    assert lines[0].split() == ["minus", "95", "%"]
    assert lines[1].split() == ["model", "accuracy", "lamatext", "interval", "macro-F1", "size"]
    assert "" not in lines


def test_the_last_columns_follow_in_a_table_with_the_same_names() -> None:
    lines = shown(50, COLUMNS[:6])

    gap = lines.index("")
    assert lines[0].split() == ["model", "accuracy", "minus", "lamatext"]
    assert lines[gap + 2].split() == ["model", "interval", "macro-F1", "size"]
    assert lines[gap + 3].split() == ["lamatext", "0.924", "3.3", "MB"]


def test_a_control_character_of_a_cell_is_visible() -> None:
    file = io.StringIO()

    Console(file=file, width=80).print(TerminalTable(("a", "b"), [("\x1b[31m", "1\n2")]))

    assert "␛[31m  1 2" in file.getvalue()
