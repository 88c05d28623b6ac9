"""The paper's data sets from their official files, and the sets that are derived from them.

The folder ``$LAMATEXT_DATA/NAME`` of a data set may hold the files as published: Yelp's
review.json, the polarity CSV files, aclImdb, newsCorpora.csv, or Cachopo's R8 files.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.cache import fingerprint
from lamatext.data.dataset import Dataset
from lamatext.data.named_datasets import (
    DATA_VARIABLE,
    dataset_folder,
    find_location,
    read_r8_file,
)
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.csv_reader import Dialect, csv_table
from lamatext.data.readers.folder_reader import folder_has_split
from lamatext.data.readers.input_files import read_blocks
from lamatext.data.sources import load_dataset
from lamatext.errors import DataError

# Substitutes for data sets of the paper that may not be redistributed.
SUBSTITUTES = {
    "clothing": "yelp",
    "clothing-long": "yelp-long",
    "clothing-polarity": "yelp-polarity",
}

YELP_SIZES = {"train": 500_000, "test": 4_000}
POLARITY_SIZES = {"train": 280_000, "test": 19_000}  # reviews of each polarity
NEWS_SIZES = {"train": 151_328, "test": 32_428}
NEWS_COLUMNS = ("ID", "TITLE", "URL", "PUBLISHER", "CATEGORY", "STORY", "HOSTNAME", "TIMESTAMP")
SEED = 0

# Polarity of each number of stars; other stars are dropped. The paper's sentence for Yelp-P is
# "stars 1 and 2 negative, and 3 and 4 positive", which leaves 5 out.
PAPER_POLARITY = {"1": "neg", "2": "neg", "3": "pos", "4": "pos"}
COMMON_POLARITY = {"1": "neg", "2": "neg", "4": "pos", "5": "pos"}

BERT_BASE = "bert-base-uncased"
_BASES = {"yelp-long": "yelp", "clothing-long": "clothing", "clothing-polarity": "clothing"}
_REVIEWS = ("review.json*", "yelp_academic_dataset_review.json*")
_OFFICIAL_FILES = {
    "yelp": _REVIEWS,
    "yelp-polarity": _REVIEWS,
    "news": ("newsCorpora.csv*",),
    "r8": ("r8-{split}-all-terms.txt*",),
}
_INSTRUCTIONS = {  # which file of the publisher goes where
    "yelp": "yelp_academic_dataset_review.json (yelp.com/dataset) into {root}/yelp/",
    "yelp-long": (
        "yelp_academic_dataset_review.json (yelp.com/dataset) into {root}/yelp/: "
        "the long reviews are taken from it"
    ),
    "yelp-polarity": (
        "train.csv and test.csv of yelp_review_polarity_csv (Zhang et al. 2015) into "
        "{root}/yelp-polarity/, or yelp_academic_dataset_review.json into {root}/yelp/"
    ),
    "imdb": "the folder aclImdb of aclImdb_v1.tar.gz (Maas et al. 2011) into {root}/imdb/",
    "r8": "r8-train-all-terms.txt and r8-test-all-terms.txt (Cachopo) into {root}/r8/",
    "news": "newsCorpora.csv (UCI News Aggregator) into {root}/news/",
    "clothing-long": "train.parquet and test.parquet into {root}/clothing/",
    "clothing-polarity": "train.parquet and test.parquet into {root}/clothing/",
    BERT_BASE: (
        "config.json, model.safetensors, tokenizer.json and tokenizer_config.json of "
        "bert-base-uncased (huggingface.co) into {root}/bert-base-uncased/"
    ),
}

_STARS = re.compile(rb'"stars"\s*:\s*([0-9]+)')  # unescaped quotes never occur inside the text
# Words and punctuation marks, each a token, as spaCy and our own tokenizer count them.
_TOKEN = r"[\pL\pN\pM_]+(?:['’][\pL\pN\pM_]+)*|[^\pL\pN\pM_\s]"


def load_paper_dataset(name: str, split: str = "train") -> Dataset:
    """Load a data set of the paper from Parquet or official files, by derivation, or by its name.

    A source that is not a data set of the paper is loaded by ``lamatext.data.sources``.
    """
    folder = dataset_folder(name)
    if folder is not None and (folder / f"{split}.parquet").is_file():
        dataset: Dataset | None = load_dataset(str(folder), split=split)
    else:
        dataset = _read_official(name, folder, split)
    if dataset is None:
        dataset = _derive(name, split)
    if dataset is None:
        dataset = load_dataset(name, split=split)
        if name == "yelp":
            dataset = sample_at_most(dataset, YELP_SIZES[split])
    return replace(dataset, source=name, layout=Layout())


def is_available(name: str) -> bool:
    """Return whether both parts of a data set of the paper are on this machine."""
    return all(_has_part(name, split) for split in ("train", "test"))


def _has_part(name: str, split: str) -> bool:
    base = _BASES.get(name, name)
    is_found = any(find_location(each, split) is not None for each in (name, base))
    return is_found or _has_official(base, split)


def _has_official(name: str, split: str) -> bool:
    """Return whether the official files of one part are in the folder of a data set."""
    folders = [dataset_folder(name)]
    if name == "yelp-polarity":
        if folders[0] is not None and first_file(folders[0], f"{split}.csv*"):
            return True
        folders.append(dataset_folder("yelp"))
    for folder in filter(None, folders):
        if name == "imdb":
            if any(folder_has_split(root, split) for root in (folder, folder / "aclImdb")):
                return True
        elif first_file(folder, *(p.format(split=split) for p in _OFFICIAL_FILES.get(name, ()))):
            return True
    return False


def pretrained_folder(name: str) -> Path | None:
    """Return the folder of a pretrained encoder in ``$LAMATEXT_DATA``; None if incomplete."""
    folder = dataset_folder(name)
    if folder is None:
        return None
    needed = (("config.json",), ("*.safetensors", "pytorch_model.bin"), ("tokenizer.json",))
    return folder if all(first_file(folder, *names) for names in needed) else None


def files_fingerprint() -> str:
    """Return a hash of the data folder: its path, and name, size and time of its files.

    Of a folder of a data set only the files that are directly in it count.
    """
    root = Path(os.environ.get(DATA_VARIABLE) or ".").resolve()
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    files = sorted(path for folder in folders for path in folder.iterdir())
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return fingerprint(str(root), stats)


def describe_missing(name: str) -> str:
    """Say which official file a data set or encoder needs and where it goes."""
    root = os.environ.get(DATA_VARIABLE) or "DIR"
    note = "" if root != "DIR" else f" DIR is what --data or ${DATA_VARIABLE} names."
    files = _INSTRUCTIONS.get(name, "train.parquet and test.parquet into {root}/{name}/")
    return f"put {files.format(root=root, name=name)}.{note}"


def _read_official(name: str, folder: Path | None, split: str) -> Dataset | None:
    """Read the official files of a data set from its folder; None if they are not there."""
    if name == "yelp-polarity":
        return _read_official_polarity(folder, split)
    if folder is None:
        return None
    if name == "yelp" and (file := _find_reviews(folder)):
        return read_yelp(file, split)
    if name == "news" and (file := first_file(folder, "newsCorpora.csv*")):
        return read_news_corpora(file, split)
    if name == "r8" and (file := first_file(folder, f"r8-{split}-all-terms.txt*")):
        return read_r8_file(file)
    if name == "imdb":
        roots = (folder, folder / "aclImdb")
        root = next((root for root in roots if folder_has_split(root, split)), None)
        return None if root is None else load_dataset(str(root), split=split)
    return None


def _read_official_polarity(folder: Path | None, split: str) -> Dataset | None:
    """Read Yelp's official polarity from its CSV files or, in either folder, from review.json."""
    if folder is not None and (file := first_file(folder, f"{split}.csv*")):
        return read_polarity_csv(file)
    for place in filter(None, (folder, dataset_folder("yelp"))):
        if file := _find_reviews(place):
            return read_yelp_polarity(file, split, PAPER_POLARITY)
    return None


