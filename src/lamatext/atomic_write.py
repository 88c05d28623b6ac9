"""Atomic file writes: after a crash, either the old file or the complete new one exists."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamatext.errors import DataError


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path that atomically replaces ``path`` when the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically as UTF-8, replacing lone surrogates with ``?``."""
    with replace_atomically(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))
