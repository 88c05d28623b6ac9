"""Disk cache of computed arrays, keyed by a fingerprint of their inputs."""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from lamatext.atomic_write import replace_atomically
from lamatext.errors import DataError

MAX_BYTES = 4 << 30  # bytes; the least recently used entries are deleted first
ENTRY_NAME = re.compile(r"[a-z0-9-]+-[0-9a-f]{32}\.safetensors")

Arrays = dict[str, NDArray[np.generic]]


def cache_folder() -> Path:
    """Return the folder of the disk cache.

    It is ``$LAMATEXT_CACHE`` if set, otherwise ``lamatext`` in the user's cache folder.
    """
    if folder := os.environ.get("LAMATEXT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lamatext"


@contextmanager
def empty_cache() -> Iterator[None]:
    """Use an empty temporary cache inside the context, so that timings include all computation."""
    before = os.environ.get("LAMATEXT_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAMATEXT_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["LAMATEXT_CACHE"]
            if before is not None:
                os.environ["LAMATEXT_CACHE"] = before


def cached(kind: str, key: str, compute: Callable[[], Arrays]) -> Arrays:
    """Return arrays from the disk cache, or compute them and add them to the cache.

    Each entry carries a checksum: an entry that is damaged, or was copied over another one, is
    computed again. Disk errors are ignored.
    """
    path = cache_folder() / f"{kind}-{key}.safetensors"
    arrays = _read_entry(path)
    if arrays is not None:
        with suppress(OSError):
            os.utime(path)
        return arrays
    arrays = compute()
    with suppress(OSError, DataError):
        with replace_atomically(path) as temporary:
            temporary.write_bytes(save(arrays, metadata={"checksum": _checksum(path, arrays)}))
        _delete_oldest(path.parent)
    return arrays


def _read_entry(path: Path) -> Arrays | None:
    try:
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            checksum = (file.metadata() or {}).get("checksum")
    except Exception:  # a damaged header can raise anything
        return None
    return arrays if checksum == _checksum(path, arrays) else None


def _checksum(path: Path, arrays: Arrays) -> str:
    """Return a checksum of a cache entry's name, arrays and data types."""
    parts: list[object] = [path.name]
    for name, array in sorted(arrays.items()):
        parts += [name, array.dtype.str, array.shape, array]
    return fingerprint(*parts)


def fingerprint(*parts: object) -> str:
    """Return a hash of the given texts, arrays and settings, for use as a cache key.

    An array may also be given as an iterator over its blocks.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, pa.ChunkedArray):
            _digest_texts(digest, part)
        elif isinstance(part, np.ndarray | Iterator):
            for block in part if isinstance(part, Iterator) else [part]:
                digest.update(np.ascontiguousarray(block).data)
        else:
            digest.update(repr(part).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _digest_texts(digest: hashlib.blake2b, texts: pa.ChunkedArray) -> None:
    """Add texts to the hash of a cache key, independently of the chunking of their Arrow column."""
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


def _delete_oldest(folder: Path) -> None:
    """Delete the oldest cache entries until the cache is within its size limit.

    Other files in the folder and the newest entry are kept.
    """
    own = (path for path in folder.glob("*.safetensors") if ENTRY_NAME.fullmatch(path.name))
    entries = sorted(own, key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in entries)
    for path in entries[:-1]:
        if total <= MAX_BYTES:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)
