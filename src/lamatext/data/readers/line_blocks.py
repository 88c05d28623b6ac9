"""Text files in blocks of whole lines, checked to be UTF-8, with line numbers."""

from collections.abc import Iterator
from typing import NamedTuple

from lamatext.data.readers.input_files import read_chunks, source_name
from lamatext.errors import DataError

_BINARY_FORMATS = {
    b"\xff\xfe\x00\x00": "UTF-32 text",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip archive or an office document",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"\x89PNG": "an image",
}


class Block(NamedTuple):
    """A block of whole lines of a text file."""

    data: bytes  # UTF-8 without byte order mark
    line: int  # the number of its first line, from 1

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line in the block, without the line end."""
        text = self.data.decode().removesuffix("\n")
        for number, line in enumerate(text.split("\n"), start=self.line):
            yield number, line.removesuffix("\r")


def read_blocks(source: str) -> Iterator[Block]:
    """Read a text file in blocks of whole lines; raise DataError at a line that is not UTF-8."""
    name, line = source_name(source), 1
    incomplete: list[bytes] = []  # the pieces of a line whose end has not been read yet
    for chunk in _text_chunks(source):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            incomplete.append(chunk)
            continue
        block = Block(b"".join([*incomplete, chunk[:cut]]), line)
        _check_utf8(block, name)
        yield block
        line += chunk.count(b"\n", 0, cut)
        incomplete = [chunk[cut:]]
    if last := b"".join(incomplete):
        _check_utf8(Block(last, line), name)
        yield Block(last, line)


def read_text(source: str) -> str:
    """Read a whole UTF-8 text file, joined from its blocks of lines."""
    return b"".join(block.data for block in read_blocks(source)).decode()


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
