from lamatext.data.summary import PERCENTILES, Summary
from lamatext.views.terminal_dataset import summary_lines

WORDS = dict(zip(PERCENTILES, (0, 2, 4, 4, 4), strict=True))


def test_the_summary_is_formatted_as_lines() -> None:
    classes = {"x": 3, "y": 2}

    assert summary_lines(Summary("reviews.csv", 5, classes, WORDS, 1.6, 2, 1, 3, 4, 2)) == [
        "2 classes: x 60 %, y 40 %",
        "2 words per text on average; 95 % have at most 4, the longest 4",
        "2 empty texts, 1 exact duplicate, 3 near-duplicates, 2 of 4 test texts are duplicates or "
        "near-duplicates of training texts",
    ]


def test_only_the_first_ten_classes_are_listed() -> None:
    classes = {f"{number:02}": 1 for number in range(15)}

    line = summary_lines(Summary("a.csv", 15, classes, WORDS, 1.0, 0, 0, 0))[0]

    assert line.endswith("09 6.7 % and 5 more")


def test_a_summary_without_problems_says_so() -> None:
    alone = summary_lines(Summary("a.csv", 5, {}, WORDS, 1.0, 0, 0, 0))
    tested = summary_lines(Summary("a.csv", 5, {}, WORDS, 1.0, 0, 0, 0, test_rows=2, in_both=0))

    assert alone[1:] == ["no empty texts, no duplicates"]
    assert tested[1:] == ["no empty texts, no duplicates, no test texts among the training texts"]
