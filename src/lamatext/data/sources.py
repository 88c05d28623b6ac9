"""``DATA`` on the command line: a file, a folder, stdin, a known name, a set on the Hub."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lamatext.data import columns
from lamatext.data.dataset import Dataset
from lamatext.data.datasets.catalog import KNOWN, VARIANTS, lookup
from lamatext.data.datasets.locations import has_test, load_known
from lamatext.data.readers.file_formats import file_table
from lamatext.data.readers.folder_reader import folder_table, has_part
from lamatext.data.readers.hub_reader import PREFIX, hub_parts, hub_table
from lamatext.data.readers.table import Table
from lamatext.errors import DataError


def load_dataset(
    source: str,
    *,
    split: str = "train",
    text_column: str | None = None,
    label_column: str | None = None,
    format: str | None = None,
    labelled: bool = True,
) -> Dataset:
    """All texts and labels of ``source``; with ``labelled`` false, labels may be absent."""
    if _is_name(source) and text_column is None and label_column is None:
        return load_known(source, split)
    table = open_table(source, split=split, format=format)
    text = columns.choose_text(table.columns, text_column, table.name)
    choose = columns.choose_label if labelled else columns.find_label
    label = choose(table.columns, label_column, text, table.name)
    return table.to_dataset(text, label, source)


def open_table(source: str, *, split: str = "train", format: str | None = None) -> Table:
    """The table behind what the user named; a known name goes before a folder called the same."""
    if source.startswith(PREFIX):
        return hub_table(source, split)
    if _is_name(source):
        return _known_table(source, split)
    if source != "-" and Path(source).is_dir():
        return folder_table(Path(source), split, format)
    if split != "train":
        raise DataError(f"{source}: a file has no part '{split}'. Name the file of that part.")
    return file_table(source, format)


def has_test_split(source: str) -> bool:
    """Whether ``source`` brings its own test part."""
    if source.startswith(PREFIX):
        return "test" in hub_parts(source)
    if _is_name(source):
        return has_test(source)
    return Path(source).is_dir() and has_part(Path(source), "test")


def _is_name(source: str) -> bool:
    """Whether the source is the name of a known set, or can be nothing but a misspelt one."""
    if source in KNOWN or source in VARIANTS:
        return True
    if source == "-" or source.startswith(PREFIX):
        return False
    path = Path(source)
    if path.name == source and not path.suffix and not path.exists():
        lookup(source)  # says what name was perhaps meant
    return False


def _known_table(name: str, split: str) -> Table:
    corpus = load_known(name, split)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        table = pa.table({"text": corpus.texts.cast(pa.string()), "label": corpus.labels})
        return iter(table.select(wanted or ["text", "label"]).to_batches())

    return Table(name, ("text", "label"), batches)
