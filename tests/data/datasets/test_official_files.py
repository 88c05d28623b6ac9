import json
from pathlib import Path

import numpy as np
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.datasets import derived_sets, official_files
from lamatext.errors import DataError


def rows(corpus: Dataset) -> list[tuple[str, str]]:
    assert corpus.labels is not None
    return list(zip(corpus.texts.to_pylist(), corpus.labels.to_pylist(), strict=True))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Yelp's review.json: one object a line, stars as a number with a point."""
    path = tmp_path / "review.json"
    lines = [
        json.dumps({"review_id": str(n), "stars": float(n % 5 + 1), "text": f'{n} "stars": 9\n'})
        for n in range(100)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official_files, "YELP_SIZES", {"train": 40, "test": 10})
    monkeypatch.setattr(official_files, "POLARITY_SIZES", {"train": 12, "test": 4})
    monkeypatch.setattr(official_files, "NEWS_SIZES", {"train": 6, "test": 2})


@pytest.mark.usefixtures("small")
def test_yelp_is_sampled_by_seed_into_disjoint_splits(reviews: Path) -> None:
    train, again, test = (
        official_files.read_yelp(reviews, part) for part in ("train", "train", "test")
    )

    assert (len(train), len(test)) == (40, 10)
    assert rows(train) == rows(again)
    assert not set(rows(train)) & set(rows(test))
    for text, stars in rows(train):
        assert int(text.split()[0]) % 5 + 1 == int(stars)


def test_fewer_reviews_are_split_in_the_same_proportion(reviews: Path) -> None:
    assert [len(official_files.read_yelp(reviews, part)) for part in ("train", "test")] == [99, 1]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("polarity", "negative", "positive"),
    [(derived_sets.PAPER_POLARITY, "12", "34"), (derived_sets.COMMON_POLARITY, "12", "45")],
)
def test_yelp_polarity_has_as_many_reviews_of_each_polarity(
    reviews: Path, polarity: dict[str, str], negative: str, positive: str
) -> None:
    train, test = (
        official_files.read_yelp_polarity(reviews, p, polarity) for p in ("train", "test")
    )

    labels = [label for _, label in rows(train)]
    assert (labels.count("neg"), labels.count("pos"), len(test)) == (12, 12, 8)
    assert not set(rows(train)) & set(rows(test))
    for text, label in rows(train):
        stars = str(int(text.split()[0]) % 5 + 1)
        assert stars in (negative if label == "neg" else positive)


def test_a_review_without_stars_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "review.json"
    path.write_text('{"stars": 1.0, "text": "a"}\n{"text": "b"}\n')

    with pytest.raises(DataError, match=r"review.json:2: expected a review with stars"):
        official_files.read_yelp(path, "train")


def test_polarity_files_have_no_header_and_escaped_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text('"1","Bad.\\nSaid ""no"", left."\n"2","Good."\n')

    assert rows(official_files.read_polarity_csv(path)) == [
        ('Bad.\nSaid "no", left.', "neg"),
        ("Good.", "pos"),
    ]


@pytest.mark.usefixtures("small")
def test_news_corpora_is_tab_separated_with_plain_quotes(tmp_path: Path) -> None:
    path = tmp_path / "newsCorpora.csv"
    lines = [f'{n}\t"Quote {n}\thttp://\tReuters\tb\ts{n}\thost\t139447\n' for n in range(10)]
    path.write_text("".join(lines))

    train, test = (official_files.read_news_corpora(path, part) for part in ("train", "test"))

    assert (len(train), len(test)) == (6, 2)
    assert rows(train)[0][0].startswith('"Quote')
    assert set(train.labels.to_pylist()) == {"b"} if train.labels is not None else False
    assert not set(rows(train)) & set(rows(test))


@pytest.mark.parametrize(
    "header", ["", "Class\tExample\n", "Category\tText\nd\tstring\nclass\t\n\n"]
)
def test_cachopos_files_with_and_without_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "r8-train-all-terms.txt"
    path.write_text(f"{header}earn\tchampion products \nacq\tsale\n")

    assert rows(official_files.read_cachopo(path)) == [
        ("champion products ", "earn"),
        ("sale", "acq"),
    ]


def stars(texts: list[str], labels: list[str]) -> Dataset:
    import pyarrow as pa

    return Dataset(pa.chunked_array([texts], pa.large_string()), pa.chunked_array([labels]), "x")


def test_long_texts_have_more_tokens_than_the_training_mean() -> None:
    train = stars(["a b", "a, b! don't"], ["1", "2"])  # 2 and 5 tokens
    test = stars(["a b c", "a b c d"], ["1", "2"])

    assert rows(derived_sets.long_texts(train, train)) == [("a, b! don't", "2")]
    assert rows(derived_sets.long_texts(test, train)) == [("a b c d", "2")]


def test_polarity_is_derived_from_stars_and_other_stars_are_dropped() -> None:
    corpus = stars(["a", "b", "c", "d", "e"], ["1", "2", "3", "4", "5"])

    common = derived_sets.polarity_from_stars(corpus, derived_sets.COMMON_POLARITY)
    paper = derived_sets.polarity_from_stars(corpus, derived_sets.PAPER_POLARITY)

    assert rows(common) == [("a", "neg"), ("b", "neg"), ("d", "pos"), ("e", "pos")]
    assert rows(paper) == [("a", "neg"), ("b", "neg"), ("c", "pos"), ("d", "pos")]


def test_a_sample_keeps_the_order_and_small_sets_stay_complete() -> None:
    corpus = stars([str(n) for n in range(20)], ["1"] * 20)

    some = [int(text) for text in derived_sets.sample_at_most(corpus, 5).texts.to_pylist()]

    assert len(some) == 5
    assert (np.diff(some) > 0).all()
    assert derived_sets.sample_at_most(corpus, 20) is corpus


def test_polarity_needs_labels() -> None:
    bare = Dataset(stars(["a"], ["1"]).texts, None, "reviews.csv")

    assert derived_sets.rename_labels(bare, {}) is bare
    with pytest.raises(DataError, match=r"reviews.csv: no stars to derive the polarity from"):
        derived_sets.polarity_from_stars(bare, derived_sets.COMMON_POLARITY)
