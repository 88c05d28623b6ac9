"""How long work tells what it is doing; the command line shows it, Python callers get silence."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
STEPS = 64  # items between two words of progress


class Progress:
    """Silent. A display overrides the three methods."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins, of ``total`` steps if that is known."""

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Some steps of the stage are done."""

    def note(self, text: str) -> None:
        """One line that stays."""


SILENT = Progress()


def counted(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """The items; ``progress`` is told how many were taken."""
    rest = iter(items)
    while some := list(islice(rest, STEPS)):
        yield from some
        progress.advance(len(some))
