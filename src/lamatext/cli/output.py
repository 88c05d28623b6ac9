"""Terminal output of the commands: tables on stdout; progress bars and next commands on stderr."""

import shlex
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from lamatext.data.read_options import DEFAULT_MAX_BAD_ROWS, MAX_RECORD, ReadOptions
from lamatext.progress import Progress
from lamatext.views.formatting import one_line, terminal_text

MAX_WIDTH = 10_000  # columns if stdout is not a terminal


def out() -> Console:
    """Return a Rich console for output on stdout that wraps lines only on a terminal."""
    on_terminal = sys.stdout.isatty()
    width = None if on_terminal else MAX_WIDTH
    return Console(highlight=False, soft_wrap=not on_terminal, width=width)


def message(text: object) -> None:
    """Print a message to stderr; control characters in paths and labels become visible."""
    print(terminal_text(text), file=sys.stderr)


class ProgressDisplay(Progress):
    """Progress output on stderr: a live progress bar on a terminal, otherwise plain lines."""

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
        self._margin = ""

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
        """Replace the terminal's progress bar with a new one for the next stage."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(one_line(name), total=total, detail="")

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Advance the terminal's progress bar by ``steps`` and update its detail text."""
        if self._task is not None:
            self._bars.update(self._task, advance=steps, detail=one_line(detail))

    def section(self, title: str) -> None:
        """Print a heading to stderr; the notes that follow are indented."""
        self._console.print(
            f"{self._margin and chr(10)}{one_line(title)}", style="bold", markup=False
        )
        self._margin = "  "

    def note(self, text: str) -> None:
        """Print a line of text to stderr, above the terminal's progress bar."""
        line = Text(one_line(text))
        if self._console.is_terminal:
            self._console.print(Padding(line, (0, 0, 0, len(self._margin))))
        else:
            self._console.print(Text(self._margin) + line, soft_wrap=True)


class NoProgress(Progress):
    """Silent progress output, used with the ``--quiet`` option."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def progress(*, quiet: bool) -> ProgressDisplay | NoProgress:
    """Return a context manager for a command's progress output, silent if ``quiet`` is true."""
    return NoProgress() if quiet else ProgressDisplay()


def command(*arguments: object) -> str:
    """Format a ``lamatext`` command line, shell-quoted so that users can paste it."""
    return shlex.join(["lamatext", *map(str, arguments)])


def reading_options(options: ReadOptions) -> list[str]:
    """Return the options for reading data to include in the commands that the output suggests."""
    max_bad_rows = options.max_bad_rows
    pairs = [
        *(("--text-column", column) for column in options.text_columns),
        *(("--label-column", column) for column in options.label_columns),
        ("--label-separator", options.label_separator),
        ("--format", options.format),
        ("--encoding", options.encoding),
        ("--separator", options.separator),
        ("--max-record", None if options.max_record == MAX_RECORD else options.max_record / 1e6),
        ("--max-bad-rows", None if max_bad_rows in (None, DEFAULT_MAX_BAD_ROWS) else max_bad_rows),
    ]
    return [
        part
        for name, value in pairs
        if value is not None
        for part in (name, f"{value:g}" if isinstance(value, float) else value)
    ]


def section(title: str) -> None:
    """Print the heading of the results to stderr, as ``Progress.section`` does for its notes."""
    Console(stderr=True, highlight=False).print(f"\n{title}", style="bold")


def next_steps(*commands: str) -> None:
    """Print suggested next commands to stderr, so that the output on stdout stays clean."""
    console = Console(stderr=True, highlight=False)
    console.print("\nNext:", style="bold")
    for line in commands:
        console.print(f"  {one_line(line)}", markup=False, soft_wrap=True)
