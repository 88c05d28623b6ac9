import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext import Predictor
from lamatext.cli.options import DEFAULT_MAX_RECORD
from lamatext.data.read_options import MAX_RECORD
from tests.cli.conftest import Command

ODD = 'id,Review Text,label\n7,"a, ""superb"" film",x\n01,"dull\ntwo lines",y\nNA,,z\n'


def rows_of(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text), delimiter=delimiter))


def test_a_text_gets_its_label(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "--text", "a superb film")

    assert answer.status == 0
    assert re.fullmatch(r"pos (\d\d\.\d|> 99\.9|100\.0) %\n", answer.out)


def test_top_k_and_proba_show_more_labels_of_a_text(lamatext: Command) -> None:
    two = lamatext("predict", "model", "--text", "a superb film", "--top-k", "2").out
    every = lamatext("predict", "model", "--text", "a superb film", "--proba").out

    assert two == every
    assert two.count("%") == 2


def test_texts_come_as_json_for_programs(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "--text", "a superb film", "--text", "dull", "--json")

    first, second = map(json.loads, answer.out.splitlines())
    assert (first["label"], second["label"]) == ("pos", "neg")
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_texts_can_go_to_a_file(lamatext: Command, place: Path) -> None:
    lamatext("predict", "model", "--text", "a superb film", "--out", "one.jsonl", "-q")

    assert json.loads((place / "one.jsonl").read_text())["label"] == "pos"


def test_a_row_whose_text_columns_are_all_empty_is_predicted(
    lamatext: Command, place: Path
) -> None:
    (place / "joined.csv").write_text("Subject,Body\na superb,film\n, \ndull,film\n")
    columns = ("--text-column", "Subject", "--text-column", "Body")

    answer = lamatext("predict", "model", "joined.csv", *columns, "--out", "joined-out.csv")

    assert answer.status == 0
    rows = rows_of((place / "joined-out.csv").read_text())
    assert [row[:2] for row in rows[1:]] == [["a superb", "film"], ["", " "], ["dull", "film"]]
    assert (rows[1][2], rows[3][2]) == ("pos", "neg")


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
    assert f"Labels of 3 texts are in {name}" in answer.err
    assert not answer.out


def test_a_finished_folder_is_reported_as_such_and_not_as_written(
    lamatext: Command, place: Path
) -> None:
    (place / "odd.csv").write_text(ODD)
    first = lamatext("predict", "model", "odd.csv", "--out", "parts/")
    files = {path: path.stat().st_mtime_ns for path in (place / "parts").iterdir()}

    second = lamatext("predict", "model", "odd.csv", "--out", "parts/")

    assert "already complete" not in first.err
    assert "parts/: already complete; nothing to do." in second.err
    assert "Labels of 3 texts are in parts/" in second.err
    assert "written" not in second.err
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_a_parquet_table_can_be_read(lamatext: Command, place: Path) -> None:
    table = pa.table({"n": [1, 2], "text": ["superb", None], "list": [[1], [2, 3]]})
    pq.write_table(table, place / "in.parquet")

    answer = lamatext("predict", "model", "in.parquet", "--json")

    first, second = map(json.loads, answer.out.splitlines())
    assert (first["n"], first["label"], first["list"]) == (1, "pos", [1])
    assert second["text"] is None


def test_a_table_without_rows_keeps_its_header(lamatext: Command, place: Path) -> None:
    (place / "none.csv").write_text("id,text\n")

    answer = lamatext("predict", "model", "none.csv")

    assert rows_of(answer.out) == [["id", "text", "label", "probability"]]


def test_a_failed_prediction_leaves_the_old_file(lamatext: Command, place: Path) -> None:
    (place / "bad.csv").write_bytes(b"text\n" + "é film\n".encode() * 90_000 + b"caf\xe9\n")
    (place / "out.csv").write_text("old")

    answer = lamatext(
        "predict", "model", "bad.csv", "--out", "out.csv", "--force", "--max-bad-rows", "0"
    )

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


