"""Atomic file writes: after a crash, either the old file or the complete new one exists.

A command that writes several files is not atomic as a whole. ``unfinished_until_end`` marks its
files until all of them are written: if the command is killed, it may replace the marked files when
it is run again.
``locked_folder`` keeps two processes from writing to a folder at the same time.
"""

import errno
import os
import platform
import re
import stat
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from lamatext.errors import ConfigError, DataError

# .NAME.HOST-PID.lamatext, with the host because another machine's process ids mean nothing here.
_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{8})-([0-9]+)\.lamatext")
_UNFINISHED = ".unfinished"  # in the name of a mark
_LONGEST_NAME = 160  # bytes; longer names are shortened in temporary names (limit: 255)
_KEPT_CHARACTERS = 30  # of a longer name, at most four bytes each
_WITHOUT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_MARKED: ContextVar[frozenset[Path]] = ContextVar("files to mark as unfinished")

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file path; if the block succeeds, the file atomically replaces ``path``.

    The target of a symbolic link is replaced, not the link. A FIFO or a device cannot be replaced:
    its own path is yielded and written directly. Temporary files that killed processes have left
    behind in the folder are deleted.
    """
    temporary = None
    target = path
    try:
        if is_special_file(path):
            yield path
            return
        target = _follow_links(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        is_marked = path in _MARKED.get(frozenset())
        delete_stale_files(target.parent, keep_marks=is_marked)  # until this file is replaced
        temporary = _hidden_name(target, f".{threading.get_ident()}")
        permissions = _copy_permissions(target, temporary)
        yield temporary
        _finish(temporary, permissions)
        if is_marked:
            _mark(target, temporary)
        temporary.replace(target)
    except OSError as error:
        if _is_of_another_file(error, target, temporary):
            raise DataError(f"{error.filename}: {error.strerror}.") from error
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise DataError if a file cannot be created atomically at ``path``, without creating it."""
    try:
        target = _follow_links(path)
        folder = next(folder for folder in target.absolute().parents if folder.exists())
        probe = _hidden_name(folder / target.name, f".{threading.get_ident()}")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error


def _copy_permissions(target: Path, temporary: Path) -> int | None:
    """Create the temporary file with the permissions of the file that it will replace.

    A private file thus stays private while it is being written. Return the permissions, or None if
    there is no file to replace; the temporary file is then not created.
    """
    try:
        permissions = target.stat().st_mode & 0o777
    except OSError:
        return None
    temporary.unlink(missing_ok=True)
    temporary.touch(permissions | stat.S_IRUSR | stat.S_IWUSR, exist_ok=False)
    return permissions


def _finish(temporary: Path, permissions: int | None) -> None:
    """Flush a temporary file to disk and set its permissions before it replaces the old file."""
    try:
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in _WITHOUT_SYNC:
            raise
    if permissions is not None:
        with suppress(OSError):  # some file systems have none
            temporary.chmod(permissions)


def _is_of_another_file(error: OSError, target: Path, temporary: Path | None) -> bool:
    """Return whether an error in an atomic write is about a file other than the one written."""
    if not isinstance(error.filename, str | os.PathLike) or error.strerror is None:
        return False
    place = Path(error.filename).absolute()
    is_written = temporary is not None and place == temporary.absolute()
    return not is_written and not target.absolute().is_relative_to(place)


@contextmanager
def unfinished_until_end(*paths: Path | None) -> Iterator[None]:
    """Mark the output files of a command as unfinished until the block that writes them succeeds.

    The mark is a second, hidden name of the same file (a hard link). It remains if the process is
    killed; see ``is_unfinished``. On file systems without hard links, files are not marked.
    """
    marked = frozenset(filter(None, paths))
    token = _MARKED.set(marked)
    try:
        yield
    finally:
        _MARKED.reset(token)
    for target in map(_real_path, marked):
        with suppress(OSError):
            _mark_name(target).unlink(missing_ok=True)
    for folder in {_real_path(path).parent for path in marked}:
        delete_stale_files(folder)


def is_unfinished(path: Path) -> bool:
    """Return whether an interrupted command has left an output file marked as unfinished."""
    target = _real_path(path)
    prefix = _mark_name(target).name.rpartition("-")[0]
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match and entry.name.startswith(f"{prefix}-") and target.samefile(entry.path):
                pid = int(match[2])
                return pid == os.getpid() or not is_running(pid)
    return False


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically as UTF-8, replacing lone surrogates with ``?``."""
    with replace_atomically(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def is_special_file(path: Path) -> bool:
    """Return whether a path is a FIFO, socket or device, which cannot be replaced atomically.

    ``/dev/stdout`` counts as a device even if stdout is redirected to a file.
    """
    if path.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd")):
        return path.exists()
    return path.exists() and not path.is_file() and not path.is_dir()


def delete_stale_files(folder: Path, *, keep_marks: bool = False) -> None:
    """Delete the temporary files that killed processes left in a folder during atomic writes.

    With ``keep_marks``, output files that killed commands left behind stay marked as unfinished.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if keep_marks and f"{_UNFINISHED}.{host_code()}" in entry.name:
                continue
            if match and match[1] == host_code() and not is_running(int(match[2])):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _hidden_name(target: Path, purpose: str) -> Path:
    """Return a hidden path of limited length for an atomic write's temporary file or mark.

    ``purpose`` is part of the name.
    """
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{name[:_KEPT_CHARACTERS]}{zlib.crc32(os.fsencode(name)):08x}"
    return target.with_name(f".{name}{purpose}.{host_code()}-{os.getpid()}.lamatext")


def _mark_name(target: Path) -> Path:
    """Return the path of the hidden file that marks an output file as unfinished.

    It has the form of a temporary file's name, so that it is deleted like one.
    """
    return _hidden_name(target, _UNFINISHED)


def _mark(target: Path, temporary: Path) -> None:
    """Mark an output file as unfinished by a hidden hard link to its temporary file."""
    with suppress(OSError):
        _mark_name(target).unlink(missing_ok=True)
        _mark_name(target).hardlink_to(temporary)


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _follow_links(path: Path) -> Path:
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def host_code() -> str:
    """Return a short code for this machine, used in the names of temporary files."""
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


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other lamatext processes until the block ends, creating it if needed.

    The lock also ends if the process is killed. On Windows and some network file systems, which
    have no such locks, nothing is locked.

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
    """Try to lock an open folder for this process; return whether the lock was acquired.

    Locking fails if another process has locked the folder or has just deleted it.
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
