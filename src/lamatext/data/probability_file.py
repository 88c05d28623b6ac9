"""Probability files of a teacher model: tables with one column of probabilities per class.

The probabilities of a row sum to 1 unless a text may have several labels. The rows are matched with
the training data by an id column, by the text itself, or by their order.
Shapes: n texts, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.format_detection import FORMAT_OF_SUFFIX, file_table
from lamatext.data.readers.input_files import decompressed_suffix, missing_file_error
from lamatext.errors import DataError, plural

TOLERANCE = 1e-3  # of the sum of a row's probabilities
_NAMES_OF_TEXTS = ("text",)

Probabilities = NDArray[np.float32]  # (n, C)


class IdColumn(NamedTuple):
    """Column of ids that match the rows of a probability file to the texts of a dataset."""

    name: str  # of the column, in the data and in the file
    values: Sequence[str]  # one per text of the data


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Class probabilities from the probability file of a teacher model, looked up by text."""

    source: str
    rows: Mapping[str, int]  # row of the probabilities of each text
    probabilities: Probabilities

    def look_up(self, texts: Sequence[str]) -> Probabilities:
        """Return the class probabilities (n, C) of the given texts from the probability file."""
        missing = [text for text in texts if text not in self.rows]
        if missing:
            raise DataError(
                f"{self.source}: no probabilities for {len(missing)} of {len(texts)} texts; the "
                f"first is {missing[0][:60]!r}. Add a row for each text of the data."
            )
        return self.probabilities[[self.rows[text] for text in texts]]


def is_probability_file(teacher: object) -> bool:
    """Return whether ``teacher`` names a probability file; raise DataError if it is missing."""
    if not isinstance(teacher, str | PathLike):
        return False
    path = Path(teacher)
    if decompressed_suffix(path) in FORMAT_OF_SUFFIX and not path.exists():
        raise missing_file_error(str(path))
    return path.is_file()


def read_probability_columns(path: str | PathLike[str]) -> pa.Table:
    """Read a probability file (CSV, Parquet or another table format) as columns of strings."""
    # Without this, a header with a class such as 1 would be taken for a row of data.
    table = file_table(str(path), ReadOptions(has_header=True))
    return pa.Table.from_batches(table.all_batches())


def match_probabilities(  # noqa: PLR0913 - the file, the data, and how they match
    table: pa.Table,
    classes: Sequence[str],
    texts: Sequence[str],
    *,
    source: str,
    text_column: str | None = None,
    ids: IdColumn | None = None,
    multi_label: bool = False,
) -> ProbabilityTable:
    """Match the rows of a probability file with the texts of the training data.

    Args:
        table: the file as string columns: one per class and, to match by it, the texts or ids.
        classes: the labels of the training data, in the order of the result's columns.
        texts: all texts of the data in their order, labelled or not.
        source: the name of the file, for messages.
        text_column: the name of the data's text column; if the file has it, its rows match by text.
        ids: the ids of the texts; None matches by text or by order.
        multi_label: whether a text may have several labels, so that a row need not sum to 1.

    Raises:
        DataError: the columns are not the classes, the rows do not match the texts, or a row does
            not hold probabilities.
    """
    names = list(table.column_names)
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(f"{source}: several columns are called {repeated[0]!r}. Rename them.")
    key = next((name for name in (text_column, *_NAMES_OF_TEXTS) if name in names), None)
    if ids is not None:
        key = ids.name
        if key not in names:
            raise DataError(f"{source}: no column {key!r}, which --id-column names.")
    _check_classes(names, classes, {key, text_column}, source)
    values = _read_numbers(table.select(list(classes)), source, multi_label)
    if key is None:
        keys: Sequence[str] = texts
        if len(values) != len(texts):
            raise DataError(
                f"{source}: {plural(len(values), 'row')}, but the data has {len(texts)}. "
                "Rows match by their order, since the file has no column of texts: give one row "
                "per text, add the texts, or name a column of ids with --id-column."
            )
    else:
        keys = ["" if value is None else value for value in table.column(key).to_pylist()]
    pairs = [(name, row) for row, name in enumerate(keys)]
    if ids is not None:
        row_of_id = dict(pairs)
        if len(row_of_id) < len(keys):
            raise DataError(f"{source}: column {ids.name!r} has the same id in two rows.")
        known = zip(texts, ids.values, strict=True)
        pairs = [(text, row_of_id[i]) for text, i in known if i in row_of_id]
    return ProbabilityTable(source, _row_of_text(pairs, values, source), values)


def _row_of_text(
    pairs: Sequence[tuple[str, int]], values: Probabilities, source: str
) -> dict[str, int]:
    """Map each text to its row in the probability file; repeated texts must have equal rows."""
    rows: dict[str, int] = {}
    for text, row in pairs:
        first = rows.setdefault(text, row)
        if first != row and np.abs(values[first] - values[row]).max() > TOLERANCE:
            raise DataError(
                f"{source}: rows {first + 1} and {row + 1} have the same text, {text[:60]!r}, "
                "but different probabilities. Give both rows the mean of the two."
            )
    return rows


def _check_classes(
    names: Sequence[str], classes: Sequence[str], other: set[str | None], source: str
) -> None:
    missing = [name for name in classes if name not in names]
    if missing:
        raise DataError(
            f"{source}: no column for the class {missing[0]!r}. Expected one column of "
            f"probabilities per class: {', '.join(classes[:20])}."
        )
    unknown = [name for name in names if name not in classes and name not in other]
    if unknown:
        raise DataError(
            f"{source}: the column {unknown[0]!r} is not a class of the data. Remove it; "
            f"the classes are {', '.join(classes[:20])}."
        )


def _read_numbers(table: pa.Table, source: str, multi_label: bool) -> Probabilities:
    """Read and validate the probabilities (0 to 1) in each row of a probability file.

    Unless a text may have several labels, they must sum to 1.
    """
    columns = []
    for name in table.column_names:
        try:
            strings = ["nan" if value is None else value for value in table[name].to_pylist()]
            columns.append(np.array(strings, dtype=np.float64))
        except ValueError as error:
            raise DataError(f"{source}: column {name!r} must hold numbers: {error}.") from error
    values = np.stack(columns, axis=1)
    is_right = ((values >= 0) & (values <= 1 + TOLERANCE)).all(axis=1)  # false for NaN
    if not multi_label:
        is_right &= np.abs(values.sum(axis=1) - 1) <= TOLERANCE
    if not is_right.all():
        wrong = int(np.argmin(is_right))
        raise DataError(
            f"{source}: row {wrong + 1} is {np.round(values[wrong], 4).tolist()}, expected "
            f"probabilities from 0 to 1{'' if multi_label else ' with the sum 1'}."
        )
    if multi_label:
        return np.minimum(values, 1).astype(np.float32)
    scaled: Probabilities = (values / values.sum(axis=1, keepdims=True)).astype(np.float32)
    return scaled
