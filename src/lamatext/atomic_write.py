"""Atomic file writes: after a crash, either the old file or the complete new one exists."""

import errno
import os
import platform
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lamatext.errors import DataError

# .NAME.HOST-PID.lamatext: the host, because another machine's process ids mean nothing here.
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{8})-([0-9]+)\.lamatext")


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path that atomically replaces ``path`` when the block succeeds.

    The target of a symbolic link is replaced, not the link. A FIFO or a device cannot be replaced:
    its own path is yielded and written directly. Temporary files that killed processes have left
    in the folder are deleted.
    """
    temporary = None
    try:
        if is_special_file(path):
            yield path
            return
        target = _follow_links(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        delete_stale_files(target.parent)
        temporary = target.with_name(f".{target.name}.{host_code()}-{os.getpid()}.lamatext")
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically as UTF-8, replacing lone surrogates with ``?``."""
    with replace_atomically(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def is_special_file(path: Path) -> bool:
    """Return whether a path is a FIFO, a socket or a device, which no atomic write can replace.

    ``/dev/stdout`` is one even if stdout is redirected to a file.
    """
    if path.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd")):
        return path.exists()
    return path.exists() and not path.is_file() and not path.is_dir()


def delete_stale_files(folder: Path) -> None:
    """Delete the temporary files of atomic writes in a folder whose processes no longer exist."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match and match[1] == host_code() and not is_running(int(match[2])):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _follow_links(path: Path) -> Path:
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def host_code() -> str:
    """Return a short code for this machine, part of the names of its temporary files."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def is_running(pid: int) -> bool:
    """Return whether the process that writes a temporary file may still be running."""
    if os.name != "posix":
        return True  # os.kill would end the process there
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
