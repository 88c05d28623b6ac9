import pytest

from lamatext.data.column_detection import choose_label_column, choose_text_column
from lamatext.errors import DataError


@pytest.mark.parametrize(
    ("columns", "text", "label"),
    [
        (["label", "text"], "text", "label"),
        (["ID", "Review Text", "Rating"], "Review Text", "Rating"),
        (["Title", "Review_Text", "Stars"], "Review_Text", "Stars"),
        (["review_id", "customerReview", "sentiment_class"], "customerReview", "sentiment_class"),
        (["headline", "topic", "url"], "headline", "topic"),
        (["stuff", "sentiment"], "stuff", "sentiment"),
        (["text", "outcome"], "text", "outcome"),
        (["label", "class", "sentence"], "sentence", "label"),
    ],
)
def test_columns_are_detected_by_name(columns: list[str], text: str, label: str) -> None:
    assert choose_text_column(columns, None, "a.csv") == text
    assert choose_label_column(columns, None, text, "a.csv") == label


def test_a_requested_column_takes_precedence() -> None:
    columns = ["text", "label", "reply", "mood"]

    assert choose_text_column(columns, "reply", "a.csv") == "reply"
    assert choose_label_column(columns, "mood", "reply", "a.csv") == "mood"


def test_an_only_column_is_the_text_column() -> None:
    assert choose_text_column(["anything"], None, "a.csv") == "anything"


def test_a_wrong_column_name_is_answered_with_a_similar_one() -> None:
    message = "a.csv: no column 'txt'. It has text, label. Did you mean --text-column text?"

    with pytest.raises(DataError) as caught:
        choose_text_column(["text", "label"], "txt", "a.csv")

    assert str(caught.value) == message


def test_a_suggested_name_with_spaces_is_quoted_for_the_shell() -> None:
    with pytest.raises(DataError, match=r"Did you mean --label-column 'Star Rating'"):
        choose_label_column(["Review", "Star Rating"], "star_ratings", "Review", "a.csv")


def test_no_text_column_lists_the_columns_and_the_option() -> None:
    with pytest.raises(DataError, match=r"no text column found. Its columns are a, b, c.*--text-c"):
        choose_text_column(["a", "b", "c"], None, "a.csv")


def test_no_label_column_lists_the_columns_and_the_option() -> None:
    with pytest.raises(DataError, match=r"no label column found. Its columns are .*--label-column"):
        choose_label_column(["text", "b", "c"], None, "text", "a.csv")


def test_two_columns_with_the_same_name_are_an_error() -> None:
    with pytest.raises(DataError, match=r"a.csv: 2 columns are named 'text'"):
        choose_text_column(["text", "text", "label"], None, "a.csv")


def test_many_or_long_column_names_are_shortened() -> None:
    with pytest.raises(DataError, match=r"and 5 more") as caught:
        choose_text_column([f"{number:060}" for number in range(25)], None, "a.csv")

    assert len(str(caught.value)) < 1200
