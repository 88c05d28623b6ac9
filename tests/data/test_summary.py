import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamatext.data.dataset import Dataset
from lamatext.data.summary import summarize_dataset, word_counts
from lamatext.views.terminal_dataset import summary_lines


def corpus(texts: list[str], labels: list[str] | None = None) -> Dataset:
    column = None if labels is None else pa.chunked_array([labels], pa.string())
    return Dataset(pa.chunked_array([texts], pa.large_string()), column, "reviews.csv")


TRAIN = corpus(["a b", "a b", " ", "", "one two three four"], ["x", "x", "y", "x", "y"])
TEST = corpus(["a b", "new", "a b", "a  b"])


@pytest.mark.parametrize("html", ["<p>a film</p>", "one<BR />two", "you &amp; me", "it&#39;s"])
def test_many_texts_with_html_are_mentioned(html: str) -> None:
    plain = ["1 < 2 > 0", "<unk> & co", "a <- b", "AT&T; x", "plain"] * 5
    hint = "16 % of the texts contain HTML tags or entities, which count as words; remove them"

    assert summarize_dataset(corpus(plain)).with_html == 0
    assert summary_lines(summarize_dataset(corpus([*plain[:21], *[html] * 4])))[-1].startswith(hint)
    assert "HTML" not in " ".join(summary_lines(summarize_dataset(corpus([*plain * 2, html]))))


def test_a_summary_counts_what_matters() -> None:
    summary = summarize_dataset(TRAIN, TEST)

    assert summary.rows == 5
    assert summary.classes == {"x": 3, "y": 2}
    assert summary.words[50] == 2
    assert summary.words[100] == 4
    assert summary.mean_words == 8 / 5
    assert summary.empty == 2
    assert (summary.duplicates, summary.near_duplicates) == (1, 0)
    assert (summary.test_rows, summary.in_both) == (4, 3)


def test_a_summary_without_test_set_has_no_overlap() -> None:
    assert summarize_dataset(TEST).in_both is None


def test_near_duplicates_are_counted_apart_from_exact_ones() -> None:
    long = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(60))
    texts = ["A film!", "a film", "a film", "", "", "another film", long, f"{long} more"]

    summary = summarize_dataset(corpus(texts))

    assert (summary.empty, summary.duplicates, summary.near_duplicates) == (2, 2, 2)


def test_duplicates_with_different_labels_are_counted_and_named() -> None:
    texts = ["A film!", "a film", "a long film", "a long film", "", "", "another film"]

    summary = summarize_dataset(corpus(texts, ["x", "y", "x", "x", "x", "y", "y"]))

    assert summary.conflicting == 2
    assert (
        "2 texts have a duplicate or near-duplicate with another label"
        in summary_lines(summary)[-1]
    )


@given(st.lists(st.text(alphabet="ab é\t\nж", max_size=12), min_size=1, max_size=20), st.data())
def test_words_are_counted_as_python_splits_them(texts: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(texts)))
    chunks = pa.chunked_array([texts[:cut], texts[cut:]], pa.large_string()).slice(0)
    sliced = pa.chunked_array([pa.array(["x y", *texts], pa.large_string()).slice(1)])

    expected = [len(text.split()) for text in texts]
    assert word_counts(chunks).tolist() == expected
    assert word_counts(sliced).tolist() == expected


def test_rows_are_taken_in_the_order_asked_for() -> None:
    chunked = Dataset(
        pa.chunked_array([["p"], [], ["q", "r"]], pa.large_string()), None, "reviews.csv"
    )

    taken = TRAIN.take(np.array([4, 0]))

    assert chunked.take(np.array([0, 2, 2])).texts.to_pylist() == ["p", "r", "r"]
    assert len(chunked.take(np.array([], dtype=np.int64))) == 0
    assert taken.texts.to_pylist() == ["one two three four", "a b"]
    assert taken.labels is not None
    assert taken.labels.to_pylist() == ["y", "x"]
    assert (len(taken), taken.source) == (2, "reviews.csv")
    assert TEST.take(np.array([1])).labels is None


def test_the_summary_counts_labels_per_text_and_shows_the_rarest() -> None:
    labels = pa.chunked_array([pa.array([["a", "b"], ["a"], [], ["a"]])])
    dataset = Dataset(pa.chunked_array([["x"] * 4], pa.large_string()), labels, "there")

    summary = summarize_dataset(dataset)

    assert summary.classes == {"a": 3, "b": 1}
    assert summary.labels_per_text == {0: 1, 1: 2, 2: 1}
    lines = summary_lines(summary)
    assert "labels per text: 1.00 on average; texts: 1 with 0, 2 with 1, 1 with 2" in lines
    assert "rarest labels (texts): b 1, a 3" in lines


def test_the_words_of_texts_without_spaces_are_counted_as_the_tokenizer_does() -> None:
    texts = pa.chunked_array([["这部电影很好看", "a fine film", "ภาพดี", ""]], pa.large_string())

    assert word_counts(texts).tolist() == [7, 3, 4, 0]


def test_labels_with_commas_or_spaces_at_an_end_are_quoted_in_lists() -> None:
    dataset = corpus(["one", "two", "three", "four"], ["good, really", "bad ", "so", "so"])

    classes, *_ = summary_lines(summarize_dataset(dataset))

    assert classes == "3 classes: so 50 %, 'bad ' 25 %, 'good, really' 25 %"
