"""``DATA`` on the command line: a file, a folder, stdin, a known name, a set on the Hub."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lamatext.data import columns
from lamatext.data.corpus import Corpus, Table
from lamatext.data.folders import folder_table, has_part
from lamatext.data.tables import file_table
from lamatext.errors import DataError

HUB = "hf:"


def load(
    source: str,
    *,
    split: str = "train",
    text_column: str | None = None,
    label_column: str | None = None,
    format: str | None = None,
    labelled: bool = True,
) -> Corpus:
    """All texts and labels of ``source``; with ``labelled`` false, labels may be absent."""
    table = open_table(source, split=split, format=format)
    text = columns.choose_text(table.columns, text_column, table.name)
    choose = columns.choose_label if labelled else columns.find_label
    label = choose(table.columns, label_column, text, table.name)
    return collect(table, text, label, source)


def stream(
    source: str, *, split: str = "train", format: str | None = None
) -> Iterator[pa.RecordBatch]:
    """All columns as strings, batch by batch; stdin is one text a line unless ``format`` says."""
    if source == "-" and format is None:
        format = "lines"
    table = open_table(source, split=split, format=format)
    yield from table.batches(None)


def open_table(source: str, *, split: str = "train", format: str | None = None) -> Table:
    """The table behind what the user named."""
    if source != "-" and Path(source).is_dir():
        return folder_table(Path(source), split, format)
    if split != "train":
        raise DataError(f"{source}: a file has no part '{split}'. Name the file of that part.")
    return file_table(source, format)


def find_test(source: str) -> bool:
    """Whether ``source`` brings its own test part."""
    return Path(source).is_dir() and has_part(Path(source), "test")


def collect(table: Table, text: str, label: str | None, source: str) -> Corpus:
    """The corpus of two columns; a missing text is empty, a missing label is an error."""
    texts: list[pa.Array] = []
    labels: list[pa.Array] = []
    rows = 0
    for batch in table.batches([text] if label is None else [text, label]):
        texts.append(pc.fill_null(batch.column(text), "").cast(pa.large_string()))
        if label is not None:
            labels.append(_whole(batch.column(label), label, rows, table.name))
        rows += len(batch)
    if not rows:
        raise DataError(f"{table.name}: no rows. Expected one text or more.")
    return Corpus(
        texts=pa.chunked_array(texts, pa.large_string()),
        labels=None if label is None else pa.chunked_array(labels, pa.string()),
        source=source,
        text_column=text,
        label_column=label or "label",
    )


def _whole(labels: pa.Array, column: str, before: int, name: str) -> pa.Array:
    """The labels, none of them missing."""
    absent = pc.equal(pc.utf8_trim_whitespace(pc.fill_null(labels, "")), "")
    first = pc.index(absent, True).as_py()
    if first >= 0:
        raise DataError(
            f"{name}: row {before + first + 1} has no label in column '{column}'. "
            "Fill it in or leave the row out."
        )
    return labels
