"""Input files and stdin: opening, decompression, and text in blocks of whole UTF-8 lines."""

import io
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from lamatext.errors import DataError

CHUNK = 1 << 18  # bytes read at a time: small, so that streaming needs little memory
MAX_RECORD = 64_000_000  # bytes of a line, a CSV row or a text file, unless --max-record is given

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_BINARY_FORMATS = {
    b"\xff\xfe\x00\x00": "UTF-32 text",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip archive or an office document",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x89PNG": "an image",
}


def source_name(source: str) -> str:
    """Return the name of an input file for messages, which is "stdin" for ``-``."""
    return "stdin" if source == "-" else source


def decompressed_suffix(path: Path) -> str:
    """Return the extension of an input file without that of its compression.

    For ``a.csv.gz`` it is ``.csv``.
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _SUFFIXES else suffix


def read_chunks(source: str) -> Iterator[bytes]:
    """Read an input file or stdin (``-``) and yield its decompressed bytes in chunks."""
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
    """Create the error for an input file that does not exist, suggesting a similar name."""
    path = Path(source)
    if not path.parent.is_dir():
        return DataError(f"{source}: no such file, and no folder {path.parent}. Check the path.")
    near = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], 1, 0.5)
    hint = f"Did you mean {path.with_name(near[0])}?" if near else "Check the path."
    return DataError(f"{source}: no such file. {hint}")


class Block(NamedTuple):
    """Block of whole lines from an input file, with the number of its first line."""

    data: bytes  # UTF-8 without byte order mark
    line: int  # the number of its first line, from 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the line number and the text of each line in a block of an input file."""
        text = self.data.decode().removesuffix("\n")
        for number, line in enumerate(text.split("\n"), start=self.line):
            yield number, line.removesuffix("\r")


def read_blocks(source: str, max_record: int = MAX_RECORD) -> Iterator[Block]:
    """Read a text input file in blocks of whole lines and check that it is valid UTF-8.

    Raises:
        DataError: a line is not UTF-8, or longer than ``max_record`` bytes.
    """
    name, line = source_name(source), 1
    incomplete: list[bytes] = []  # the pieces of a line whose end has not been read yet
    length = 0  # of that line
    for chunk in _text_chunks(source):
        length += len(chunk) if (end := chunk.find(b"\n")) < 0 else end
        if length > max_record:
            raise record_too_long(f"{name}:{line}", max_record)
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            incomplete.append(chunk)
            continue
        block = Block(b"".join([*incomplete, chunk[:cut]]), line)
        _check_utf8(block, name)
        yield block
        line += chunk.count(b"\n", 0, cut)
        incomplete = [chunk[cut:]]
        length = len(chunk) - cut
    if last := b"".join(incomplete):
        _check_utf8(Block(last, line), name)
        yield Block(last, line)


def read_text(source: str, max_record: int = MAX_RECORD) -> str:
    """Read a whole input file of at most ``max_record`` bytes as UTF-8 text."""
    blocks, length = [], 0
    for block in read_blocks(source, max_record):
        blocks.append(block.data)
        length += len(block.data)
        if length > max_record:
            raise record_too_long(source, max_record)
    return b"".join(blocks).decode()


def record_too_long(where: str, max_record: int) -> DataError:
    """Return the error for an input file with a record of more than ``max_record`` bytes."""
    return DataError(
        f"{where}: a record longer than {max_record / 1e6:g} MB. Check that the file is what its "
        "name says, or allow longer records with --max-record."
    )


def _text_chunks(source: str) -> Iterator[bytes]:
    chunks = read_chunks(source)
    first = next(chunks, b"")
    _check_is_text(first[:4096], source_name(source))
    yield first.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
    yield from chunks


def _check_is_text(head: bytes, name: str) -> None:
    for magic, kind in _BINARY_FORMATS.items():
        if head.startswith(magic):
            advice = "Save the data as CSV, TSV, JSONL or Parquet."
            if kind.startswith("UTF"):
                advice = f"Convert it: iconv -f {kind.split()[0]} -t UTF-8."
            raise DataError(f"{name}: this is {kind}, expected UTF-8 text. {advice}")
    if head.count(0) > len(head) // 10:
        raise DataError(
            f"{name}: full of NUL bytes, so binary or UTF-16, expected UTF-8 text. "
            "If it is UTF-16, convert it: iconv -f UTF-16 -t UTF-8."
        )


def _check_utf8(block: Block, name: str) -> None:
    if block.data.isascii():
        return
    try:
        block.data.decode()
    except UnicodeDecodeError as error:
        line = block.line + block.data.count(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}: not UTF-8 (byte 0x{block.data[error.start]:02x}). "
            "Convert the file, for example: iconv -f WINDOWS-1252 -t UTF-8."
        ) from None
