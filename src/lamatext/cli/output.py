"""Terminal output of the commands: tables on stdout; progress bars and next commands on stderr."""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from lamatext.data.read_options import DEFAULT_MAX_BAD_ROWS, MAX_RECORD, ReadOptions
from lamatext.progress import SILENT, Progress
from lamatext.views.formatting import one_line, terminal_text
from lamatext.views.progress_display import ProgressDisplay

MAX_WIDTH = 10_000  # columns if stdout is not a terminal
YOUR_TEXT = "your text"  # placeholder in suggested commands


def out() -> Console:
    """Return a Rich console for output to stdout, which wraps lines only on a terminal."""
    on_terminal = sys.stdout.isatty()
    width = None if on_terminal else MAX_WIDTH
    return Console(highlight=False, soft_wrap=not on_terminal, width=width)


def message(text: object) -> None:
    """Print a message to stderr, making its control characters visible.

    On a terminal, lines are wrapped at words, except for indented ones, which are commands.
    """
    console, lines = Console(stderr=True), list[str]()
    for line in terminal_text(text).split("\n"):
        if console.is_terminal and not line.startswith("  "):
            lines += [part.plain.rstrip() for part in Text(line).wrap(console, console.width)]
        else:
            lines.append(line)
    print("\n".join(lines), file=sys.stderr)  # Rich keeps what is printed above a progress bar


def progress(*, quiet: bool) -> Progress:
    """Return a progress display for a command's output, which is silent if ``quiet`` is true."""
    return SILENT if quiet else ProgressDisplay()


def command(*arguments: object) -> str:
    """Quote a ``lamatext`` command for the shell, so that users can paste it from the output."""
    return shlex.join(["lamatext", *map(str, arguments)])


def repeated(*without: str, options: Iterable[str] = ()) -> str:
    """Return this process's command line for pasting, without some options and with others."""
    return command(*(part for part in sys.argv[1:] if part not in without), *options)


def reading_options(options: ReadOptions) -> list[str]:
    """Convert read options back to command-line options, to print them in suggested commands."""
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
        ("--group-column", options.group_column),
        ("--time-column", options.time_column),
    ]
    parts = [
        part
        for name, value in pairs
        if value is not None
        for part in (name, f"{value:g}" if isinstance(value, float) else value)
    ]
    return [*parts, *(["--merge-labels"] if options.merge_labels else [])]


@contextmanager
def explain_interrupt(kept: Callable[[], str]) -> Iterator[None]:
    """Handle Ctrl-C by printing what a command has saved and how to run it again."""
    try:
        yield
    except KeyboardInterrupt:
        message(f"\nlamatext: interrupted; {kept()}. Run it again with:\n  {repeated()}")
        raise typer.Exit(130) from None


def unused_name(name: str) -> str:
    """Return an output file name that does not exist yet, for a suggested next command."""
    path = Path(name)
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 1000))
    return str(next(one for one in (path, *others) if not one.exists()))


def section(title: str) -> None:
    """Print the heading of a command's output to stderr, in the style of the progress headings."""
    Console(stderr=True, highlight=False).print(f"\n{title}", style="bold")


def next_steps(*commands: str) -> None:
    """Print suggested next commands to stderr, so that the output on stdout stays clean."""
    console = Console(stderr=True, highlight=False)
    console.print("\nNext:", style="bold")
    for line in commands:
        console.print(f"  {one_line(line)}", markup=False, soft_wrap=True)
