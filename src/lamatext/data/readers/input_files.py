"""Input files and stdin: opening, decompression, and UTF-8 text in blocks of whole lines."""

import io
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from lamatext.data.read_options import MAX_RECORD, source_name
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.text_encoding import LineDecoder, decode_stream, wide_encoding
from lamatext.errors import DataError

CHUNK = 1 << 18  # bytes read at a time: small, so that streaming needs little memory

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{f"BZh{level}".encode(): "bz2" for level in range(1, 10)},
}
_CONTROLS = bytes(code for code in range(0x20) if chr(code) not in "\t\n\r\f\x1b")
_SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
OTHER_ARCHIVES = {".zip", ".xz", ".lzma", ".7z", ".rar", ".tar", ".tgz", ".lz4", ".br", ".z"}
UNPACK = f"Unpack it; the compressed files that are read are {', '.join(_SUFFIXES)}"
_SIMILAR = 0.65  # of two names, without their extensions, to suggest one for the other
_BINARY_FORMATS = {
    b"PK\x03\x04": "a zip archive or an office document",
    b"\xfd7zXZ": "an .xz file",
    b"7z\xbc\xaf": "a .7z archive",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x89PNG": "an image",
}


def decompressed_suffix(path: Path) -> str:
    """Return the extension of an input file before compression (``.csv`` for ``a.csv.gz``)."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _SUFFIXES else suffix


def read_chunks(source: str) -> Iterator[bytes]:
    """Read an input file or stdin (``-``) and yield its decompressed bytes in chunks."""
    stream = _open_decompressed(source)
    with stream:
        read = _reading_function(stream, source)
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


def _reading_function(stream: Any, source: str) -> Callable[[int], bytes]:
    if isinstance(stream, pa.NativeFile):  # its read() leaks memory if the file is damaged
        return lambda size: stream.read_buffer(size).to_pybytes()
    read: Callable[[int], bytes] = stream.read
    return getattr(stream, "read1", read) if source == "-" else read


def _open_decompressed(source: str) -> BinaryIO | pa.NativeFile:
    raw = sys.stdin.buffer if source == "-" else _open_file(source)
    peekable = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]  # any binary stream will do
    try:
        head = peekable.peek(4)[:4]
    except OSError as error:
        peekable.close()
        raise DataError(f"{source}: cannot be read: {error.strerror}.") from error
    for magic, codec in _MAGIC.items():
        if head.startswith(magic):
            return pa.CompressedInputStream(pa.PythonFile(peekable, mode="r"), codec)
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
    except ValueError as error:  # a null character
        raise DataError(f"{source}: not the name of a file.") from error


def missing_file_error(source: str) -> DataError:
    """Create the error for an input file that does not exist, suggesting a similar name."""
    path = Path(source)
    if not path.parent.is_dir():
        return DataError(f"{source}: no such file, and no folder {path.parent}. Check the path.")
    paths = sorted(path.parent.iterdir(), key=lambda other: other.suffix == path.suffix)
    others = {_stem(other): other for other in paths}  # of equal stems the last
    near = get_close_matches(_stem(path), others, 1, _SIMILAR)
    hint = f"Did you mean {others[near[0]]}?" if near else "Check the path."
    return DataError(f"{source}: no such file. {hint}")


def _stem(path: Path) -> str:
    return path.name.lower().partition(".")[0] or path.name.lower()


class Block(NamedTuple):
    """Block of complete lines from an input file, with the line number of its first line."""

    data: bytes  # UTF-8 without byte order mark
    line: int  # the number of its first line, from 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line in a block of an input file, with its line number."""
        text = self.data.decode().removesuffix("\n")
        for number, line in enumerate(text.split("\n"), start=self.line):
            yield number, line.removesuffix("\r")


def read_blocks(
    source: str,
    max_record: int = MAX_RECORD,
    *,
    encoding: str | None = None,
    expected_encoding: str | None = None,
    log: ReadLog | None = None,
) -> Iterator[Block]:
    """Read an input file as UTF-8 text in blocks of complete lines.

    Args:
        source: the file, or ``-`` for stdin.
        max_record: the longest line, in bytes.
        encoding: the encoding of the file; None detects it.
        expected_encoding: the encoding to try first if the file is not UTF-8.
        log: receives the encoding; by default a line that is not in the encoding is an error.
    """
    name, line = source_name(source), 1
    log = log or ReadLog(name)
    log.unit, log.is_encoding_requested = "line", encoding is not None
    decoder: LineDecoder | None = None
    incomplete: list[bytes] = []  # the pieces of a line whose end has not been read yet
    length = 0  # of that line
    for chunk in _text_chunks(source, encoding, log):
        if decoder is None:  # with the first chunk, the log tells whether the text was UTF-16
            is_converted = log.encoding != "utf-8"
            log.encoding = log.encoding if is_converted else encoding or "utf-8"
            decoder = LineDecoder("utf-8" if is_converted else encoding, expected_encoding, log)
        length += len(chunk) if (end := chunk.find(b"\n")) < 0 else end
        if length > max_record:
            raise record_too_long(f"{name}:{line}", max_record)
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            incomplete.append(chunk)
            continue
        yield Block(decoder.decode(b"".join([*incomplete, chunk[:cut]]), line), line)
        line += chunk.count(b"\n", 0, cut)
        incomplete = [chunk[cut:]]
        length = len(chunk) - cut
    if decoder is not None and (last := b"".join(incomplete)):
        yield Block(decoder.decode(last, line), line)


def read_text(source: str, max_record: int = MAX_RECORD, encoding: str | None = None) -> str:
    """Read a whole input file of at most ``max_record`` bytes as text."""
    blocks, length = [], 0
    for block in read_blocks(source, max_record, encoding=encoding):
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


def _text_chunks(source: str, encoding: str | None, log: ReadLog) -> Iterator[bytes]:
    """Yield chunks of a text input file, with UTF-16 converted to UTF-8 and CR line ends to LF."""
    chunks = read_chunks(source)
    first = next(chunks, b"")
    wide, mark, reason = wide_encoding(first[:4096], encoding)
    if wide is None:
        _check_is_text(first[:4096], log.name)
    if mark and wide is None:
        log.notes.append(f"read as UTF-8 text: {reason}")
    chunks = chain([first[mark:]], chunks)
    if wide is not None:
        log.encoding = wide
        log.notes.append(f"read as {wide.upper()} text: {reason}")
        chunks = decode_stream(chunks, wide, log.name)
    first = next(chunks, b"")
    if b"\r" in first[:-1] and b"\n" not in first:
        log.notes.append("the lines end with CR, as in files of old Macs")
        first, chunks = first.replace(b"\r", b"\n"), (c.replace(b"\r", b"\n") for c in chunks)
    yield first
    yield from chunks


def _check_is_text(head: bytes, name: str) -> None:
    for magic, kind in _BINARY_FORMATS.items():
        if head.startswith(magic):
            raise DataError(
                f"{name}: this is {kind}, expected text. Unpack an archive, or save the data as "
                "CSV, TSV, JSONL, Parquet or .xlsx; the name of an Excel file must end with .xlsx."
            )
    controls = len(head) - len(head.translate(None, _CONTROLS))
    is_utf8 = "\ufffd" not in head[:-3].decode(errors="replace")
    if head.count(0) > len(head) // 10 or (controls > len(head) // 20 and not is_utf8):
        raise DataError(
            f"{name}: full of control characters, so binary, expected text. If it is text, name "
            "its encoding with --encoding."
        )
