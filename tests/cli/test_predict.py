import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext import Predictor
from tests.cli.conftest import Command

ODD = 'id,Review Text,label\n7,"a, ""superb"" film",x\n01,"dull\ntwo lines",y\nNA,,z\n'


def rows_of(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text), delimiter=delimiter))


def test_a_text_gets_its_label(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "--text", "a superb film")

    label, probability = answer.out.split()
    assert (answer.status, label) == (0, "pos")
    assert 0.5 < float(probability) <= 1


def test_top_k_and_proba_show_more_labels_of_a_text(lamatext: Command) -> None:
    two = lamatext("predict", "model", "--text", "a superb film", "--top-k", "2").out
    every = lamatext("predict", "model", "--text", "a superb film", "--proba").out

    assert two == every
    assert len(two.split()) == 4


def test_texts_come_as_json_for_programs(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "--text", "a superb film", "--text", "dull", "--json")

    first, second = map(json.loads, answer.out.splitlines())
    assert (first["label"], second["label"]) == ("pos", "neg")
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_texts_can_go_to_a_file(lamatext: Command, place: Path) -> None:
    lamatext("predict", "model", "--text", "a superb film", "--out", "one.jsonl", "-q")

    assert json.loads((place / "one.jsonl").read_text())["label"] == "pos"


def test_stdin_is_one_text_a_line(lamatext: Command) -> None:
    answer = lamatext(
        "predict", "model", "-", stdin='a superb film\n\na "dull", dull film\r\nno end'
    )

    header, *rows = rows_of(answer.out)
    assert header == ["text", "label", "probability"]
    assert [row[0] for row in rows] == ["a superb film", "", 'a "dull", dull film', "no end"]
    assert [rows[0][1], rows[2][1]] == ["pos", "neg"]


def test_stdin_can_be_a_table(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "-", "--format", "csv", stdin=ODD)

    assert len(rows_of(answer.out)) == 4


def test_columns_and_their_order_are_kept(lamatext: Command, place: Path) -> None:
    (place / "odd.csv").write_text(ODD)

    answer = lamatext("predict", "model", "odd.csv")

    header, *rows = rows_of(answer.out)
    assert header == ["id", "Review Text", "label", "predicted_label", "probability"]
    assert [row[:3] for row in rows] == [
        ["7", 'a, "superb" film', "x"],
        ["01", "dull\ntwo lines", "y"],
        ["NA", "", "z"],
    ]
    assert [row[3] for row in rows[:2]] == ["pos", "neg"]


def test_columns_of_equal_names_are_all_kept(lamatext: Command, place: Path) -> None:
    (place / "twice.csv").write_text("a,text,a,label,predicted_label\n1,superb,2,3,4\n")

    answer = lamatext("predict", "model", "twice.csv")

    header, row = rows_of(answer.out)
    assert header[:5] == ["a", "text", "a", "label", "predicted_label"]
    assert header[5:] == ["predicted_predicted_label", "probability"]
    assert row[:6] == ["1", "superb", "2", "3", "4", "pos"]


def test_top_k_and_proba_add_columns(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "-", "--top-k", "5", "--proba", stdin="superb\n")

    header, row = rows_of(answer.out)
    found = dict(zip(header, row, strict=True))
    assert header == [
        "text", "label", "probability", "label_2", "probability_2", "p(neg)", "p(pos)",
    ]  # fmt: skip
    assert (found["label"], found["label_2"]) == ("pos", "neg")
    assert found["probability"] == found["p(pos)"]


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.jsonl", "o.parquet", "O.CSV"])
def test_the_extension_says_how_it_is_written(name: str, lamatext: Command, place: Path) -> None:
    (place / "odd.csv").write_text(ODD)

    answer = lamatext("predict", "model", "odd.csv", "--out", name)

    path = place / name
    match path.suffix.lower():
        case ".csv":
            rows = [row[1] for row in rows_of(path.read_text())[1:]]
        case ".tsv":
            rows = [row[1] for row in rows_of(path.read_text(), "\t")[1:]]
        case ".jsonl":
            rows = [json.loads(line)["Review Text"] for line in path.read_text().splitlines()]
        case _:
            rows = pq.read_table(path).column("Review Text").to_pylist()
    assert [row or "" for row in rows] == ['a, "superb" film', "dull\ntwo lines", ""]
    assert f"Labels of 3 texts written to {name}" in answer.err
    assert not answer.out


def test_a_parquet_table_can_be_read(lamatext: Command, place: Path) -> None:
    table = pa.table({"n": [1, 2], "text": ["superb", None], "list": [[1], [2, 3]]})
    pq.write_table(table, place / "in.parquet")

    answer = lamatext("predict", "model", "in.parquet", "--json")

    first, second = map(json.loads, answer.out.splitlines())
    assert (first["n"], first["label"], first["list"]) == ("1", "pos", "[1]")
    assert second["text"] is None


def test_a_file_can_be_labelled_in_its_place(lamatext: Command, place: Path) -> None:
    lamatext("predict", "model", "reviews.csv", "--out", "reviews.csv", "--quiet")

    rows = rows_of((place / "reviews.csv").read_text())
    assert rows[0] == ["text", "label", "predicted_label", "probability"]
    assert len(rows) == 61


def test_a_table_without_rows_keeps_its_header(lamatext: Command, place: Path) -> None:
    (place / "none.csv").write_text("id,text\n")

    answer = lamatext("predict", "model", "none.csv")

    assert rows_of(answer.out) == [["id", "text", "label", "probability"]]


def test_a_failed_prediction_leaves_the_old_file(lamatext: Command, place: Path) -> None:
    (place / "bad.csv").write_bytes(b"text\n" + b"a film\n" * 90_000 + b"caf\xe9\n")
    (place / "out.csv").write_text("old")

    answer = lamatext("predict", "model", "bad.csv", "--out", "out.csv")

    assert answer.status == 2
    assert (place / "out.csv").read_text() == "old"
    assert not list(place.glob(".out*"))


ODD_TEXTS = {
    "control": "a \x00 \x07 \x1b[31m film",
    "emoji": "👩‍👩‍👧 🏳️‍🌈 🇩🇪 👍🏽",
    "Chinese": "这是一部非常好的电影",
    "Arabic": "هذا فيلم رائع جداً",
    "Hindi": "यह एक अच्छी फिल्म है",
    "long": "superb " * 1_000_000,
    "one long word": "x" * 300_000,
    "empty": "",
    "spaces": " \t ",
}


@pytest.mark.parametrize("case", ODD_TEXTS)
def test_odd_texts_are_labelled(case: str, lamatext: Command) -> None:
    text = ODD_TEXTS[case]

    answer = lamatext("predict", "model", "-", "--json", stdin=f"{text}\n")

    row = json.loads(answer.out)
    assert row["text"] == text
    assert row["label"] in ("neg", "pos")


def test_the_command_says_what_the_library_says(lamatext: Command, place: Path) -> None:
    texts = [row[0] for row in rows_of((place / "reviews.csv").read_text())[1:]]
    expected = Predictor.load(place / "model").predict_proba(texts).max(axis=1)

    answer = lamatext("predict", "model", "reviews.csv")

    found = [float(row[-1]) for row in rows_of(answer.out)[1:]]
    assert found == pytest.approx(expected.tolist(), abs=1e-5)
