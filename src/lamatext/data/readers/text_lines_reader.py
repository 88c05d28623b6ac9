"""Reader of files with one text per line: plain lines and fastText's ``__label__`` lines."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lamatext.data.readers.input_files import Block
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

LABEL_PREFIX = "__label__"


def plain_lines_table(name: str, blocks: Iterator[Block]) -> Table:
    """Open a file of plain text lines as a table with one row per line.

    The only column is ``text``; an empty line is an empty text.
    """

    def batches(_: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            texts = pa.array([line for _, line in block.lines()], pa.string())
            yield pa.RecordBatch.from_arrays([texts], names=["text"])

    return Table(name, ("text",), batches)


def fasttext_table(name: str, blocks: Iterator[Block]) -> Table:
    """Open a file in fastText format as a table with the columns ``label`` and ``text``.

    A line is ``__label__NAME text``.
    """

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            rows = [_parse_line(name, *line) for line in block.lines() if line[1].strip()]
            columns = {
                "label": pa.array([label for label, _ in rows], pa.string()),
                "text": pa.array([text for _, text in rows], pa.string()),
            }
            names = list(wanted or columns)
            yield pa.RecordBatch.from_arrays([columns[column] for column in names], names=names)

    return Table(name, ("label", "text"), batches)


def _parse_line(name: str, number: int, line: str) -> tuple[str | None, str]:
    """Split a line in fastText format into the label, or None, and the text."""
    if not line.startswith(LABEL_PREFIX):
        return None, line
    label, _, text = line.removeprefix(LABEL_PREFIX).partition(" ")
    if text.lstrip().startswith(LABEL_PREFIX):
        raise DataError(
            f"{name}:{number}: several labels in one line ({line[:60]!r}); multi-label is not "
            f"supported. Keep one {LABEL_PREFIX} per line."
        )
    return label, text.lstrip()
