"""Input files and stdin: opening, decompression of gzip and zstd, errors for missing files."""

import io
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from lamatext.errors import DataError

CHUNK = 1 << 18  # bytes read at a time: small, so that streaming needs little memory

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def source_name(source: str) -> str:
    """Return the name of an input file for messages; ``-`` is stdin."""
    return "stdin" if source == "-" else source


def decompressed_suffix(path: Path) -> str:
    """Return the extension of an input file without compression: ``.csv`` for ``a.csv.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _SUFFIXES else suffix


def read_chunks(source: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of an input file, or of stdin for ``-``, in chunks."""
    stream = _open_decompressed(source)
    read = getattr(stream, "read1", stream.read) if source == "-" else stream.read
    with stream:
        while True:
            try:
                chunk = read(CHUNK)
            except OSError as error:
                raise DataError(
                    f"{source_name(source)}: the file is cut short or damaged ({error}). "
                    "Fetch or write it again."
                ) from error
            if not chunk:
                return
            yield chunk


def _open_decompressed(source: str) -> BinaryIO:
    raw = sys.stdin.buffer if source == "-" else _open_file(source)
    peekable = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]  # any binary stream will do
    head = peekable.peek(4)[:4]
    for magic, codec in _MAGIC.items():
        if head.startswith(magic):
            return pa.CompressedInputStream(pa.PythonFile(peekable, mode="r"), codec)  # type: ignore[no-any-return]
    expected = _SUFFIXES.get(Path(source).suffix.lower())
    if expected and head:
        peekable.close()
        raise DataError(
            f"{source}: its name says {expected}, its content does not. Rename the file."
        )
    return peekable


def _open_file(source: str) -> BinaryIO:
    try:
        return Path(source).open("rb")
    except FileNotFoundError:
        raise missing_file_error(source) from None
    except OSError as error:
        raise DataError(f"{source}: cannot be read: {error.strerror}.") from error


def missing_file_error(source: str) -> DataError:
    """Return the error for an input file that does not exist, with a similar name."""
    path = Path(source)
    if not path.parent.is_dir():
        return DataError(f"{source}: no such file, and no folder {path.parent}. Check the path.")
    near = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], 1, 0.5)
    hint = f"Did you mean {path.with_name(near[0])}?" if near else "Check the path."
    return DataError(f"{source}: no such file. {hint}")
