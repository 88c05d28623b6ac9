"""Plain tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text


def terminal_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Create a plain table for the terminal: left-aligned names and right-aligned numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for place, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if place == 0 else "right", no_wrap=place > 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
