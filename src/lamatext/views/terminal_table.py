"""Plain tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from lamatext.views.formatting import one_line


def terminal_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Create a plain table for the terminal: left-aligned names and right-aligned numbers.

    Control characters in names become visible.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for place, column in enumerate(columns):
        justify: JustifyMethod = "left" if place == 0 else "right"
        table.add_column(Text(one_line(column)), justify=justify, no_wrap=place > 0)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table
