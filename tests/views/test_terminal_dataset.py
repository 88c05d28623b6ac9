import numpy as np
import pyarrow as pa

from lamatext.data.dataset import Dataset
from lamatext.data.summary import PERCENTILES, Summary
from lamatext.progress import Progress
from lamatext.views.terminal_dataset import show_dataset, summary_lines

WORDS = dict(zip(PERCENTILES, (0, 2, 4, 4, 4), strict=True))
TRAIN = Dataset(
    pa.chunked_array([["a film", "a play", "good", "bad"]], pa.large_string()),
    pa.chunked_array([["x", "y", "x", "y"]]),
    "reviews.csv",
)
TEST = TRAIN.take(np.arange(2))


class Notes(Progress):
    """Progress that keeps the notes that are printed."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


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

    assert line.endswith("'09' 6.7 % and 5 more")


def test_a_summary_without_problems_says_so() -> None:
    alone = summary_lines(Summary("a.csv", 5, {}, WORDS, 1.0, 0, 0, 0))
    tested = summary_lines(Summary("a.csv", 5, {}, WORDS, 1.0, 0, 0, 0, test_rows=2, in_both=0))

    assert alone[1:] == ["no empty texts, no duplicates"]
    assert tested[1:] == ["no empty texts, no duplicates, no test texts among the training texts"]


def test_the_sizes_say_that_a_part_of_the_training_texts_is_held_out_for_validation() -> None:
    def sizes(validation: Dataset | None, folds: int = 0) -> str:
        progress = Notes()
        show_dataset(TRAIN, validation, TEST, progress, folds=folds, held_out=0.1)
        return next(note for note in progress.notes if "training text" in note)

    assert sizes(None) == "4 training texts (10 % of them for validation), 2 test texts"
    assert sizes(TEST) == "4 training texts, 2 validation texts, 2 test texts"
    assert sizes(None, folds=5) == "4 training texts"
