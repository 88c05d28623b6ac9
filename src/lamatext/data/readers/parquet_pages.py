"""Page sizes of a Parquet file, which are checked before pyarrow decompresses whole pages.

A file of a few kilobytes can have a page of gigabytes. pyarrow reveals the size of a page only by
reading it, and the positions of the pages only through an interface that crashes the process if the
file is damaged. Therefore, the footer of the file and the headers of its pages are parsed here.
Both are structs of Thrift's compact protocol; their field numbers are those of the Parquet format.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

DELTA_BYTE_ARRAY = 7  # a value repeats a part of the previous one and may be as long as the page
_MAX_BYTES = 1 << 24  # of a footer, and of a page header
_MAX_DEPTH = 20  # of nested structs and lists; Parquet has about eight levels
_TAIL = 8  # bytes at the end of the file: the length of the footer, and PAR1
# Types of fields
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS, _LISTS = (4, 5, 6), (9, 10)

Fields = dict[int, Any]


class ColumnChunk(NamedTuple):
    """Byte range of a column in a Parquet row group, with its number of values."""

    start: int
    end: int
    values: int


class Page(NamedTuple):
    """Header of a Parquet page, with its uncompressed size and number of values."""

    size: int  # bytes when decompressed
    values: int
    encoding: int
    is_dictionary: bool


def column_chunks(content: pa.NativeFile) -> list[list[ColumnChunk]]:
    """Read the position of each column in each row group from the footer of a Parquet file."""
    size = content.size()
    length = int.from_bytes(content.read_at(4, max(size - _TAIL, 0)), "little")
    if not 0 < length <= min(size - _TAIL, _MAX_BYTES):
        raise OSError(f"the footer has {length:,} bytes, at most {_MAX_BYTES:,} are read")
    footer = content.read_at(length, size - _TAIL - length)
    try:
        groups = _items(_struct(footer, 0)[0], 4)
        return [[_column_chunk(_part(c, 3), size) for c in _items(g, 1)] for g in groups]
    except IndexError:
        raise OSError("the footer is incomplete") from None


def _column_chunk(column: Fields, size: int) -> ColumnChunk:
    start, dictionary = _integer(column, 9), _integer(column, 11)
    if 0 < dictionary < start:
        start = dictionary
    return ColumnChunk(start, min(start + _integer(column, 7), size), _integer(column, 5))


def read_pages(content: pa.NativeFile, chunk: ColumnChunk) -> Iterator[Page]:
    """Yield the headers of the pages that pyarrow would read for a column of a Parquet file."""
    start, values = chunk.start, 0
    while start < chunk.end and values < chunk.values:
        header, length = _page_header(content, start, chunk.end)
        number = next((n for n in (5, 7, 8) if n in header), 0)  # version 1, dictionary, version 2
        details = _part(header, number) if number else {}
        page = Page(
            size=_integer(header, 2),
            values=_integer(details, 1),
            encoding=_integer(details, 4 if number == 8 else 2),
            is_dictionary=number == 7,
        )
        yield page
        values += 0 if page.is_dictionary else page.values
        start += length + _integer(header, 3)


def _page_header(content: pa.NativeFile, start: int, end: int) -> tuple[Fields, int]:
    """Read the Parquet page header at a position; return its fields by number and its length."""
    size = 1024
    while True:
        data = content.read_at(min(size, end - start), start)
        try:
            return _struct(data, 0)
        except IndexError:
            if len(data) < size or size >= _MAX_BYTES:
                raise OSError("a page header is incomplete") from None
        size *= 16


def _integer(fields: Fields, number: int) -> int:
    value = fields.get(number, 0)
    if not isinstance(value, int) or value < 0:
        raise OSError("a size or position is not a positive number")
    return value


def _part(fields: object, number: int) -> Fields:
    part = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(part, dict):
        raise OSError("a part of the metadata is missing")
    return part


def _items(fields: object, number: int) -> list[Any]:
    items = fields.get(number, []) if isinstance(fields, dict) else None
    if not isinstance(items, list):
        raise OSError("a list in the metadata is missing")
    return items


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[Fields, int]:
    """Parse a Thrift struct of a Parquet file; return its fields by number and its end position."""
    fields: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        if head & 15 not in (_TRUE, _FALSE):  # which have no further bytes
            fields[number], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Parse a Thrift value of a Parquet file; return it (None if unused) and its end position."""
    if kind in _INTEGERS:
        return _zigzag(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind in (_TRUE, _FALSE, _BYTE):  # in a list
        return None, at + 1
    if kind == _DOUBLE:
        return None, at + 8
    if depth < _MAX_DEPTH and kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if depth < _MAX_DEPTH and kind in _LISTS:
        return _list(data, at, depth + 1)
    raise OSError("the metadata has a field of an unknown type")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    kind, count = data[at] & 15, data[at] >> 4
    at += 1
    if count == 15:
        count, at = _varint(data, at)
    items = []
    for _ in range(count):
        data[at]  # the list goes on in the data
        item, at = _value(data, at, kind, depth)
        items.append(item)
    return items, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise OSError("the metadata has too long a number")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
