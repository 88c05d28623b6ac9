"""Options for reading a data source, and the file layout that a saved model remembers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MAX_RECORD = 64_000_000  # bytes of a line, a CSV row or a text file, unless --max-record is given
DEFAULT_MAX_BAD_ROWS = 0.01  # share of rows that training skips
JOINT = "\n"  # between the values of several text columns


def source_name(source: str) -> str:
    """Return how messages refer to a data source: its name, or "standard input" for ``-``."""
    return "standard input" if source == "-" else source


def source_title(source: str) -> str:
    """Return a short name of a data source (the base name of a path) for titles and model cards."""
    name = Path(source_name(source)).name
    return source if source.startswith("hf:") or not name else name


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a data file: its columns, format, encoding, separator and quote character."""

    text_columns: tuple[str, ...] = ("text",)
    label_columns: tuple[str, ...] = ("label",)  # more than one: a 0/1 column for each label
    label_separator: str | None = None  # between the labels of a text in the label column
    format: str | None = None
    encoding: str = "utf-8"
    separator: str | None = None  # of a CSV file; None for other formats
    quote: str = '"'  # of a CSV file; empty if its fields are not quoted
    header: bool = True  # whether the first row of a CSV file has the column names
    merge_labels: bool = False  # whether labels that differ only in case or spaces are one label
    group_column: str | None = None
    time_column: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Layout":
        """Create the layout of the training file from the ``config.json`` of a saved model."""
        lists = {name: tuple(value[name]) for name in ("text_columns", "label_columns")}
        return cls(**{**value, **lists})

    def as_json(self) -> dict[str, Any]:
        """Return the layout of a data file as a JSON object for the ``config.json`` of a model."""
        lists = {name: list(getattr(self, name)) for name in ("text_columns", "label_columns")}
        return {**asdict(self), **lists}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading a data source; unspecified options are detected from the data."""

    text_columns: tuple[str, ...] = ()  # joined in this order
    label_columns: tuple[str, ...] = ()  # more than one: a 0/1 column for each label
    label_separator: str | None = None
    group_column: str | None = None  # rows with the same value stay in one part of a split
    time_column: str | None = None  # the newest rows are the test set
    format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    has_header: bool | None = None  # whether the first row of a CSV file has the column names
    max_record: int = MAX_RECORD
    max_bad_rows: float | None = None  # share of rows to skip; None: the first bad row is an error
    merge_labels: bool = False
    keep_lines: bool = False  # whether the dataset knows the line of each row
    keep_unlabelled: bool = False  # rows without a label are unlabelled texts, not bad rows
    remembered: Layout | None = None  # of a model's training file
