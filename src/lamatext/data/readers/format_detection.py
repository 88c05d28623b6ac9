"""File format detection: choose the reader of a file by its extension or its first lines."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from lamatext.data.readers.csv_reader import csv_table
from lamatext.data.readers.input_files import (
    MAX_RECORD,
    Block,
    decompressed_suffix,
    missing_file_error,
    read_blocks,
    source_name,
)
from lamatext.data.readers.jsonl_reader import jsonl_table
from lamatext.data.readers.parquet_reader import parquet_table
from lamatext.data.readers.table import Table
from lamatext.data.readers.text_lines_reader import LABEL_PREFIX, fasttext_table, plain_lines_table
from lamatext.errors import DataError

_TEXT_READERS: dict[str, Callable[[str, Iterator[Block]], Table]] = {
    "jsonl": jsonl_table,
    "fasttext": fasttext_table,
    "lines": plain_lines_table,
}
FORMATS = ("csv", "tsv", "jsonl", "parquet", "fasttext", "lines")
_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".ft": "fasttext",
}  # fmt: skip
_DETECTED_BY_CONTENT = {"", ".txt", ".text", ".data", ".train", ".test", ".valid"}


def file_table(source: str, format: str | None = None, *, max_record: int = MAX_RECORD) -> Table:
    """Open a file as a table, detecting the file format if none is given.

    The source ``-`` is stdin. A record of more than ``max_record`` bytes is an error.
    """
    name = source_name(source)
    if format is None:
        format = _format_by_name(source)
    elif format not in FORMATS:
        raise DataError(f"unknown format '{format}'. Known formats are {', '.join(FORMATS)}.")
    if format == "parquet":
        return parquet_table(source, max_record)
    blocks = read_blocks(source, max_record)
    if format is None:
        first = next(blocks, None)
        if first is None:
            raise DataError(f"{name}: the file is empty. Expected one text or more.")
        format = _format_by_content(first.data, has_suffix=bool(Path(source).suffix))
        blocks = chain([first], blocks)
    if format in ("csv", "tsv"):
        delimiter = "\t" if format == "tsv" else None
        return csv_table(name, blocks, delimiter=delimiter, max_record=max_record)
    return _TEXT_READERS[format](name, blocks)


def is_table_file(path: Path) -> bool:
    """Return whether a file exists and has the extension of a known table format."""
    return decompressed_suffix(path) in _BY_SUFFIX and path.is_file()


def _format_by_name(source: str) -> str | None:
    """Detect the file format from the extension; return None if the content must be inspected."""
    suffix = "" if source == "-" else decompressed_suffix(Path(source))
    if suffix in _DETECTED_BY_CONTENT:
        return None
    if suffix not in _BY_SUFFIX:
        if not Path(source).exists():
            raise missing_file_error(source)
        raise DataError(
            f"{source}: the extension '{suffix}' is not that of a known format. Name the format "
            f"with --format, one of {', '.join(FORMATS)}, or convert the file."
        )
    return _BY_SUFFIX[suffix]


def _format_by_content(head: bytes, *, has_suffix: bool) -> str:
    """Detect the file format from the first lines of the content.

    Only a file without an extension can be CSV or TSV.
    """
    if head.startswith(LABEL_PREFIX.encode()):
        return "fasttext"
    if head.lstrip().startswith(b"{"):
        return "jsonl"
    first_line = head.partition(b"\n")[0]
    if not has_suffix and b"\t" in first_line:
        return "tsv"
    return "csv" if not has_suffix and b"," in first_line and b" " not in first_line else "lines"
