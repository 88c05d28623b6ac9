"""``train --teacher``: files of probabilities, saved models and texts without labels."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.corpora import TINY, TOPICS, reviews, topic_texts
from tests.nn.tiny_bert import save_bert

SETTINGS = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
TRAIN = ["--out", "student", "--baselines", "none", "--device", "cpu", *SETTINGS]


def write_votes(path: str, rows: list[tuple[str, str]], *, by: str | None = None) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*([by] if by else []), "neg", "pos"])
        for key, label in rows:
            writer.writerow([*([key] if by else []), *((0.1, 0.9), (0.9, 0.1))[label == "neg"]])


def read_reviews() -> list[tuple[str, str]]:
    rows = csv.DictReader(Path("reviews.csv").read_text().splitlines())
    return [(row["text"], row["label"]) for row in rows]


def config() -> dict[str, object]:
    loaded: dict[str, object] = json.loads(Path("student/config.json").read_text())
    return loaded


def test_a_file_of_probabilities_matches_the_rows_of_the_data_by_order(lamatext: Command) -> None:
    write_votes("votes.csv", read_reviews())

    answer = lamatext("train", "reviews.csv", "--teacher", "votes.csv", *TRAIN)

    assert answer.status == 0, answer.err
    assert config()["teacher"]["name"] == "votes.csv"  # type: ignore[index]
    again = lamatext("train", "reviews.csv", "--teacher", "votes.csv", "--resume", *TRAIN)
    assert "already finished" in again.err
    other = lamatext("train", "reviews.csv", "--resume", *TRAIN)
    assert other.status == 2
    assert "another run" in other.err


def test_rows_without_a_label_are_unlabelled_texts_for_a_teacher(lamatext: Command) -> None:
    with Path("reviews.csv").open("a") as file:
        file.write("a quokka of a film,\n")
    write_votes("votes.csv", [*read_reviews()[::-1]], by="text")

    answer = lamatext("train", "reviews.csv", "--teacher", "votes.csv", *TRAIN)

    assert answer.status == 0, answer.err
    assert config()["data"]["unlabelled_texts"] == 1  # type: ignore[index]
    assert "quokka" in Path("student/vocab.txt").read_text().split()


def test_a_saved_model_teaches_and_labels_an_unlabelled_file(lamatext: Command) -> None:
    texts, _ = reviews(20, seed=7)
    Path("more.txt").write_text("\n".join(texts))

    answer = lamatext(
        *("train", "reviews.csv", "--teacher", "model", "--unlabelled", "more.txt"),
        *("--set", "distillation.variants=1", *TRAIN),
    )

    assert answer.status == 0, answer.err
    assert config()["data"]["unlabelled_texts"] == 20  # type: ignore[index]
    assert config()["recipe"]["distillation"]["variants"] == 1  # type: ignore[index]


def test_a_file_with_a_missing_row_is_an_error_before_training(lamatext: Command) -> None:
    write_votes("votes.csv", read_reviews()[1:])

    answer = lamatext("train", "reviews.csv", "--teacher", "votes.csv", *TRAIN)

    assert answer.status == 2
    assert "votes.csv: 59 rows, but the data has 60" in answer.err
    assert not Path("student").exists()


def test_rows_match_by_a_column_of_ids(lamatext: Command) -> None:
    rows = read_reviews()
    with Path("numbered.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "text", "label"])
        writer.writerows([f"r{number}", *row] for number, row in enumerate(rows))
    keys = [(f"r{number}", label) for number, (_, label) in enumerate(rows)]
    write_votes("votes.csv", keys[::-1], by="key")

    answer = lamatext(
        *("train", "numbered.csv", "--teacher", "votes.csv", "--id-column", "key"),
        *("--text-column", "text", "--label-column", "label", *TRAIN),
    )

    assert answer.status == 0, answer.err


def test_unlabelled_texts_without_a_teacher_are_an_error(lamatext: Command) -> None:
    answer = lamatext("train", "reviews.csv", "--unlabelled", "more.txt", *TRAIN)

    assert answer.status == 2
    assert "--unlabelled needs a teacher" in answer.err


def test_a_missing_file_of_probabilities_is_no_pretrained_encoder(lamatext: Command) -> None:
    write_votes("votes.csv", read_reviews())

    answer = lamatext("train", "reviews.csv", "--teacher", "vote.csv", *TRAIN)

    assert answer.status == 2
    assert "vote.csv: no such file. Did you mean votes.csv?" in answer.err
    assert not Path("student").exists()


def test_a_file_of_probabilities_teaches_several_labels(lamatext: Command) -> None:
    texts, labels = topic_texts(120)
    with Path("topics.jsonl").open("w") as file:
        for text, row in zip(texts, labels, strict=True):
            file.write(json.dumps({"text": text, "labels": row}) + "\n")
    with Path("votes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *TOPICS])
        writer.writerows(
            [
                [text, *(float(t in row) for t in TOPICS)]
                for text, row in zip(texts, labels, strict=True)
            ]
        )

    answer = lamatext("train", "topics.jsonl", "--teacher", "votes.csv", *TRAIN)

    assert answer.status == 0, answer.err
    assert len(config()["multi_label"]["thresholds"]) == 4  # type: ignore[index]
    Path("votes.csv").write_text(Path("votes.csv").read_text().replace("1.0", "1.5"))
    answer = lamatext("train", "topics.jsonl", "--teacher", "votes.csv", "--force", *TRAIN)
    assert answer.status == 2
    assert "expected probabilities from 0 to 1.\n" in answer.err


@pytest.mark.slow
def test_cross_validation_says_that_it_trains_the_teacher_for_each_fold(
    lamatext: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bert(Path("bert"))
    monkeypatch.setattr("lamatext.training.teachers.MIN_STEPS", 3)
    monkeypatch.setattr("lamatext.pipeline.MIN_TEST_TEXTS", 200)
    settings = ("--recipe", "default", "--set", "distillation.variants=0")

    answer = lamatext("train", "reviews.csv", "--teacher", "bert", *settings, *TRAIN)

    assert answer.status == 0, answer.err
    assert "the teacher is trained 6 times" in answer.err
