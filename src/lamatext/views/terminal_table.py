"""Plain tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from lamatext.views.formatting import one_line

MIN_NAME_WIDTH = 12  # of the first column, whose longer names are wrapped
GAP = 2  # between two columns


def terminal_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, max_width: int | None = None
) -> Table:
    """Create a plain terminal table with left-aligned names and right-aligned numbers.

    Control characters in names become visible. If ``max_width`` is given, the last columns that do
    not fit next to the others are left out.
    """
    lines = [[one_line(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    name_width, shown = min(widths[0], MIN_NAME_WIDTH), len(columns)
    if max_width is not None:
        while shown > 2 and name_width + sum(w + GAP for w in widths[1:shown]) > max_width:
            shown -= 1
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for place, column in enumerate(lines[0][:shown]):
        justify: JustifyMethod = "left" if place == 0 else "right"
        width = name_width if place == 0 else None
        table.add_column(Text(column), justify=justify, no_wrap=place > 0, min_width=width)
    for line in lines[1:]:
        table.add_row(*map(Text, line[:shown]))
    return table
