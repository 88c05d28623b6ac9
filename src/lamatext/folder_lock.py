"""Lock a folder, so that two processes never write to it at the same time."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lamatext.errors import ConfigError, DataError

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create a folder and hold a lock on it, which is released if the process is killed.

    Windows and some network file systems have no such locks; there, nothing is locked.

    Raises:
        ConfigError: another process holds the lock.
        DataError: the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = None if sys.platform == "win32" else os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}.") from error
    try:
        if descriptor is not None and not _lock(descriptor, folder):
            raise ConfigError(
                f"{folder}: another process is writing to it. Wait for its end, or give another "
                "--out."
            )
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> bool:
    """Try to lock an open folder for this process and return whether it succeeded.

    It is impossible if another process has locked the folder, or has just deleted it.
    """
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False
