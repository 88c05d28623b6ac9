"""What a person sees: progress on stderr, tables on stdout; plain off a terminal."""

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from lamatext.progress import Progress

WIDE = 10_000  # columns where there is no terminal to fit into


def out() -> Console:
    """Where results go; off a terminal lines are as long as they need to be."""
    on_terminal = sys.stdout.isatty()
    width = None if on_terminal else WIDE
    return Console(highlight=False, soft_wrap=not on_terminal, width=width)


class Display(Progress):
    """Live bars on a terminal; off it, one line for each note."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def stage(self, name: str, total: int | None = None) -> None:
        """Show the new stage in place of the last."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=total, detail="")

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Move the bar on."""
        if self._task is not None:
            self._bars.update(self._task, advance=steps, detail=detail)

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(text, markup=False, soft_wrap=True)


class Quiet(Progress):
    """Nothing at all, with ``Display``'s shape."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def progress(*, quiet: bool) -> Display | Quiet:
    """What long work reports to."""
    return Quiet() if quiet else Display()


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A small table: the first column is a name, the others are figures; nothing is markup."""
    made = Table(box=None, pad_edge=False, padding=(0, 2))
    for place, column in enumerate(columns):
        made.add_column(Text(column), justify="left" if place == 0 else "right", no_wrap=place > 0)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def next_steps(*commands: str) -> None:
    """Name the next useful commands, on stderr so that a pipe stays clean."""
    console = Console(stderr=True, highlight=False)
    console.print("\nNext:", style="bold")
    for command in commands:
        console.print(f"  {command}", markup=False, soft_wrap=True)
