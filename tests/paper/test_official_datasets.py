import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data import named_datasets
from lamatext.data.dataset import Dataset
from lamatext.errors import DataError
from paper import official_datasets
from paper.official_datasets import (
    BERT_BASE,
    describe_missing,
    files_fingerprint,
    is_available,
    load_paper_dataset,
    pretrained_folder,
)


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
    monkeypatch.setattr(official_datasets, "YELP_SIZES", {"train": 40, "test": 10})
    monkeypatch.setattr(official_datasets, "POLARITY_SIZES", {"train": 12, "test": 4})
    monkeypatch.setattr(official_datasets, "NEWS_SIZES", {"train": 6, "test": 2})


@pytest.mark.usefixtures("small")
def test_yelp_is_sampled_by_seed_into_disjoint_splits(reviews: Path) -> None:
    train, again, test = (
        official_datasets.read_yelp(reviews, part) for part in ("train", "train", "test")
    )

    assert (len(train), len(test)) == (40, 10)
    assert rows(train) == rows(again)
    assert not set(rows(train)) & set(rows(test))
    for text, stars in rows(train):
        assert int(text.split()[0]) % 5 + 1 == int(stars)


def test_fewer_reviews_are_split_in_the_same_proportion(reviews: Path) -> None:
    assert [len(official_datasets.read_yelp(reviews, part)) for part in ("train", "test")] == [
        99,
        1,
    ]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("polarity", "negative", "positive"),
    [
        (official_datasets.PAPER_POLARITY, "12", "34"),
        (official_datasets.COMMON_POLARITY, "12", "45"),
    ],
)
def test_yelp_polarity_has_as_many_reviews_of_each_polarity(
    reviews: Path, polarity: dict[str, str], negative: str, positive: str
) -> None:
    train, test = (
        official_datasets.read_yelp_polarity(reviews, p, polarity) for p in ("train", "test")
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
        official_datasets.read_yelp(path, "train")


def test_polarity_files_have_no_header_and_escaped_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text('"1","Bad.\\nSaid ""no"", left."\n"2","Good."\n')

    assert rows(official_datasets.read_polarity_csv(path)) == [
        ('Bad.\nSaid "no", left.', "neg"),
        ("Good.", "pos"),
    ]


@pytest.mark.usefixtures("small")
def test_news_corpora_is_tab_separated_with_plain_quotes(tmp_path: Path) -> None:
    path = tmp_path / "newsCorpora.csv"
    lines = [f'{n}\t"Quote {n}\thttp://\tReuters\tb\ts{n}\thost\t139447\n' for n in range(10)]
    path.write_text("".join(lines))

    train, test = (official_datasets.read_news_corpora(path, part) for part in ("train", "test"))

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

    assert rows(named_datasets.read_r8_file(path)) == [
        ("champion products ", "earn"),
        ("sale", "acq"),
    ]


def stars(texts: list[str], labels: list[str]) -> Dataset:
    return Dataset(pa.chunked_array([texts], pa.large_string()), pa.chunked_array([labels]), "x")


def test_long_texts_have_more_tokens_than_the_training_mean() -> None:
    train = stars(["a b", "a, b! don't"], ["1", "2"])  # 2 and 5 tokens
    test = stars(["a b c", "a b c d"], ["1", "2"])

    assert rows(official_datasets.long_texts(train, train)) == [("a, b! don't", "2")]
    assert rows(official_datasets.long_texts(test, train)) == [("a b c d", "2")]


def test_polarity_is_derived_from_stars_and_other_stars_are_dropped() -> None:
    corpus = stars(["a", "b", "c", "d", "e"], ["1", "2", "3", "4", "5"])

    common = official_datasets.polarity_from_stars(corpus, official_datasets.COMMON_POLARITY)
    paper = official_datasets.polarity_from_stars(corpus, official_datasets.PAPER_POLARITY)

    assert rows(common) == [("a", "neg"), ("b", "neg"), ("d", "pos"), ("e", "pos")]
    assert rows(paper) == [("a", "neg"), ("b", "neg"), ("c", "pos"), ("d", "pos")]


def test_a_sample_keeps_the_order_and_small_sets_stay_complete() -> None:
    corpus = stars([str(n) for n in range(20)], ["1"] * 20)

    some = [int(text) for text in official_datasets.sample_at_most(corpus, 5).texts.to_pylist()]

    assert len(some) == 5
    assert (np.diff(some) > 0).all()
    assert official_datasets.sample_at_most(corpus, 20) is corpus


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $LAMATEXT_DATA, no packages with data, no Hub."""
    monkeypatch.setenv("LAMATEXT_DATA", str(tmp_path))
    monkeypatch.setattr(named_datasets, "_package_file", lambda *_: None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    return tmp_path


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def put_parquet(folder: Path, split: str, dataset: Dataset) -> None:
    folder.mkdir(exist_ok=True)
    table = pa.table({"text": dataset.texts, "label": dataset.labels})
    pq.write_table(table, folder / f"{split}.parquet")


def loaded(name: str, split: str = "train") -> list[tuple[str, str]]:
    dataset = load_paper_dataset(name, split)
    assert dataset.source == name
    return rows(dataset)


def test_clothing_long_and_polarity_are_derived_from_clothing(root: Path) -> None:
    put_parquet(root / "clothing", "train", stars(["a", "a b c", "a b c d"], ["1", "3", "5"]))
    put_parquet(root / "clothing", "test", stars(["a b c"], ["4"]))

    assert loaded("clothing-long") == [("a b c", "3"), ("a b c d", "5")]
    assert loaded("clothing-long", "test") == [("a b c", "4")]
    assert loaded("clothing-polarity") == [("a", "neg"), ("a b c d", "pos")]


def test_a_derived_set_that_is_already_a_parquet_file_is_read(root: Path) -> None:
    put_parquet(root / "clothing-long", "train", stars(["a"], ["1"]))

    assert loaded("clothing-long") == [("a", "1")]


def test_yelp_and_its_derived_sets_are_made_from_review_json(root: Path) -> None:
    reviews = [{"stars": n % 5 + 1.0, "text": "word " * (n + 1)} for n in range(200)]
    lines = "\n".join(map(json.dumps, reviews))
    put(root, {"yelp/yelp_academic_dataset_review.json": lines})

    assert len(loaded("yelp")) == 198
    assert 0 < len(loaded("yelp-long")) < 198
    assert {label for _, label in loaded("yelp-polarity")} == {"neg", "pos"}


def test_yelp_without_official_files_is_sampled(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official_datasets, "YELP_SIZES", {"train": 2, "test": 1})
    hub = stars(["a", "b", "c"], ["1", "2", "3"])
    monkeypatch.setattr(official_datasets, "load_dataset", lambda *_, **__: hub)

    assert not list(root.iterdir())
    assert len(loaded("yelp")) == 2


def test_official_files_are_found_in_the_folder_or_one_below(root: Path) -> None:
    files = {
        "yelp-polarity/yelp_review_polarity_csv/train.csv": '"1","bad"\n',
        "imdb/aclImdb/train/pos/0_9.txt": "good",
        "news/newsCorpora.csv": "1\thead\tu\tp\te\ts\th\tt\n2\tline\tu\tp\tb\ts\th\tt\n",
        "r8/r8-train-all-terms.txt": "earn\tprofit\n",
    }
    put(root, files)

    assert loaded("yelp-polarity") == [("bad", "neg")]
    assert loaded("imdb") == [("good", "pos")]
    assert len(loaded("news")) == 1
    assert loaded("r8") == [("profit", "earn")]


OFFICIAL = {
    "yelp": ("yelp/yelp_academic_dataset_review.json",),
    "yelp-long": ("yelp/review.json",),
    "yelp-polarity": ("yelp-polarity/train.csv", "yelp-polarity/test.csv"),
    "imdb": ("imdb/aclImdb/train/pos/0_9.txt", "imdb/aclImdb/test/neg/0_1.txt"),
    "r8": ("r8/r8-train-all-terms.txt", "r8/r8-test-all-terms.txt"),
    "news": ("news/newsCorpora.csv",),
}


@pytest.mark.parametrize("name", OFFICIAL)
def test_each_of_the_papers_data_sets_is_available_once_its_official_files_are_there(
    root: Path, name: str
) -> None:
    assert not is_available(name)
    assert Path(OFFICIAL[name][0]).parts[0] in describe_missing(name)
    assert str(root) in describe_missing(name)

    put(root, dict.fromkeys(OFFICIAL[name], "x"))

    assert is_available(name)


def test_a_data_set_with_a_training_part_alone_is_not_available(root: Path) -> None:
    put(root, {"r8/r8-train-all-terms.txt": "x"})

    assert not is_available("r8")


def test_yelp_polarity_is_available_from_the_reviews_of_yelp_too(root: Path) -> None:
    put(root, {"yelp/review.json": "x"})

    assert is_available("yelp-polarity")


def test_bert_is_found_once_its_weights_are_there(root: Path) -> None:
    put(root, {f"{BERT_BASE}/config.json": "{}"})
    assert pretrained_folder(BERT_BASE) is None
    assert f"{root}/{BERT_BASE}/" in describe_missing(BERT_BASE)

    put(root, {f"{BERT_BASE}/model.safetensors": "x"})
    assert pretrained_folder(BERT_BASE) is None  # without the tokenizer every subword is unknown

    put(root, {f"{BERT_BASE}/tokenizer.json": "{}"})

    assert pretrained_folder(BERT_BASE) == root / BERT_BASE


def test_the_fingerprint_of_the_data_folder_changes_with_its_files(root: Path) -> None:
    put(root, {"r8/train.parquet": "x"})
    before = files_fingerprint()
    assert files_fingerprint() == before

    put(root, {"r8/train.parquet": "xy"})

    assert files_fingerprint() != before


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", ["clothing-long", "clothing", "imdb", "yelp-polarity"])
def test_a_data_set_that_is_not_on_this_machine_is_an_error(name: str) -> None:
    with pytest.raises(DataError, match=rf"{name.removesuffix('-long')}: not found"):
        load_paper_dataset(name)


def test_another_source_is_loaded_as_lamatext_does(root: Path) -> None:
    put(root, {"extra-long/train.csv": "text,label\na,b\n"})

    assert loaded(str(root / "extra-long")) == [("a", "b")]


@pytest.mark.skipif("LAMATEXT_DATA" not in os.environ, reason="$LAMATEXT_DATA is not set")
@pytest.mark.parametrize(
    ("name", "size"), [("clothing-long", 9_088), ("clothing-polarity", 16_329)]
)
def test_the_derived_sets_of_the_real_data_have_the_expected_sizes(name: str, size: int) -> None:
    if named_datasets.find_location("clothing", "train") is None:
        pytest.skip("clothing is not in $LAMATEXT_DATA")

    assert len(load_paper_dataset(name)) == size


def test_sample_sizes_are_those_of_the_paper() -> None:
    assert official_datasets.YELP_SIZES == {"train": 500_000, "test": 4_000}
    assert {part: 2 * n for part, n in official_datasets.POLARITY_SIZES.items()} == {
        "train": 560_000,
        "test": 38_000,
    }
