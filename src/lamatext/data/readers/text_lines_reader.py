"""Reader of files with one text per line: plain lines and fastText's ``__label__`` lines."""

import json
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lamatext.data.readers.input_files import Block
from lamatext.data.readers.label_columns import LABEL_LISTS
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table

LABEL_PREFIX = "__label__"
_WHITE_SPACE = re.compile(r"[ \t\v\f\r\0]")  # that separates words in fastText


def plain_lines_table(name: str, blocks: Iterator[Block], log: ReadLog) -> Table:
    """Open a file of plain text lines as a table with one row per line and the column ``text``."""

    def batches(_: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            lines = usable_lines(block, log)
            log.line_of = [number for number, _ in lines].__getitem__
            texts = pa.array([line for _, line in lines], pa.string())
            yield pa.RecordBatch.from_arrays([texts], names=["text"])

    return Table(name, ("text",), batches, log)


def usable_lines(block: Block, log: ReadLog) -> list[tuple[int, str]]:
    """Return the text lines of a block with their line numbers, skipping undecodable lines."""
    lines = list(block.lines())
    for number, _ in lines if log.undecodable else ():
        if number in log.undecodable:
            log.skip_undecodable(number)
    return [line for line in lines if line[0] not in log.undecodable]


def fasttext_table(name: str, blocks: Iterator[Block], log: ReadLog) -> Table:
    """Open a file in fastText format as a table with the columns ``label`` and ``text``.

    A line is ``__label__NAME text``, with several ``__label__`` if the text has several labels.
    """

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            lines = [line for line in usable_lines(block, log) if line[1].strip()]
            log.line_of = [number for number, _ in lines].__getitem__
            rows = [_parse_line(line) for _, line in lines]
            columns = {
                "label": _label_array([labels for labels, _ in rows], as_json=wanted is None),
                "text": pa.array([text for _, text in rows], pa.string()),
            }
            names = list(wanted or columns)
            yield pa.RecordBatch.from_arrays([columns[column] for column in names], names=names)

    return Table(name, ("label", "text"), batches, log)


def _parse_line(line: str) -> tuple[list[str], str]:
    labels = []
    while line.startswith(LABEL_PREFIX):
        label, *rest = _WHITE_SPACE.split(line.removeprefix(LABEL_PREFIX), maxsplit=1)
        labels.append(label)
        line = "".join(rest).lstrip()
    return labels, line


def _label_array(rows: list[list[str]], *, as_json: bool) -> pa.Array:
    """Convert the labels of fastText lines to strings, or to lists if a line has several labels."""
    if all(len(labels) < 2 for labels in rows):
        return pa.array([labels[0] if labels else None for labels in rows], pa.string())
    if as_json:
        return pa.array([json.dumps(labels, ensure_ascii=False) for labels in rows], pa.string())
    return pa.array([labels or None for labels in rows], LABEL_LISTS)