def first_file(folder: Path, *patterns: str) -> Path | None:
    """Return the first official file that matches a pattern, in the folder or one level below."""
    matches = (sorted((*folder.glob(p), *folder.glob(f"*/{p}"))) for p in patterns)
    return next(chain.from_iterable(matches), None)


def _find_reviews(folder: Path) -> Path | None:
    return first_file(folder, *_REVIEWS)


def _derive(name: str, split: str) -> Dataset | None:
    """Derive a data set of long texts or of polarities from its base; None for other names."""
    if name in ("yelp-long", "clothing-long"):
        base = name.removesuffix("-long")
        return long_texts(load_paper_dataset(base, split), load_paper_dataset(base))
    if name == "clothing-polarity":
        return polarity_from_stars(load_paper_dataset("clothing", split), COMMON_POLARITY)
    return None


def read_yelp(file: Path, split: str) -> Dataset:
    """Sample 500,000 training and 4,000 test reviews from Yelp's official review.json."""
    stars = _all_stars(file)
    rows = sample_splits(len(stars), **YELP_SIZES)[split]
    return _read_reviews(file, rows, [str(star) for star in stars[rows]])


def read_yelp_polarity(file: Path, split: str, polarity: dict[str, str]) -> Dataset:
    """Sample training and test reviews, as many of each polarity, from Yelp's review.json."""
    stars = _all_stars(file).astype(str)
    names = np.array([polarity.get(star, "") for star in stars])
    parts = []
    for number, name in enumerate(("neg", "pos")):
        candidates = np.flatnonzero(names == name)
        sample = sample_splits(len(candidates), **POLARITY_SIZES, seed=SEED + number)
        parts.append(candidates[sample[split]])
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
    wanted = set(rows.tolist())
    texts = (
        json.loads(line)["text"]
        for row, (_, line) in enumerate(_review_lines(file))
        if row in wanted
    )
    chunks = []
    while chunk := list(islice(texts, 8192)):
        chunks.append(pa.array(chunk, pa.large_string()))
    columns = pa.chunked_array(chunks, pa.large_string()), pa.chunked_array([labels], pa.string())
    return Dataset(*columns, source=str(file))


