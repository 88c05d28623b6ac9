import re
from pathlib import Path

import pyarrow as pa
import pytest

from lamatext.data.column_detection import (
    check_column,
    choose_by_name,
    choose_text_by_name,
    detect_by_content,
    detect_text_by_content,
    explain_choice,
    label_separator,
)
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import ColumnChoiceError, DataError
from tests.data.unnamed_tables import TABLES, Case, unnamed_table

NOTHING = ReadOptions()


@pytest.mark.parametrize(
    ("columns", "text", "label"),
    [
        (["label", "text"], "text", "label"),
        (["ID", "Review Text", "Rating"], "Review Text", "Rating"),
        (["Title", "Review_Text", "Stars"], "Review_Text", "Stars"),
        (["review_id", "customerReview", "sentiment_class"], "customerReview", "sentiment_class"),
        (["label", "class", "sentence"], "sentence", "label"),
    ],
)
def test_columns_are_detected_by_name(columns: list[str], text: str, label: str) -> None:
    assert choose_by_name(columns, NOTHING, "a.csv") == ((text,), (label,))


def test_names_that_do_not_decide_leave_the_choice_to_the_contents() -> None:
    assert choose_by_name(["stuff", "sentiment"], NOTHING, "a.csv") == (None, ("sentiment",))
    assert choose_by_name(["text", "outcome"], NOTHING, "a.csv") == (("text",), None)
    assert choose_by_name(["headline", "type"], NOTHING, "a.csv") == (None, None)


def test_requested_columns_take_precedence_over_remembered_ones_and_these_over_names() -> None:
    columns = ["text", "label", "reply", "mood"]
    remembered = Layout(text_columns=("reply",), label_columns=("mood",))
    requested = ReadOptions(("label", "text"), ("reply",), remembered=remembered)

    assert choose_by_name(columns, requested, "a") == (("label", "text"), ("reply",))
    assert choose_by_name(columns, ReadOptions(remembered=remembered), "a") == (
        ("reply",),
        ("mood",),
    )
    assert choose_by_name(columns[:2], ReadOptions(remembered=remembered), "a") == (
        ("text",),
        ("label",),
    )


def test_an_only_column_is_the_text_column() -> None:
    assert choose_text_by_name(["anything"], NOTHING, "a.csv") == ("anything",)


def test_a_wrong_column_name_is_answered_with_a_similar_one() -> None:
    message = "a.csv: no column 'txt'. It has text, label. Did you mean --text-column text?"

    with pytest.raises(DataError) as caught:
        check_column(["text", "label"], "txt", "a.csv", "--text-column")

    assert str(caught.value) == message
    with pytest.raises(DataError, match=r"Did you mean --label-column 'Star Rating'\?"):
        check_column(["Review", "Star Rating"], "star_ratings", "a.csv", "--label-column")


def test_two_columns_of_the_same_name_are_an_error() -> None:
    with pytest.raises(DataError, match="2 columns are named 'text'"):
        choose_by_name(["text", "text", "label"], NOTHING, "a.csv")


def test_a_column_cannot_hold_texts_and_labels() -> None:
    with pytest.raises(DataError, match="'text' cannot hold both texts and labels"):
        choose_by_name(["text", "b"], ReadOptions(("text",), ("text",)), "a.csv")


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.name)
def test_columns_without_useful_names_are_detected_by_their_contents(case: Case) -> None:
    rows = unnamed_table(case)

    detected = detect_by_content(rows, None, None, "a.csv")

    assert detected.text_columns == (case.text,)
    assert detected.label_columns == (case.label,)
    assert len(detected.reasons) == 2
    assert re.search(r"'\w+'.*different values in [\d,]+ rows", detected.reasons[1])
    assert detect_text_by_content(rows, "a.csv").text_columns == (case.text,)


def tickets(**columns: list[str]) -> pa.Table:
    body = [f"my order number {n} has not come yet and I would like to know why" for n in range(60)]
    return pa.table({"Inhalt": body, **columns})


def test_a_close_call_lists_the_candidates_with_their_number_of_values() -> None:
    rows = tickets(
        Queue=[f"queue {n % 7}" for n in range(60)], Priority=["low", "high", "mid"] * 20
    )

    with pytest.raises(ColumnChoiceError) as caught:
        detect_by_content(rows, None, None, "tickets.csv")

    assert "Priority: 3 values, Queue: 7 values" in str(caught.value)
    assert caught.value.choices == [["--label-column", "Priority"], ["--label-column", "Queue"]]


def test_two_columns_of_long_texts_are_a_close_call() -> None:
    answer = [
        f"thank you for your message {n}, we are looking into your question" for n in range(60)
    ]
    rows = tickets(Antwort=answer, Art=["a", "b"] * 30)

    with pytest.raises(ColumnChoiceError, match=r"hold the texts: .*: 60 values.*to join several"):
        detect_by_content(rows, None, None, "tickets.csv")


def test_a_table_without_labels_is_an_error_that_names_its_columns() -> None:
    with pytest.raises(
        DataError, match=r"no label column found: 'Nr' has 60 .*Its columns are Inhalt, Nr"
    ):
        detect_by_content(tickets(Nr=[str(n) for n in range(60)]), None, None, "a.csv")


