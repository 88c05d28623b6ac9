"""Files and stdin as blocks of whole lines: decompressed, checked to be UTF-8, numbered."""

import io
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from lamatext.errors import DataError

BLOCK = 1 << 18  # bytes read at a time: small, so that streaming needs little memory

_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_FOREIGN = {
    b"\xff\xfe\x00\x00": "UTF-32 text",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip archive or an office document",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x89PNG": "an image",
}


class Block(NamedTuple):
    """Some whole lines of a file."""

    data: bytes  # UTF-8 without byte order mark
    line: int  # the number of its first line, from 1


def plain_suffix(path: Path) -> str:
    """The extension that tells the format: ``.csv`` for ``reviews.csv.gz``."""
    return (
        Path(path.stem).suffix.lower() if path.suffix.lower() in _SUFFIXES else path.suffix.lower()
    )


def shown(source: str) -> str:
    """How messages name the source."""
    return "stdin" if source == "-" else source


def open_bytes(source: str) -> BinaryIO:
    """The bytes of a file, or of stdin for ``-``; gzip and zstd are known by their first bytes."""
    raw = sys.stdin.buffer if source == "-" else _open_file(source)
    peekable = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]  # any binary stream will do
    head = peekable.peek(4)[:4]
    for magic, codec in _COMPRESSED.items():
        if head.startswith(magic):
            return pa.CompressedInputStream(pa.PythonFile(peekable, mode="r"), codec)  # type: ignore[no-any-return]
    claimed = _SUFFIXES.get(Path(source).suffix.lower())
    if claimed and head:
        peekable.close()
        raise DataError(f"{source}: its name says {claimed}, its content does not. Rename it.")
    return peekable


def _open_file(source: str) -> BinaryIO:
    path = Path(source)
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise missing(source) from None
    except OSError as error:
        raise DataError(f"{source}: cannot be read: {error.strerror}.") from error


def missing(source: str) -> DataError:
    """The error for a file that is not there, with the file beside it that has nearly its name."""
    path = Path(source)
    if not path.parent.is_dir():
        return DataError(f"{source}: no such file, nor is there a folder {path.parent}.")
    near = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], 1, 0.5)
    hint = f" Did you mean {path.with_name(near[0])}?" if near else " Check the path."
    return DataError(f"{source}: no such file.{hint}")


def read_all(source: str) -> bytes:
    """The whole decompressed content, for formats that cannot be read as a stream."""
    return b"".join(_chunks(open_bytes(source), shown(source)))


def read_text(source: str) -> str:
    """The whole content of a small file as text."""
    return b"".join(block.data for block in read_blocks(source)).decode()


def read_blocks(source: str) -> Iterator[Block]:
    """The content as blocks of whole lines; DataError names the line that is not UTF-8."""
    name, line = shown(source), 1
    begun: list[bytes] = []  # the pieces of a line whose end has not been read yet
    for chunk in _text_chunks(open_bytes(source), name):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            begun.append(chunk)
            continue
        yield _checked(Block(b"".join([*begun, chunk[:cut]]), line), name)
        line += chunk.count(b"\n", 0, cut)
        begun = [chunk[cut:]]
    if last := b"".join(begun):
        yield _checked(Block(last, line), name)


def _text_chunks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The chunks, the first without its byte order mark and known to look like text."""
    chunks = _chunks(stream, name)
    first = next(chunks, b"")
    _check_head(first[:4096], name)
    yield first.removeprefix(b"\xef\xbb\xbf")
    yield from chunks


def _chunks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read) if name == "stdin" else stream.read
    with stream:
        while True:
            try:
                chunk = read(BLOCK)
            except OSError as error:
                raise DataError(
                    f"{name}: the file is cut short or damaged ({error}). Fetch or write it again."
                ) from error
            if not chunk:
                return
            yield chunk


def _check_head(head: bytes, name: str) -> None:
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise DataError(f"{name}: this is {what}, expected UTF-8 text. {_remedy(what)}")
    if head.count(0) > len(head) // 10:
        raise DataError(
            f"{name}: full of NUL bytes, so binary or UTF-16, expected UTF-8 text. "
            "If it is UTF-16, convert it: iconv -f UTF-16 -t UTF-8."
        )


def _remedy(what: str) -> str:
    if what.startswith("UTF"):
        return f"Convert it: iconv -f {what.split()[0]} -t UTF-8."
    return "Save the data as CSV, TSV, JSONL or Parquet."


def _checked(block: Block, name: str) -> Block:
    if block.data.isascii():
        return block
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        line = block.line + block.data.count(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}: not UTF-8 (byte 0x{block.data[error.start]:02x}). "
            "Convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8."
        ) from None
    return block
