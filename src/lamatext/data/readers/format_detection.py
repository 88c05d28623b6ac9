"""File format detection: choose the reader of a file by its extension or its first lines."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from lamatext.data.read_options import Layout, ReadOptions, source_name
from lamatext.data.readers.csv_reader import (
    SEPARATOR_LINE,
    SEPARATORS,
    Dialect,
    csv_table,
    describe_dialect,
    first_rows,
    parse_separator,
    read_separator_line,
    regularity,
    remembered_dialect,
    sample_dialect,
    split_lines,
)
from lamatext.data.readers.excel_reader import excel_table
from lamatext.data.readers.input_files import (
    OTHER_ARCHIVES,
    UNPACK,
    Block,
    decompressed_suffix,
    missing_file_error,
    read_blocks,
)
from lamatext.data.readers.jsonl_reader import jsonl_table
from lamatext.data.readers.parquet_reader import parquet_table
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import DEFAULTS, Table
from lamatext.data.readers.text_encoding import check_encoding
from lamatext.data.readers.text_lines_reader import LABEL_PREFIX, fasttext_table, plain_lines_table
from lamatext.data.readers.title_rows import skip_titles
from lamatext.errors import DataError

_TEXT_READERS: dict[str, Callable[[str, Iterator[Block], ReadLog], Table]] = {
    "jsonl": jsonl_table,
    "fasttext": fasttext_table,
    "lines": plain_lines_table,
}
_BINARY_READERS: dict[str, Callable[[str, int, ReadLog], Table]] = {
    "parquet": parquet_table,
    "xlsx": excel_table,
}
FORMATS = ("csv", "tsv", "jsonl", "parquet", "xlsx", "fasttext", "lines")
FORMAT_OF_SUFFIX = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".ft": "fasttext",
    ".xlsx": "xlsx", ".xlsm": "xlsx",
}  # fmt: skip
_DETECTED_BY_CONTENT = {"", ".txt", ".text", ".data", ".train", ".test", ".valid"}
_SAMPLE = 1 << 15  # bytes
_REGULAR_ROWS = 10  # rows with the same number of separators that make a text file a table


def file_table(source: str, options: ReadOptions = DEFAULTS) -> Table:
    """Open a file as a table, detecting the file format if none is given.

    The source ``-`` is stdin. A record of more than ``options.max_record`` bytes is an error.
    """
    name = source_name(source)
    log = ReadLog(name, options.max_bad_rows)
    format = options.format
    if format is None:
        format = _format_by_name(source)
    elif format not in FORMATS:
        raise DataError(f"unknown format '{format}'. Known formats are {', '.join(FORMATS)}.")
    if format in _BINARY_READERS:
        log.format = format
        return _BINARY_READERS[format](source, options.max_record, log)
    blocks = read_blocks(
        source,
        options.max_record,
        encoding=None if options.encoding is None else check_encoding(options.encoding),
        expected_encoding=None if options.remembered is None else options.remembered.encoding,
        log=log,
    )
    if format is None:
        first = next(blocks, None)
        if first is None:
            raise DataError(f"{name}: the file is empty. Expected one text or more.")
        format = _format_by_content(first, has_suffix=bool(Path(source).suffix))
        blocks = chain([first], blocks)
    log.format = format
    if format in ("csv", "tsv"):
        return _csv_table(name, blocks, options, log)
    return _TEXT_READERS[format](name, blocks, log)


def _csv_table(name: str, blocks: Iterator[Block], options: ReadOptions, log: ReadLog) -> Table:
    """Open a CSV or TSV file as a table, detecting its format unless the options specify it."""
    named, blocks = read_separator_line(blocks)
    first = first_rows(blocks)
    if first is None:
        raise DataError(f"{name}: the file is empty. Expected a header line and rows.")
    trained, separator = options.remembered, options.separator or named
    separators = SEPARATORS if separator is None else parse_separator(separator)
    expects_header = trained is None or trained.header
    names = _expected_columns(options)
    table_rows = skip_titles(first, separators, names, log, expects_header=expects_header)
    first = table_rows or first
    dialect: Dialect | None = None
    if separator is not None:
        dialect = sample_dialect(first, separators)
    elif options.remembered is not None:
        dialect = remembered_dialect(first, options.remembered)
    if dialect is None:
        first_line = first.data.partition(b"\n")[0]
        is_tsv = log.format == "tsv" and b"\t" in first_line
        dialect = sample_dialect(first, "\t" if is_tsv else SEPARATORS)
    table = csv_table(
        name,
        chain([first], blocks),
        dialect=dialect,
        has_header=options.has_header if table_rows is None else True,
        expects_header=expects_header,
        max_record=options.max_record,
        log=log,
    )
    if options.separator is None and len(table.columns) > 1:
        log.notes[:0] = _dialect_notes(dialect, log.format, options.remembered, named)
    return table


def _expected_columns(options: ReadOptions) -> tuple[str, ...]:
    """Return the columns that are requested or were used in training, to recognize a header."""
    trained = options.remembered or Layout((), ())
    return (
        *(options.text_columns or trained.text_columns),
        *(options.label_columns or trained.label_columns),
    )


def _dialect_notes(
    dialect: Dialect, format: str | None, remembered: Layout | None, named: str | None
) -> list[str]:
    """Return notes for the user on the detected separator and quotes of a CSV file.

    There are none if these are the default ones and do not differ from those of the model's
    training file. ``named`` is the separator that the file itself names, if it does.
    """
    trained = dialect
    if remembered is not None and remembered.separator is not None:
        trained = Dialect(remembered.separator, remembered.quote)
    usual = Dialect("\t" if format == "tsv" else ",", '"')
    if dialect == usual == trained:
        return []
    if named is not None:
        return [f"{describe_dialect(dialect)} (from the line sep= at the top of the file)"]
    unlike = f", unlike the training file ({describe_dialect(trained)})"
    detected = f"{describe_dialect(dialect)}, detected{'' if dialect == trained else unlike}"
    return [f"{detected}; --separator names another one"]


def is_table_file(path: Path) -> bool:
    """Return whether a file exists and has the extension of a known table format."""
    return decompressed_suffix(path) in FORMAT_OF_SUFFIX and path.is_file()


def _format_by_name(source: str) -> str | None:
    """Detect the file format from the extension, or return None if that is not conclusive."""
    suffix = "" if source == "-" else decompressed_suffix(Path(source))
    if suffix in _DETECTED_BY_CONTENT:
        return None
    if suffix not in FORMAT_OF_SUFFIX:
        if not Path(source).exists():
            raise missing_file_error(source)
        if suffix in OTHER_ARCHIVES:
            raise DataError(f"{source}: {suffix} files are not read. {UNPACK}.")
        raise DataError(
            f"{source}: the extension '{suffix}' is not that of a known format. Name the format "
            f"with --format, one of {', '.join(FORMATS)}, or convert the file."
        )
    return FORMAT_OF_SUFFIX[suffix]


def _format_by_content(first: Block, *, has_suffix: bool) -> str:
    """Detect the file format from the first lines of the content.

    A text file is CSV or TSV if many rows have the same number of fields.
    """
    head = first.data
    prefix = LABEL_PREFIX.encode()
    if head.startswith(prefix) or b"\n" + prefix in head:  # some lines may lack a label
        return "fasttext"
    if re.match(rb"\s*(\[\s*)?\{", head):
        return "jsonl"
    if SEPARATOR_LINE.match(head):
        return "csv"
    first_line = head.partition(b"\n")[0]
    if not has_suffix and b"\t" in first_line:
        return "tsv"
    if not has_suffix and b"," in first_line and b" " not in first_line:
        return "csv"
    lines = split_lines(head[:_SAMPLE].decode(errors="ignore"))
    share, _ = regularity(lines, sample_dialect(first), is_cut=len(head) > _SAMPLE)
    return "csv" if share == 1 and len(lines) >= _REGULAR_ROWS else "lines"
