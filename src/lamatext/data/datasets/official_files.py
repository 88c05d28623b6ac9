"""Official files of known data sets, read in the format in which they were published."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.data.datasets import derived_sets
from lamatext.data.readers.csv_reader import Dialect, csv_table
from lamatext.data.readers.folder_reader import folder_has_split
from lamatext.data.readers.line_blocks import read_blocks
from lamatext.errors import DataError

NEWS_COLUMNS = ("ID", "TITLE", "URL", "PUBLISHER", "CATEGORY", "STORY", "HOSTNAME", "TIMESTAMP")
YELP_SIZES = {"train": 500_000, "test": 4_000}
POLARITY_SIZES = {"train": 280_000, "test": 19_000}  # reviews of each polarity
NEWS_SIZES = {"train": 151_328, "test": 32_428}

_STARS = re.compile(rb'"stars"\s*:\s*([0-9]+)')  # unescaped quotes never occur inside the text
_TAB_SEPARATED = Dialect(delimiter="\t", quoted=False, names=("label", "text"))


def first_file(folder: Path, *patterns: str) -> Path | None:
    """Return the first official file that matches a pattern, in the folder or one level below."""
    matches = (sorted((*folder.glob(p), *folder.glob(f"*/{p}"))) for p in patterns)
    return next(chain.from_iterable(matches), None)


def read_yelp(file: Path, split: str) -> Dataset:
    """Sample 500,000 training and 4,000 test reviews from Yelp's official review.json."""
    stars = _all_stars(file)
    rows = derived_sets.sample_splits(len(stars), **YELP_SIZES)[split]
    return _read_reviews(file, rows, [str(star) for star in stars[rows]])


def read_yelp_polarity(file: Path, split: str, polarity: dict[str, str]) -> Dataset:
    """Sample training and test reviews, as many of each polarity, from Yelp's review.json."""
    stars = _all_stars(file).astype(str)
    names = np.array([polarity.get(star, "") for star in stars])
    parts = []
    for number, name in enumerate(("neg", "pos")):
        candidates = np.flatnonzero(names == name)
        picked = derived_sets.sample_splits(
            len(candidates), **POLARITY_SIZES, seed=derived_sets.SEED + number
        )
        parts.append(candidates[picked[split]])
    rows = np.sort(np.concatenate(parts))
    return _read_reviews(file, rows, names[rows].tolist())


def _all_stars(file: Path) -> NDArray[np.int64]:
    """Return the stars of every review in the official review.json without parsing its text."""
    stars: list[int] = []
    for number, line in _review_lines(file):
        match = _STARS.search(line)
        if match is None:
            raise DataError(f"{file}:{number}: expected a review with stars, got {line[:60]!r}.")
        stars.append(int(match[1]))
    return np.array(stars, np.int64)


def _read_reviews(file: Path, rows: NDArray[np.int64], labels: list[str]) -> Dataset:
    remaining = iter(rows.tolist())
    next_row = next(remaining, None)
    chunks: list[pa.Array] = []
    texts: list[str] = []
    for row, (_, line) in enumerate(_review_lines(file)):
        if row == next_row:
            texts.append(json.loads(line)["text"])
            next_row = next(remaining, None)
        if len(texts) == 8192:
            chunks.append(pa.array(texts, pa.large_string()))
            texts = []
    chunks.append(pa.array(texts, pa.large_string()))
    columns = pa.chunked_array(chunks), pa.chunked_array([labels], pa.string())
    return Dataset(*columns, source=str(file), text_column="text", label_column="stars")


def _review_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    for block in read_blocks(str(file)):
        for number, line in enumerate(block.data.split(b"\n"), start=block.line):
            if line.strip():
                yield number, line


def read_polarity_csv(file: Path) -> Dataset:
    """Read an official polarity CSV: no header, label "1" or "2", escaped line ends."""
    table = csv_table(
        str(file), read_blocks(str(file)), Dialect(delimiter=",", names=("label", "text"))
    )
    dataset = derived_sets.rename_labels(
        table.to_dataset("text", "label", str(file)), {"1": "neg", "2": "pos"}
    )
    return replace(dataset, texts=pc.replace_substring(dataset.texts, "\\n", "\n"))


def find_acl_imdb(folder: Path, split: str) -> Path | None:
    """Return the folder of the official IMDB files (aclImdb) that has the split, if any."""
    roots = (folder, folder / "aclImdb")
    return next((root for root in roots if folder_has_split(root, split)), None)


def read_news_corpora(file: Path, split: str) -> Dataset:
    """Sample headlines from the official newsCorpora.csv, as many as in the paper."""
    dialect = Dialect(delimiter="\t", quoted=False, names=NEWS_COLUMNS)
    table = csv_table(str(file), read_blocks(str(file)), dialect)
    dataset = table.to_dataset("TITLE", "CATEGORY", str(file))
    return dataset.take(derived_sets.sample_splits(len(dataset), **NEWS_SIZES)[split])


def read_cachopo(file: Path) -> Dataset:
    """Read an official R8 file of Cachopo or Orange's copy: ``label<TAB>text``, maybe a header."""
    table = csv_table(str(file), read_blocks(str(file)), _TAB_SEPARATED)
    dataset = table.to_dataset("text", "label", str(file))
    headers = {"Class", "Category", "d", "class"}  # Orange has three header lines
    first = dataset.require_labels().slice(0, 4).to_pylist()
    start = next((n for n, label in enumerate(first) if label not in headers), len(first))
    return dataset.take(np.arange(start, len(dataset)))