def test_safe_csv_writes_formulas_as_text(lamatext: Command, place: Path) -> None:
    table = {"text": ["=1+1", "a =1 film"], "=n": ["+1", "@x"], "more": ["\t2", "\r3"]}
    pq.write_table(pa.table(table | {"last": ["-4", None]}), place / "in.parquet")

    plain = rows_of(lamatext("predict", "model", "in.parquet").out)
    safe = rows_of(lamatext("predict", "model", "in.parquet", "--safe-csv").out)
    lamatext("predict", "model", "in.parquet", "--safe-csv", "--out", "out.tsv")

    assert plain[1][:2] == ["=1+1", "+1"]
    assert safe[0][:5] == ["text", "'=n", "more", "last", "label"]
    assert safe[1][:4] == ["'=1+1", "'+1", "'\t2", "'-4"]
    assert [safe[2][0], safe[2][1], safe[2][3]] == ["a =1 film", "'@x", ""]
    assert [row[-1] for row in safe] == [row[-1] for row in plain]
    assert rows_of((place / "out.tsv").read_text(), "\t")[1] == safe[1]


def test_safe_csv_is_an_option_of_csv_and_tsv_only(lamatext: Command) -> None:
    answer = lamatext("predict", "model", "reviews.csv", "--safe-csv", "--out", "a.jsonl")

    assert answer.status == 2
    assert "--safe-csv: expected CSV or TSV output, got jsonl" in answer.err


def test_out_follows_a_symbolic_link(lamatext: Command, place: Path) -> None:
    (place / "link.csv").symlink_to("target.csv")

    lamatext("predict", "model", "--text", "a superb film", "--out", "link.csv")

    assert (place / "link.csv").is_symlink()
    assert "superb" in (place / "target.csv").read_text()


@pytest.mark.parametrize("name", ["pipe.csv", "pipe"])
def test_out_writes_into_a_fifo(name: str, lamatext: Command, place: Path) -> None:
    os.mkfifo(place / name)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append((place / name).read_text()))
    reader.daemon = True
    reader.start()

    answer = lamatext("predict", "model", "--text", "a superb film", "--out", name)

    assert answer.status == 0
    reader.join(10)
    assert received[0].startswith('"text","label","probability"')
    assert (place / name).is_fifo()


def test_parquet_cannot_be_written_into_a_fifo(lamatext: Command, place: Path) -> None:
    os.mkfifo(place / "pipe.parquet")

    answer = lamatext("predict", "model", "--text", "a superb film", "--out", "pipe.parquet")

    assert answer.status == 2
    assert "Parquet cannot be written to a pipe" in answer.err


def test_out_can_be_dev_stdout(place: Path) -> None:
    command = [sys.executable, "-m", "lamatext", "predict", "model", "--text", "a", "-q", "--out"]

    done = subprocess.run([*command, "/dev/stdout"], cwd=place, check=True, capture_output=True)

    assert done.stdout.startswith(b'"text","label","probability"\n"a",')


def test_max_record_limits_a_line_of_the_input(lamatext: Command, place: Path) -> None:
    (place / "long.txt").write_text("short\n" + "a" * 1_500_000 + "\n")

    refused = lamatext("predict", "model", "long.txt", "--max-record", "1")
    read = lamatext("predict", "model", "long.txt", "--max-record", "2", "--out", "out.csv")

    assert (refused.status, read.status) == (2, 0)
    assert "long.txt:2: a record longer than 1 MB" in refused.err


def test_the_default_of_max_record_is_that_of_the_readers() -> None:
    assert DEFAULT_MAX_RECORD * 1_000_000 == MAX_RECORD


def test_an_empty_text_is_flagged(lamatext: Command) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        lines = lamatext("predict", "model", "--text", "", "--text", "a superb film", "--json")

    assert "1 text is empty: its prediction is not based on any word." in lines.err
    empty, full = map(json.loads, lines.out.splitlines())
    assert empty["empty"] is True
    assert "empty" not in full


def test_a_table_with_only_a_header_is_noted(lamatext: Command, place: Path) -> None:
    (place / "one.csv").write_text("text\n")

    answer = lamatext("predict", "model", "one.csv", "--out", "out.csv")

    assert answer.status == 0, answer.err
    assert "no rows below the header; if the first line is a text, use --format lines" in answer.err
    assert len((place / "out.csv").read_text().splitlines()) == 1


