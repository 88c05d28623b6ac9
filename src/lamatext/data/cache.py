"""Work that need not be done twice, kept on disk by a fingerprint of what it was made from."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

LIMIT = 4 << 30  # bytes; the entries used longest ago go first

Arrays = dict[str, NDArray[np.generic]]


def cache_folder() -> Path:
    """``$LAMATEXT_CACHE``, or ``lamatext`` in the user's cache folder."""
    if own := os.environ.get("LAMATEXT_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lamatext"


def cached(kind: str, key: str, make: Callable[[], Arrays]) -> Arrays:
    """What ``make`` gives, from disk if made before; a broken or full disk costs only time."""
    path = cache_folder() / f"{kind}-{key}.safetensors"
    try:
        arrays = load_file(path)
        os.utime(path)
        return arrays
    except (OSError, SafetensorError):
        pass
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_bytes(save(arrays))
        unfinished.replace(path)
        _forget_oldest(path.parent)
    except OSError:
        pass
    return arrays


def fingerprint(*parts: object) -> str:
    """A short name for exactly these parts: texts, arrays, settings, numbers."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, pa.ChunkedArray):
            _digest_texts(digest, part)
        elif isinstance(part, np.ndarray):
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _digest_texts(digest: hashlib.blake2b, texts: pa.ChunkedArray) -> None:
    """The same for the same texts, however they are cut into chunks."""
    lengths = hashlib.blake2b(digest_size=16)
    for chunk in texts.chunks:
        column = chunk.cast(pa.large_string())
        _, ends, data = column.buffers()
        if not len(column):
            continue
        offsets = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
        lengths.update(np.diff(offsets).data)
        if data is not None:
            digest.update(memoryview(data)[offsets[0] : offsets[-1]])
    digest.update(lengths.digest())


def _forget_oldest(folder: Path) -> None:
    entries = sorted(folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in entries)
    for path in entries[:-1]:
        if total <= LIMIT:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)
