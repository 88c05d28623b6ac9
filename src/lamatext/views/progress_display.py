"""Progress bars: in the terminal for commands and ``fit``, in notebooks for ``fit``."""

import sys
import time
from importlib import import_module
from typing import Any, Self

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

from lamatext.progress import SILENT, Progress
from lamatext.views.formatting import one_line

UPDATE_SECONDS = 0.2  # between two updates of a notebook's progress bar
FIRST_LINE_SECONDS = 20.0  # before the time left is first printed if there is no terminal


def fit_progress(verbose: bool | None) -> Progress:
    """Return the progress display for ``fit``, which is shown only in notebooks by default."""
    if verbose is False or (verbose is None and not _in_notebook()):
        return SILENT
    return NotebookProgress() if _in_notebook() else ProgressDisplay()


class ProgressDisplay(Progress):
    """Progress display on stderr: a live bar on a terminal, otherwise plain lines."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._margin = ""
        self._left = ""
        self._started, self._next_line = time.monotonic(), FIRST_LINE_SECONDS

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def stage(self, name: str, total: int | None = None) -> None:
        """Replace the progress bar in the terminal with a new bar for the next stage."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(one_line(name), total=total, detail="", left=self._left)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Advance the progress bar in the terminal and update its detail text."""
        if self._task is not None:
            self._bars.update(self._task, advance=steps, detail=one_line(detail))

    def section(self, title: str) -> None:
        """Print a heading to stderr and indent the progress notes below it."""
        print_section(self._console, title, is_first=not self._margin)
        self._margin = "  "

    def note(self, text: str) -> None:
        """Print a line of text to stderr above the progress bar."""
        print_note(self._console, text, self._margin)

    def time_left(self, seconds: float) -> None:
        """Show the time left next to the progress bar, or print it at growing intervals."""
        self._left = format_time_left(seconds)
        if self._console.is_terminal:
            if self._task is not None:
                self._bars.update(self._task, left=self._left)
            return
        elapsed = time.monotonic() - self._started
        if elapsed >= self._next_line and seconds >= 1:
            self._next_line = 2 * elapsed
            self.note(self._left)


def print_section(console: Console, title: str, *, is_first: bool) -> None:
    """Print a heading to the terminal, below an empty line unless it is the first."""
    if not is_first:
        console.print()
    console.print(one_line(title), style="bold", markup=False)


def print_note(console: Console, text: str, margin: str) -> None:
    """Print a progress note to the terminal, indented by ``margin`` and wrapped at words."""
    line = Text(one_line(text))
    if console.is_terminal:
        console.print(Padding(line, (0, 0, 0, len(margin)), expand=False))
    else:
        console.print(Text(margin) + line, soft_wrap=True)


def format_time_left(seconds: float) -> str:
    """Format the approximate time left for a progress bar, such as ``about 5 min left``."""
    if seconds < 1:
        return ""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


class NotebookProgress(Progress):
    """Progress bar in a notebook cell, which disappears at the end."""

    def __init__(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._html = ipython.HTML
        self._handle: Any = ipython.display(ipython.HTML(""), display_id=True)
        self._stage, self._total, self._done, self._note = "", 0, 0, ""
        self._updated = 0.0

    def __exit__(self, *_: object) -> None:
        self._handle.update(self._html(""))

    def stage(self, name: str, total: int | None = None) -> None:
        """Restart the progress bar in the notebook for the next stage."""
        self._stage, self._total, self._done = name, total or 0, 0
        self._show()

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Advance the progress bar in the notebook by ``steps``."""
        self._done, self._note = self._done + steps, detail or self._note
        if time.monotonic() - self._updated >= UPDATE_SECONDS:
            self._show()

    def note(self, text: str) -> None:
        """Show a line of text next to the progress bar in the notebook."""
        self._note = text
        self._show()

    def _show(self) -> None:
        from lamatext.views.html_templates import render_template  # only in a notebook

        self._updated = time.monotonic()
        bar = {"stage": self._stage, "done": self._done, "total": self._total, "note": self._note}
        self._handle.update(self._html(render_template("notebook_progress.html", **bar)))


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
