"""Plain tables for the terminal, which fit terminals from 60 columns."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from lamatext.views.formatting import one_line

NAME_WIDTH = 12  # of the first column, whose longer names are wrapped if there is little room
CELL_WIDTH = 20  # of the other columns; longer cells are wrapped likewise
GAP = 2  # between two columns


class TerminalTable:
    """Plain terminal table: names in the first column, then numbers, then perhaps texts.

    If it is wider than the terminal, headers and long cells are wrapped; if that is not enough, the
    last columns follow in further tables that begin with the same names. Control characters become
    visible.

    Args:
        columns: the titles.
        rows: the cells of each row.
        texts: how many of the last columns are texts, which are aligned at the left like names.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 0
    ) -> None:
        self._first_text = len(columns) - texts
        self._lines = [[one_line(cell) for cell in row] for row in (columns, *rows)]
        self._widths = [max(map(cell_len, cells)) for cells in zip(*self._lines, strict=True)]

    @property
    def width(self) -> int:
        """Number of terminal columns that the table takes if nothing is wrapped."""
        return sum(self._widths) + GAP * (len(self._widths) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table for Rich as one table or as several, below each other."""
        least = self._least_widths(options.max_width)
        for number, places in enumerate(_groups(least, options.max_width)):
            if number:
                yield Text()
            yield self._part(places, least, options.max_width, console)

    def _part(
        self, places: Sequence[int], least: Sequence[int], max_width: int, console: Console
    ) -> Table:
        """Return the table of some columns, each as wide as the terminal permits."""
        spare = max_width - sum(least[place] for place in places) - GAP * (len(places) - 1)
        table = Table(box=None, pad_edge=False, padding=(0, 1))
        widths = []
        for place in places:
            more = max(min(self._widths[place] - least[place], spare), 0)
            spare -= more
            widths.append(least[place] + more)
        headers = [
            Text(self._lines[0][place]).wrap(console, width)
            for place, width in zip(places, widths, strict=True)
        ]
        height = max(map(len, headers))
        for place, width, header in zip(places, widths, headers, strict=True):
            title = Text("\n" * (height - len(header))).append_text(Text("\n").join(header))
            is_number = 0 < place < self._first_text
            justify: JustifyMethod = "right" if is_number else "left"
            table.add_column(title, justify=justify, width=width, overflow="fold")
        for line in self._lines[1:]:
            table.add_row(*(Text(line[place]) for place in places))
        return table

    def _least_widths(self, max_width: int) -> list[int]:
        """Return the width that each column of the terminal table needs if cells are wrapped."""
        widths = []
        for place, (header, *cells) in enumerate(zip(*self._lines, strict=True)):
            longest = max(map(cell_len, cells), default=0)
            word = max(map(cell_len, header.split()), default=0)
            if place == 0:
                widths.append(min(max(longest, cell_len(header)), NAME_WIDTH))
            else:
                most = max(max_width - widths[0] - GAP, 1)
                widths.append(min(max(min(longest, CELL_WIDTH), word), most))
        return widths


def _groups(widths: Sequence[int], max_width: int) -> list[list[int]]:
    """Divide the columns of a terminal table into as few tables as possible, of similar width."""

    def divided(limit: int) -> list[list[int]]:
        groups = [[0]]
        for place in range(1, len(widths)):
            taken = sum(widths[other] + GAP for other in groups[-1])
            if len(groups[-1]) > 1 and taken + widths[place] > limit:
                groups.append([0])
            groups[-1].append(place)
        return groups

    fewest = len(divided(max_width))
    return next(groups for limit in range(max_width + 1) if len(groups := divided(limit)) == fewest)
