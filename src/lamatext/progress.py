"""Progress reports of long-running work: silent by default, displayed by the command line."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self, TypeVar

T = TypeVar("T")
STEPS = 64  # items between two progress reports


class Progress:
    """Base class for progress reporting, whose methods do nothing by default.

    Used as a context manager, it displays the reports until the block ends.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the progress display."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Report the start of a new progress stage, with its number of steps if known."""

    def expect(self, name: str, count: int) -> None:
        """Announce that ``count`` more progress stages with this name will follow."""

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report progress of ``steps`` steps in the current stage."""

    def section(self, title: str) -> None:
        """Report a section heading for the progress notes that follow."""

    def note(self, text: str) -> None:
        """Report a line of text to display next to the progress bar."""

    def time_left(self, seconds: float) -> None:
        """Report the estimated time until the whole task ends."""


SILENT = Progress()


class NamedProgress(Progress):
    """Progress reporter for part of a longer task, which prefixes stages with the part's name."""

    def __init__(self, name: str, whole: Progress) -> None:
        self._name, self._whole = name, whole

    def stage(self, name: str, total: int | None = None) -> None:
        """Report the start of a progress stage, prefixed with the name of this part of the task."""
        self._whole.stage(f"{self._name}: {name}", total)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report progress of ``steps`` steps in this part's current stage."""
        self._whole.advance(steps, detail)


def track_progress(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """Yield all items while reporting progress at intervals."""
    remaining = iter(items)
    while batch := list(islice(remaining, STEPS)):
        yield from batch
        progress.advance(len(batch))