def test_a_table_of_numbers_has_no_text_column() -> None:
    rows = pa.table({"a": [str(n) for n in range(20)], "b": ["0.5", "1.5"] * 10})

    with pytest.raises(DataError, match="no text column found"):
        detect_by_content(rows, None, None, "a.csv")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["billing, refund", "billing", "refund, login", "login, billing"] * 3, ","),
        (["a;b", "b;c", "a", "c;a", "b"] * 3, ";"),
        (["post", "web, vip", "phone", "phone, vip", "post, vip", "web"] * 3, ","),
        (["Smith, John", "Smith, Anna", "Lee, John"] * 4, None),
        (["a|b", "b|c|a", "c|a"] * 3, "|"),
        (["Paris, France", "Rome, Italy", "Oslo, Norway", "Bonn, Germany"] * 3, None),
        (["billing", "refund"] * 6, None),
        (["yes, really", "no"] * 6, None),
    ],
)
def test_several_labels_in_one_value_are_noticed(labels: list[str], expected: str | None) -> None:
    assert label_separator(pa.chunked_array([labels])) == expected


def test_a_list_column_and_a_plain_one_that_could_be_labels_are_both_listed() -> None:
    themes = ['["billing", "vip"]', '["login"]', '["billing"]', "[]"] * 15
    rows = tickets(**{"ticket.themes": themes, "ticket.urgency": ["low", "high", "mid"] * 20})

    with pytest.raises(ColumnChoiceError) as caught:
        detect_by_content(rows, None, None, "tickets.jsonl")

    assert "ticket.themes: 3 values in lists" in str(caught.value)
    assert "ticket.urgency: 3 values" in str(caught.value)
    assert ["--label-column", "ticket.themes"] in caught.value.choices


def test_the_reason_is_named_if_names_decide_or_a_trained_column_is_missing() -> None:
    columns = ["text", "label", "nr"]
    trained = ReadOptions(remembered=Layout(text_columns=("body",), label_columns=("label",)))

    by_name = explain_choice(columns, NOTHING, ("text",), ("label",))
    missing = explain_choice(columns, trained, ("text",), ("label",))
    requested = explain_choice(columns, ReadOptions(("text",), ("label",)), ("text",), ("label",))

    assert by_name == ["columns chosen by name; --text-column and --label-column name others"]
    assert missing == [
        "texts chosen by name; --text-column names others",
        "labels chosen as in training",
        "no column 'body', from which the texts were read in training",
    ]
    assert requested == []


def test_a_name_that_decides_between_fitting_columns_is_named_with_the_others() -> None:
    rows = tickets(tags=['["a"]', '["b", "a"]', '["c"]'] * 20, mood=["low", "high", "mid"] * 20)

    detected = detect_by_content(rows, None, None, "tickets.jsonl")

    assert detected.label_columns == ("tags",)
    assert "by its name; mood: 3 values would fit, too (--label-column mood)" in detected.reasons[1]


def test_codes_are_not_taken_for_texts() -> None:
    rows = pa.table(
        {"id": [f"T-{n:05d}" for n in range(40)], "queue": ["a", "b"] * 20, "n": ["1"] * 40}
    )
    names = pa.table({"who": [f"{a}{b}" for a in "ABCDE" for b in "abcde"], "sex": ["f"] * 25})

    with pytest.raises(DataError, match="no text column found"):
        detect_by_content(rows, None, ("queue",), "a.jsonl")
    assert detect_by_content(names, None, ("sex",), "a.csv").text_columns == ("who",)


def test_contents_do_not_replace_a_column_that_a_model_was_trained_on() -> None:
    trained = ReadOptions(remembered=Layout(text_columns=("Subject", "Body"), label_columns=("q",)))

    with pytest.raises(DataError, match=r"no column 'Subject', from which .* --text-column"):
        choose_text_by_name(["id", "stuff", "q"], trained, "new.csv")
    assert choose_text_by_name(["id", "Body"], trained, "new.csv") == ("Body",)
    assert choose_text_by_name(["stuff"], trained, "new.csv") == ("stuff",)


def test_spaces_at_the_ends_of_a_column_name_need_not_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Text ,Bewertung , Bewertung 2\na,x,1\nb,y,2\n")
    options = ReadOptions(text_columns=("Text",), label_columns=("Bewertung",))

    dataset = load_dataset(str(path), options)
    _, batches = open_table(str(path)).text_batches(options)

    assert dataset.layout.text_columns == ("Text ",)
    assert dataset.require_labels().to_pylist() == ["x", "y"]
    assert next(batches).column("Text ").to_pylist() == ["a", "b"]


def test_column_names_with_spaces_at_their_ends_are_quoted_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Text ,Bewertung, Bewertung\na,x,1\nb,y,2\n")

    with pytest.raises(DataError, match=r"It has 'Text ', Bewertung, ' Bewertung'\."):
        load_dataset(str(path), ReadOptions(text_columns=("Texte",)))
    with pytest.raises(DataError, match="no column 'Bewertung '"):  # two columns would fit
        load_dataset(str(path), ReadOptions(label_columns=("Bewertung ",)))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([str(n) for n in range(60)], "has 60 different values in 60 rows"),
        (["a"] * 60, "has only one value"),
        (["a", "b", *[""] * 58], "has 2 values in 60 rows"),
        (["2026-01-01", "2026-01-02"] * 30, "holds dates"),
        (["0.25", "0.5"] * 30, "holds fractions"),
        (["a@b.de", "c@d.de"] * 30, "holds addresses"),
    ],
)
def test_it_is_said_why_a_column_holds_no_labels(values: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=f"no label column found: 'Nr' {reason}. Its columns are"):
        detect_by_content(tickets(Nr=values), ("Inhalt",), None, "a.csv")