TYPED = pa.table(
    {
        "id": pa.array([7, None], pa.int32()),
        "price": [1.5, float("nan")],
        "tags": [["a", "b"], []],
        "when": pa.array([0, 1], pa.timestamp("s")),
        "text": ["a superb film", "a dull film"],
    }
)


@pytest.mark.parametrize("out", ["p.parquet", "parts/"])
def test_parquet_columns_keep_their_types(out: str, lamatext: Command, place: Path) -> None:
    pq.write_table(TYPED, place / "in.parquet")

    answer = lamatext("predict", "model", "in.parquet", "--out", out)

    assert answer.status == 0, answer.err
    written = pq.read_table([place / out] if out == "p.parquet" else [*place.glob("parts/part-*")])
    expected = pq.read_schema(place / "in.parquet")
    assert written.select(TYPED.schema.names).schema.equals(expected)
    assert written["tags"].to_pylist() == [["a", "b"], []]
    assert written["label"].to_pylist() == ["pos", "neg"]


def test_numbers_and_lists_stay_what_they_are_in_jsonl(lamatext: Command, place: Path) -> None:
    pq.write_table(TYPED, place / "in.parquet")
    line = (
        '{"id": 1.0, "tags": ["a", 2], "nested": {"ok": true}, "no": null, "text": "dull \\"é\\""}'
    )
    (place / "in.jsonl").write_text(line + "\n")

    typed = lamatext("predict", "model", "in.parquet", "--out", "a.jsonl", "--quiet")
    copied = lamatext("predict", "model", "in.jsonl", "--json", "--quiet")
    as_table = lamatext("predict", "model", "in.jsonl", "--out", "b.parquet", "--quiet")

    assert (typed.status, copied.status, as_table.status) == (0, 0, 0), copied.err
    first, second = map(json.loads, (place / "a.jsonl").read_text().splitlines())
    assert (first["id"], first["price"], first["tags"]) == (7, 1.5, ["a", "b"])
    assert (second["id"], second["price"], second["when"]) == (None, None, "1970-01-01 00:00:01")
    beginning = line.replace('"nested": {"ok": true}', '"nested.ok": true').removesuffix("}")
    assert copied.out.startswith(f'{beginning}, "label"')
    assert pq.read_table(place / "b.parquet")["tags"].to_pylist() == ['["a", 2]']


def test_times_that_python_lacks_are_written_as_json_strings(
    lamatext: Command, place: Path
) -> None:
    times = pa.array([1, 2**62], pa.timestamp("us"))
    table = pa.table({"text": ["a superb film", "a dull film"], "time": times})
    pq.write_table(table, place / "times.parquet")

    answer = lamatext("predict", "model", "times.parquet", "--out", "o.jsonl", "-q")

    assert answer.status == 0, answer.err
    rows = [json.loads(line) for line in (place / "o.jsonl").read_text().splitlines()]
    assert rows[0]["time"] == "1970-01-01 00:00:00.000001"
    assert [row["label"] for row in rows] == ["pos", "neg"]


def test_values_that_json_lacks_are_a_named_error(lamatext: Command, place: Path) -> None:
    times = pa.array([[1], [2**62]], pa.list_(pa.timestamp("us")))
    pq.write_table(pa.table({"text": ["good", "bad"], "times": times}), place / "times.parquet")

    answer = lamatext("predict", "model", "times.parquet", "--out", "o.jsonl", "-q")

    assert answer.status == 2
    assert "the column 'times' has values that cannot be written as JSON" in answer.err


def test_text_files_have_six_digits_of_the_probabilities_and_parquet_all(
    lamatext: Command, place: Path
) -> None:
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        lamatext("predict", "model", "reviews.csv", "--proba", "--out", name)

    exact = pq.read_table(place / "a.parquet").column("p(neg)").to_pylist()
    with (place / "a.csv").open(encoding="utf-8", newline="") as file:
        shown = [row["p(neg)"] for row in csv.DictReader(file)]
    lines = [json.loads(line) for line in (place / "a.jsonl").read_text().splitlines()]

    assert len(str(exact[0])) > 10
    assert [float(value) for value in shown] == [float(f"{value:.6g}") for value in exact]
    assert [line["p(neg)"] for line in lines] == [float(f"{value:.6g}") for value in exact]
