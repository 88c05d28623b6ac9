"""Writing so that a crash leaves the old file or the new one, never half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from lamatext.errors import DataError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(text.encode("utf-8", "replace"))


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """A text file to write to, bit by bit."""
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        yield file
