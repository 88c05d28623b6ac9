"""Progress reports of long work: silent by default, displayed by the command line."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
STEPS = 64  # items between two progress reports


class Progress:
    """A receiver of progress reports that shows nothing; displays override its methods."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Report that a stage of the work starts, with its number of steps if known."""

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report progress by some steps of the current stage."""

    def note(self, text: str) -> None:
        """Report a line of text that stays visible next to the progress bar."""


SILENT = Progress()


def track_progress(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """Yield the items and report progress after every few of them."""
    remaining = iter(items)
    while batch := list(islice(remaining, STEPS)):
        yield from batch
        progress.advance(len(batch))
