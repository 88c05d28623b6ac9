"""Messy files: what is detected is printed and remembered, and close calls can be decided."""

import csv
import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import SMALL
from tests.corpora import reviews, topic_texts

TRAIN = ("--out", "run", "--baselines", "none", *SMALL)


def write_tickets(path: Path, columns: dict[str, list[str]], **dialect: str) -> None:
    encoding = dialect.pop("encoding", "utf-8")
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, **dialect)  # type: ignore[arg-type]
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def tickets(count: int = 60) -> dict[str, list[str]]:
    texts, labels = reviews(count)
    return {
        "Nr": [str(n) for n in range(count)],
        "Betreff": [f"Größe {n}" for n in range(count)],
        "Inhalt": [f"{text}; schön, 5 €" for text in texts],
        "Art": ["Gut" if label == "pos" else "Schlecht" for label in labels],
    }


def test_a_semicolon_file_in_cp1252_needs_no_options_now_or_later(
    lamatext: Command, place: Path
) -> None:
    write_tickets(place / "tickets.csv", tickets(), delimiter=";", encoding="cp1252")

    trained = lamatext("train", "tickets.csv", *TRAIN)

    assert trained.status == 0, trained.err
    assert "texts from column 'Inhalt', labels from column 'Art'" in trained.err
    assert "separator ';'" in trained.err
    assert "read as cp1252" in trained.err
    assert "labels: column 'Art', whose values are few and repeated (2 different" in trained.err
    for command in (
        ("evaluate", "run", "tickets.csv"),
        ("report", "run", "tickets.csv", "--out", "r.html"),
        ("predict", "run", "tickets.csv", "--out", "p.csv"),
    ):
        answer = lamatext(*command)
        assert answer.status == 0, answer.err
    with (place / "p.csv").open(encoding="utf-8", newline="") as file:
        assert "5 €" in next(csv.DictReader(file))["Inhalt"]


def test_the_notes_on_a_file_name_it_once(lamatext: Command, place: Path) -> None:
    table = tickets() | {"Inhalt": ["", *tickets()["Inhalt"][1:]]}
    write_tickets(place / "tickets.csv", table, delimiter=";", encoding="cp1252")
    content = (place / "tickets.csv").read_bytes()

    cleaned = lamatext("clean", "tickets.csv", "--out", "o.csv", "--max-bad-rows", "2%")
    piped = lamatext("clean", "-", "--format", "csv", "--out", "p.csv", "--max-bad-rows", "2%",
                     stdin=content)  # fmt: skip
    predicted = lamatext("predict", "model", "tickets.csv", "--text-column", "Inhalt")

    for answer, name in ((cleaned, "tickets.csv"), (piped, "standard input")):
        assert answer.status == 0, answer.err
        section = answer.err.partition("59 texts")[0]
        assert section.startswith(f"Data\n  {name}: texts from column 'Inhalt', labels from")
        assert section.count(f"{name}:") == 1
        assert "\n  separator ';', detected" in section
        assert "\n  1 row that cannot be used was skipped: no text (line 2)\n" in section
    assert predicted.err.startswith("tickets.csv: texts from 'Inhalt'\n  separator ';', detected")


def test_a_remembered_column_wins_over_a_usual_name(lamatext: Command, place: Path) -> None:
    table = tickets() | {"text": ["see Inhalt"] * 60}
    write_tickets(place / "tickets.csv", table)
    lamatext("train", "tickets.csv", *TRAIN, "--text-column", "Inhalt", "--text-column", "Betreff")

    answer = lamatext("predict", "run", "tickets.csv")

    assert answer.status == 0, answer.err
    assert "texts from 'Inhalt', 'Betreff'" in answer.err
    layout = json.loads((place / "run" / "config.json").read_text())["data"]["layout"]
    assert layout["text_columns"] == ["Inhalt", "Betreff"]


def test_a_close_call_prints_commands_that_work(lamatext: Command, place: Path) -> None:
    table = tickets() | {"Priority": ["low", "mid", "high"] * 20}
    write_tickets(place / "my tickets.csv", table)

    answer = lamatext("train", "my tickets.csv", *TRAIN)

    assert answer.status == 2
    message, *commands = answer.err.splitlines()
    assert "Art: 2 values, Priority: 3 values" in message
    assert len(commands) == 2
    program, *arguments = shlex.split(commands[0])
    assert program == "lamatext"
    assert lamatext(*arguments).status == 0