def _review_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    for block in read_blocks(str(file)):
        for number, line in enumerate(block.data.split(b"\n"), start=block.line):
            if line.strip():
                yield number, line


def read_polarity_csv(file: Path) -> Dataset:
    """Read an official polarity CSV: no header, label "1" or "2", escaped line ends."""
    blocks, columns = read_blocks(str(file)), ("label", "text")
    table = csv_table(str(file), blocks, dialect=Dialect(",", '"'), columns=columns)
    dataset = table.to_dataset().rename_labels({"1": "neg", "2": "pos"})
    return replace(dataset, texts=pc.replace_substring(dataset.texts, "\\n", "\n"))


def read_news_corpora(file: Path, split: str) -> Dataset:
    """Sample headlines from the official newsCorpora.csv, as many as in the paper."""
    blocks = read_blocks(str(file))
    table = csv_table(str(file), blocks, dialect=Dialect("\t", ""), columns=NEWS_COLUMNS)
    dataset = table.to_dataset(ReadOptions(("TITLE",), ("CATEGORY",)))
    return dataset.take(sample_splits(len(dataset), **NEWS_SIZES)[split])


def sample_splits(
    rows: int, train: int, test: int, seed: int = SEED
) -> dict[str, NDArray[np.int64]]:
    """Draw disjoint random rows for a derived training and test set, in ascending order.

    With fewer rows than requested, both sets shrink in proportion.
    """
    if rows < train + test:
        test = max(round(rows * test / (train + test)), 1)
        train = rows - test
    shuffled = np.random.default_rng(seed).permutation(rows)
    return {"train": np.sort(shuffled[:train]), "test": np.sort(shuffled[train : train + test])}


def long_texts(dataset: Dataset, train: Dataset) -> Dataset:
    """Derive the set of texts with more tokens than the mean of the training set."""
    return dataset.take(
        np.flatnonzero(_token_counts(dataset.texts) > _token_counts(train.texts).mean())
    )


def polarity_from_stars(dataset: Dataset, polarity: dict[str, str]) -> Dataset:
    """Derive a polarity set from star ratings; stars without a polarity are dropped."""
    stars = dataset.require_labels().to_pylist()
    rows = np.array([row for row, star in enumerate(stars) if star in polarity], np.int64)
    labels = pa.chunked_array([[polarity[stars[row]] for row in rows]], pa.string())
    return replace(dataset.take(rows), labels=labels)


def sample_at_most(dataset: Dataset, rows: int, seed: int = SEED) -> Dataset:
    """Derive a random subset of at most ``rows`` texts, in their original order."""
    if len(dataset) <= rows:
        return dataset
    return dataset.take(np.sort(np.random.default_rng(seed).permutation(len(dataset))[:rows]))


def _token_counts(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = pc.count_substring_regex(texts, _TOKEN).to_numpy()
    return counts
