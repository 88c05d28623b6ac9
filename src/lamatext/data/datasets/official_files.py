"""The files that the data sets are published as, read as they come."""

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
from lamatext.data.readers.compression import read_blocks
from lamatext.data.readers.csv_reader import Dialect, delimited_table
from lamatext.data.readers.folder_reader import has_part
from lamatext.errors import DataError

NEWS_COLUMNS = ("ID", "TITLE", "URL", "PUBLISHER", "CATEGORY", "STORY", "HOSTNAME", "TIMESTAMP")
YELP_SIZES = {"train": 500_000, "test": 4_000}
POLARITY_SIZES = {"train": 280_000, "test": 19_000}  # of each polarity
NEWS_SIZES = {"train": 151_328, "test": 32_428}

_STARS = re.compile(rb'"stars"\s*:\s*([0-9]+)')  # unescaped quotes: never inside the text
_LINES = Dialect(delimiter="\t", quoted=False, names=("label", "text"))


def first_file(folder: Path, *patterns: str) -> Path | None:
    """The first file that matches, in the folder or one below."""
    found = (sorted((*folder.glob(p), *folder.glob(f"*/{p}"))) for p in patterns)
    return next(chain.from_iterable(found), None)


def yelp(file: Path, split: str) -> Dataset:
    """500,000 and 4,000 reviews of Yelp's review.json, by seed; the label is the stars."""
    stars = _all_stars(file)
    rows = derived_sets.sample(len(stars), **YELP_SIZES)[split]
    return _reviews(file, rows, [str(star) for star in stars[rows]])


def yelp_polarity(file: Path, split: str, polarity: dict[str, str]) -> Dataset:
    """280,000 and 19,000 reviews of each polarity out of review.json, at random by seed."""
    stars = _all_stars(file).astype(str)
    names = np.array([polarity.get(star, "") for star in stars])
    parts = []
    for number, name in enumerate(("neg", "pos")):
        having = np.flatnonzero(names == name)
        picked = derived_sets.sample(len(having), **POLARITY_SIZES, seed=derived_sets.SEED + number)
        parts.append(having[picked[split]])
    rows = np.sort(np.concatenate(parts))
    return _reviews(file, rows, names[rows].tolist())


def _all_stars(file: Path) -> NDArray[np.int64]:
    """The stars of every review, found without parsing its text."""
    stars: list[int] = []
    for number, line in _review_lines(file):
        match = _STARS.search(line)
        if match is None:
            raise DataError(f"{file}:{number}: expected a review with stars, got {line[:60]!r}.")
        stars.append(int(match[1]))
    return np.array(stars, np.int64)


def _reviews(file: Path, rows: NDArray[np.int64], labels: list[str]) -> Dataset:
    wanted = iter(rows.tolist())
    following = next(wanted, None)
    chunks: list[pa.Array] = []
    texts: list[str] = []
    for row, (_, line) in enumerate(_review_lines(file)):
        if row == following:
            texts.append(json.loads(line)["text"])
            following = next(wanted, None)
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


def polarity_csv(file: Path) -> Dataset:
    """A published polarity file: no header, "1" negative or "2" positive, line ends escaped."""
    table = delimited_table(
        str(file), read_blocks(str(file)), Dialect(delimiter=",", names=("label", "text"))
    )
    corpus = derived_sets.relabel(
        table.to_dataset("text", "label", str(file)), {"1": "neg", "2": "pos"}
    )
    return replace(corpus, texts=pc.replace_substring(corpus.texts, "\\n", "\n"))


def acl_imdb(folder: Path, split: str) -> Path | None:
    """The folder itself or the aclImdb in it, whichever holds that part in that layout."""
    return next((root for root in (folder, folder / "aclImdb") if has_part(root, split)), None)


def news_corpora(file: Path, split: str) -> Dataset:
    """Headlines of newsCorpora.csv, at random by seed in the paper's numbers."""
    dialect = Dialect(delimiter="\t", quoted=False, names=NEWS_COLUMNS)
    table = delimited_table(str(file), read_blocks(str(file)), dialect)
    corpus = table.to_dataset("TITLE", "CATEGORY", str(file))
    return corpus.take(derived_sets.sample(len(corpus), **NEWS_SIZES)[split])


def cachopo(file: Path) -> Dataset:
    """A file of Cachopo's, or Orange's copy of it: ``label<TAB>text``, perhaps with a header."""
    table = delimited_table(str(file), read_blocks(str(file)), _LINES)
    corpus = table.to_dataset("text", "label", str(file))
    headers = {"Class", "Category", "d", "class"}  # Orange writes three such lines
    assert corpus.labels is not None
    first = corpus.labels.slice(0, 4).to_pylist()
    skipped = next((n for n, label in enumerate(first) if label not in headers), len(first))
    return corpus.take(np.arange(skipped, len(corpus)))