def test_columns_of_0_and_1_are_offered_as_several_labels(lamatext: Command, place: Path) -> None:
    texts, labels = topic_texts(120)
    with (place / "topics.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["message", "film", "food", "sport"])
        for text, row in zip(texts, labels, strict=True):
            writer.writerow([text, *(int(name in row) for name in ("film", "food", "sport"))])

    answer = lamatext("train", "topics.csv", *TRAIN)

    assert answer.status == 2
    message, first, *_ = answer.err.splitlines()
    assert "repeat the option for columns of 0 and 1" in message
    _, *arguments = shlex.split(first)
    trained = lamatext(*arguments)
    assert trained.status == 0, trained.err
    assert "3 labels" in trained.err


def test_fasttext_lines_are_recognized_if_the_first_has_no_label(
    lamatext: Command, place: Path
) -> None:
    texts, labels = reviews(60)
    lines = [f"__label__{label} {text}" for text, label in zip(texts, labels, strict=True)]
    (place / "lines.txt").write_text("\n".join(["a film without label", *lines]))

    answer = lamatext("train", "lines.txt", *TRAIN, "--max-bad-rows", "2%")

    assert answer.status == 0, answer.err
    assert "no label (line 1)" in answer.err


def test_labels_that_differ_in_case_are_reported_and_can_be_merged(
    lamatext: Command, place: Path
) -> None:
    table = tickets()
    table["Art"] = [label if n % 5 else f" {label.upper()}" for n, label in enumerate(table["Art"])]
    write_tickets(place / "tickets.csv", table)

    reported = lamatext("train", "tickets.csv", *TRAIN)
    merged = lamatext("train", "tickets.csv", *TRAIN, "--merge-labels", "--force")
    scored = lamatext("evaluate", "run", "tickets.csv", "--json")

    assert "differ only in case or spaces: 'Gut' = ' GUT'" in reported.err
    assert "--merge-labels" in reported.err
    assert "2 classes" in merged.err
    assert scored.status == 0, scored.err
    assert {c["label"] for c in json.loads(scored.out)["classes"]} == {"Gut", "Schlecht"}


def test_joined_labels_are_noticed(lamatext: Command, place: Path) -> None:
    table = tickets()
    table["label"] = ["a", "a, b", "b", "b, c", "c", "c, a"] * 10
    write_tickets(place / "tickets.csv", table)

    answer = lamatext("train", "tickets.csv", *TRAIN)

    assert "several labels per text, joined by ','" in answer.err
    assert "--label-separator ','" in answer.err


def test_empty_cells_among_joined_labels_name_the_separator(lamatext: Command, place: Path) -> None:
    table = tickets()
    table["label"] = ["a", "a, b", "", "b, c", "c", "c, a"] * 10
    write_tickets(place / "tickets.csv", table)

    answer = lamatext("train", "tickets.csv", *TRAIN)
    again = lamatext("train", "tickets.csv", *TRAIN, "--label-separator", ",")

    assert answer.status == 2
    assert "with --label-separator ',' an empty cell means that none applies" in answer.err
    assert again.status == 0, again.err
    assert "with 0," in again.err  # texts without a label


def test_several_labels_that_differ_in_spaces_are_reported_and_can_be_merged(
    lamatext: Command, place: Path
) -> None:
    texts, labels = topic_texts(120)
    lists = [
        [f" {label}" if n % 9 == 0 else label for label in row] for n, row in enumerate(labels)
    ]
    lists[1], lists[2], lists[4], lists[5] = [["film", "FILM"]] * 4
    rows = [{"text": t, "labels": row} for t, row in zip(texts, lists, strict=True)]
    (place / "topics.jsonl").write_text("\n".join(map(json.dumps, rows)))

    reported = lamatext("train", "topics.jsonl", *TRAIN)
    merged = lamatext("train", "topics.jsonl", *TRAIN, "--merge-labels", "--force")

    assert "differ only in case or spaces: 'film' = " in reported.err
    assert "' film'" in reported.err
    assert "4 labels: " in merged.err, merged.err
    assert lamatext("evaluate", "run", "topics.jsonl", "--json").status == 0


def test_bad_rows_are_listed_and_allowed_up_to_a_share(lamatext: Command, place: Path) -> None:
    table = tickets()
    table["Art"][3] = ""
    write_tickets(place / "tickets.csv", table)

    stopped = lamatext("train", "tickets.csv", *TRAIN)
    trained = lamatext("train", "tickets.csv", *TRAIN, "--max-bad-rows", "2%")

    assert stopped.status == 2
    assert "1 of 60 rows cannot be used" in stopped.err
    assert "--max-bad-rows 1.7%" in stopped.err
    assert "no label (line 5)" in trained.err
    assert "evaluate run tickets.csv --max-bad-rows 0.02" in trained.err


@pytest.mark.parametrize("share", ["-1", "101%", "many"])
def test_a_wrong_share_is_an_error(lamatext: Command, share: str) -> None:
    answer = lamatext("train", "reviews.csv", *TRAIN, "--max-bad-rows", share)

    assert answer.status == 2
    assert "expected a share from 0 to 1, such as 0.03 or 3%" in answer.err


def test_nested_json_lines_are_read_by_dotted_path(lamatext: Command, place: Path) -> None:
    texts, labels = reviews(60)
    rows = [
        {"ticket": {"id": n, "body": text}, "meta": {"queue": label}}
        for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    answer = lamatext("train", "a.jsonl", *TRAIN)

    assert "texts from column 'ticket.body', labels from column 'meta.queue'" in answer.err
    assert lamatext("evaluate", "run", "a.jsonl").status == 0


def split_rows(err: str) -> list[int]:
    (line,) = [line for line in err.splitlines() if "training texts, " in line]
    return [int(word) for word in line.replace(",", "").split() if word.isdigit()]


def test_groups_stay_together_and_evaluate_finds_the_held_out_texts(
    lamatext: Command, place: Path
) -> None:
    table = tickets() | {"Kunde": [f"customer {n // 6}" for n in range(60)]}
    write_tickets(place / "tickets.csv", table)
    command = ("train", "tickets.csv", *TRAIN, "--label-column", "Art", "--group-column", "Kunde")

    trained = lamatext(*command)
    scored = lamatext("evaluate", "run", "tickets.csv")

    assert trained.status == 0, trained.err
    assert all(part % 6 == 0 for part in split_rows(trained.err))
    assert scored.status == 0, scored.err
    assert "test texts are duplicates" not in trained.err


def test_a_time_column_must_hold_times(lamatext: Command, place: Path) -> None:
    write_tickets(place / "tickets.csv", tickets() | {"Wann": ["2026-01-02", "soon"] * 30})

    answer = lamatext(
        "train", "tickets.csv", *TRAIN, "--label-column", "Art", "--time-column", "Wann"
    )

    assert answer.status == 2
    assert "column 'Wann' holds 'soon', expected times" in answer.err
