"""File of suspect labels: the rows that ``lamatext train --without`` leaves out.

A row is matched by its number, which is its line in the data file, and by a hash of its text. A row
whose label differs from the listed label is kept. Every listed row also has the number and a hash
of all texts, so that added or changed rows that are not listed are noticed, too.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset
from lamatext.data.labels import label_key
from lamatext.data.sources import open_table
from lamatext.errors import DataError, plural

ROW, TEXT_HASH, LABEL, DATA = "row", "text_hash", "label", "data"
_ROW_NUMBER, _HASH = re.compile("[0-9]{1,18}"), re.compile("[0-9a-f]{16}")
COLUMNS = (
    ROW, "score", LABEL, "suggested_label", "label_probability", "suggested_probability",
    "reason", "supporting_words", "text", TEXT_HASH, DATA,
)  # fmt: skip


def text_hash(text: str) -> str:
    """Return the hash (16 hex digits) that identifies a text in the suspects file."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def describe_texts(dataset: Dataset) -> str:
    """Describe a dataset by its number of texts and their hash, for the suspects file.

    The description is compared later, to detect that the dataset has changed.
    """
    return f"{plural(len(dataset), 'text')}, hash {fingerprint(dataset.texts)[:16]}"


def suspects_table(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    """Convert texts with suspect labels to a record batch with the columns of the suspects file."""
    numbers = {"score": pa.float64(), "label_probability": pa.float64()}
    numbers |= {"suggested_probability": pa.float64(), ROW: pa.int64()}
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in COLUMNS])
    return pa.RecordBatch.from_pylist(list(rows), schema)


def leave_out_suspects(dataset: Dataset, path: Path, *, is_test_held_out: bool = True) -> Dataset:
    """Remove the rows listed in a suspects file from a dataset.

    A row is kept if its label differs from the listed label, because it must have been corrected.
    If the test texts will be held out of the dataset, a note says that they lack these rows, too.

    Raises:
        DataError: the file is not a suspects file, or the data has changed since it was written.
    """
    row_of_line = {line: row for row, line in enumerate(dataset.row_numbers.tolist())}
    labels = dataset.require_labels()
    dropped, corrected = set[int](), set[int]()
    listed_rows = _read_rows(path)
    for line, expected, label, _ in listed_rows:
        row = row_of_line.get(line)
        if row is None or text_hash(dataset.texts[row].as_py()) != expected:
            found = "has no usable row there" if row is None else "has another text there"
            raise DataError(
                f"{path}: lists row {line:,}, but {dataset.source} {found}. The data, or the way "
                "it is read, has changed: run `lamatext clean` again, with the same options."
            )
        listed = {label_key(label), label_key(label.removeprefix("'"))}  # of --safe-csv
        is_corrected = label and label_key(str(labels[row].as_py())) not in listed
        (corrected if is_corrected else dropped).add(row)
    # --time-column skips rows that `lamatext clean` has read
    descriptions = {row[-1] for row in listed_rows} if dataset.times is None else {""}
    for description in descriptions - {""}:
        _check_all_texts(dataset, description, path)
    kept = np.setdiff1d(np.arange(len(dataset)), np.array(sorted(dropped), np.int64))
    if not len(kept):
        raise DataError(f"{path}: lists every text of {dataset.source}. Keep some of them.")
    rest = replace(dataset.take(kept), left_out=tuple(sorted(dropped)))
    notes = [*rest.notes, *_notes(path, len(dropped), len(corrected), is_test_held_out)]
    if listed_rows and "" in descriptions:
        notes.append(f"Rows that {path} does not list are not checked for changes.")
    return replace(rest, notes=tuple(notes))


def _check_all_texts(dataset: Dataset, listed: str, path: Path) -> None:
    """Raise DataError if the dataset has changed since the suspects file was written."""
    description = describe_texts(dataset)
    if listed != description:
        raise DataError(
            f"{path}: is a list for {listed[:60]}, but {dataset.source} has {description}. Rows "
            "were added, deleted or changed, or the data is read in another way: run `lamatext "
            "clean` again, with the same options."
        )


def _notes(path: Path, dropped: int, corrected: int, is_test_held_out: bool) -> Iterator[str]:
    """Yield messages that count the rows of the suspects file that are left out, or kept.

    A row is kept if its label was corrected.
    """
    if dropped:
        warning = (
            " Test texts that are held out of the rest lack them, too, so their scores are higher "
            "than those on all texts."
        )
        left_out = f"{plural(dropped, 'row is', 'rows are')} left out, as {path} lists."
        yield left_out + (warning if is_test_held_out else "")
    if corrected:
        yield (
            f"{plural(corrected, 'row')} that {path} lists stay{'s' if corrected == 1 else ''} in "
            "the data: the label is no longer the listed one, so it was corrected."
        )


def _read_rows(path: Path) -> list[tuple[int, str, str, str]]:
    """Read row numbers, text hashes, labels and dataset descriptions from a suspects file.

    The last two may be empty.
    """
    rows: list[tuple[int, str, str, str]] = []
    for batch in open_table(str(path)).all_batches():
        names = batch.schema.names
        is_once = all(names.count(name) == 1 for name in (ROW, TEXT_HASH))
        if not is_once or any(names.count(name) > 1 for name in (LABEL, DATA)):
            raise DataError(
                f"{path}: expected the columns {ROW!r} and {TEXT_HASH!r} of a file that `lamatext "
                f"clean` has written, got {', '.join(map(repr, names[:8]))}."
            )
        numbers, hashes = (batch.column(name).to_pylist() for name in (ROW, TEXT_HASH))
        labels, descriptions = (
            batch.column(name).to_pylist() if name in names else [None] * len(batch)
            for name in (LABEL, DATA)
        )
        for number, value, label, data in zip(numbers, hashes, labels, descriptions, strict=True):
            digits, digest = str(number).strip(), str(value).strip().lower()
            if not _ROW_NUMBER.fullmatch(digits) or not _HASH.fullmatch(digest):
                raise DataError(
                    f"{path}: expected a row number and a text hash of 16 hexadecimal digits in "
                    f"every row, got {str(number)[:40]!r} and {str(value)[:40]!r}."
                )
            rows.append((int(digits), digest, str(label or ""), str(data or "").strip()))
    return rows
