import bz2
import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import DataError


def first_rows(source: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = next(open_table(source).all_batches()).to_pylist()
    return rows


def written(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def pairs(source: str) -> list[tuple[str, str]]:
    dataset = load_dataset(source)
    assert dataset.labels is not None
    return list(zip(dataset.texts.to_pylist(), dataset.labels.to_pylist(), strict=True))


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


EXPECTED = [("good, very\ngood", "01"), ("NA", "NA"), ("", "x")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b'text,label\n"good, very\ngood",01\nNA,NA\n"",x\n'),
        ("bom.csv", b'\xef\xbb\xbftext,label\n"good, very\ngood",01\nNA,NA\n,x'),
        ("a.tsv", b'text\tlabel\n"good, very\ngood"\t01\nNA\tNA\n\tx\n'),
        ("semicolon.csv", b'text;label\n"good, very\ngood";01\nNA;NA\n;x\n'),
        (
            "a.jsonl",
            b'{"text": "good, very\\ngood", "label": "01"}\n\n'
            b'{"label": "NA", "text": "NA"}\r\n{"text": null, "label": "x"}',
        ),
    ],
)
def test_every_value_stays_an_unchanged_string(tmp_path: Path, name: str, content: bytes) -> None:
    assert pairs(written(tmp_path, name, content)) == EXPECTED


def test_windows_line_ends_are_not_part_of_a_value(tmp_path: Path) -> None:
    source = written(tmp_path, "a.csv", b"text,label\r\ngood,1\r\nbad,0\r\n")

    assert pairs(source) == [("good", "1"), ("bad", "0")]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize(("suffix", "compress"), COMPRESS.items())
def test_compressed_files_are_decompressed(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    content = b"text,label\n" + b"good,1\n" * 100_000
    source = written(tmp_path, f"a.csv{suffix}", compress(content))

    assert pairs(source) == [("good", "1")] * 100_000


def test_json_numbers_and_booleans_keep_their_literal_text(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": "b", "label": 1.0}\n{"text": 7, "label": true}\n',
    )

    assert pairs(source) == [("a", "1"), ("b", "1.0"), ("7", "true")]


def test_half_a_surrogate_pair_becomes_the_replacement_character(tmp_path: Path) -> None:
    source = written(tmp_path, "a.jsonl", '{"text": "x\\ud83d", "label": "a"}\n')

    assert pairs(source) == [("x�", "a")]


def test_parquet_columns_become_strings(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": [1, 2], "text": ["a", None], "label": pa.array([3, 4], pa.int8())})
    pq.write_table(table, path)

    assert pairs(str(path)) == [("a", "3"), ("", "4")]
    assert first_rows(str(path))[0] == {
        "id": "1",
        "text": "a",
        "label": "3",
    }


def test_parquet_is_read_from_stdin_and_from_gzip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": pa.array(["x"]).dictionary_encode()}), path)
    packed = written(tmp_path, "b.parquet.gz", gzip.compress(path.read_bytes()))
    stdin(monkeypatch, path.read_bytes())

    assert pairs(packed) == [("a", "x")]
    assert load_dataset("-", ReadOptions(format="parquet")).texts.to_pylist() == ["a"]


def test_fasttext_lines_are_detected_by_their_prefix(tmp_path: Path) -> None:
    source = written(tmp_path, "a.txt", "__label__pos good film\n\n__label__neg  bad\n")

    assert pairs(source) == [("good film", "pos"), ("bad", "neg")]


def test_plain_lines_are_unlabelled_texts_including_empty_lines(tmp_path: Path) -> None:
    rows = first_rows(written(tmp_path, "a.txt", "one\n\nthree, \u2028still\n"))

    assert rows == [{"text": "one"}, {"text": ""}, {"text": "three, \u2028still"}]


def test_stdin_can_be_read_as_one_text_per_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"a,b\nc,d\n")

    assert [
        batch.to_pylist() for batch in open_table("-", ReadOptions(format="lines")).all_batches()
    ] == [[{"text": "a,b"}, {"text": "c,d"}]]


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (b"text,label\na,1\n", None),
        (b"text\tlabel\na\t1\n", None),
        (b'{"text": "a", "label": 1}\n', None),
        (b"__label__1 a\n", None),
        (gzip.compress(b"text,label\na,1\n", mtime=0), "csv"),
    ],
)
def test_the_format_of_stdin_is_detected_or_named(
    monkeypatch: pytest.MonkeyPatch, content: bytes, format: str | None
) -> None:
    stdin(monkeypatch, content)

    dataset = load_dataset("-", ReadOptions(format=format))

    assert dataset.texts.to_pylist() == ["a"]
    assert dataset.labels is not None
    assert dataset.labels.to_pylist() == ["1"]


def test_rows_that_span_many_blocks_are_complete(tmp_path: Path) -> None:
    long = 'a "word" and,\n' * 100_000
    quoted = long.replace('"', '""')
    source = written(tmp_path, "a.csv", f'text,label\n"{quoted}",x\n5" pipe,y\n"{quoted}",z\n')

    assert pairs(source) == [(long, "x"), ('5" pipe', "y"), (long, "z")]


def test_a_text_of_a_million_words_is_one_text(tmp_path: Path) -> None:
    text = "word " * 1_000_000
    source = written(tmp_path, "a.jsonl", f'{{"text": "{text}", "label": "x"}}\n')

    assert pairs(source) == [(text, "x")]


def test_all_scripts_and_control_characters_stay_unchanged(tmp_path: Path) -> None:
    text = "电影 فيلم 🎬\x07\x0b\x1c\x85"
    source = written(tmp_path, "a.csv", f"text,label\n{text},x\n" * 1)

    assert pairs(source) == [(text, "x")]


def test_a_table_keeps_all_columns_in_their_order(tmp_path: Path) -> None:
    csv = written(tmp_path, "a.csv", "id,text,extra\n01,a,\n")
    jsonl = written(tmp_path, "a.jsonl", '{"id": 1.50, "tags": ["a", 2], "text": "a"}\n')

    assert first_rows(csv) == [{"id": "01", "text": "a", "extra": ""}]
    assert first_rows(jsonl) == [{"id": "1.50", "tags": '["a", 2]', "text": "a"}]


def test_a_table_without_rows_has_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b"")

    [batch] = open_table(written(tmp_path, "a.csv", "id,text\n")).all_batches()
    [nothing] = open_table("-", ReadOptions(format="lines")).all_batches()

    assert (batch.schema.names, len(batch)) == (["id", "text"], 0)
    assert (nothing.schema.names, len(nothing)) == (["text"], 0)


def test_a_key_that_first_occurs_late_is_left_out_with_a_warning(tmp_path: Path) -> None:
    rows = '{"text": "a"}\n' * 50_000 + '{"text": "b", "late": 1}\n'
    source = written(tmp_path, "a.jsonl", rows)

    with pytest.warns(UserWarning, match=r"a.jsonl:50001: the key 'late'"):
        last = list(open_table(source).all_batches())[-1]

    assert last.to_pylist()[-1] == {"text": "b"}


def test_a_label_of_fasttext_ends_at_any_white_space(tmp_path: Path) -> None:
    path = written(tmp_path, "a.ft", "__label__pos\tgood film\n__label__neg  bad film\n")

    assert first_rows(path) == [
        {"label": "pos", "text": "good film"},
        {"label": "neg", "text": "bad film"},
    ]


def test_nan_in_jsonl_is_a_missing_value(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", '{"text": "a", "label": NaN}\n{"text": "b", "label": 1}\n')

    assert [row["label"] for row in first_rows(path)] == [None, "1"]


def test_infinity_in_jsonl_is_a_label_as_it_is_written(tmp_path: Path) -> None:
    rows = '{"text": "a", "label": Infinity}\n{"text": "b", "label": -Infinity}\n'
    path = written(tmp_path, "a.jsonl", rows)

    assert [row["label"] for row in first_rows(path)] == ["Infinity", "-Infinity"]


def test_a_json_array_over_several_lines_is_detected(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", '[\n  {"text": "a"},\n  {"text": "b"}\n]\n')

    assert first_rows(path) == [{"text": "a"}, {"text": "b"}]


def test_a_fault_in_a_json_array_names_its_row(tmp_path: Path) -> None:
    path = written(
        tmp_path, "a.json", '[{"text": "a", "label": "x"},\n{"text": [1], "label": "y"}]'
    )

    with pytest.raises(DataError, match=r"a.json: row 2: 'text' holds \[1\], but the rows before"):
        load_dataset(path)


PLACES = {
    "a.csv": ('text,label\n\n"two\nlines",x\n ,\nlast,y\n', "a.csv:6"),
    "a.jsonl": ('{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}\n', "a.jsonl:3"),
    "a.json": ('[\n{"text": "a", "label": "x"},\n{"text": "b", "label": "y"}]', "a.json: row 2"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_of_a_text_is_its_line_or_row_in_the_file(tmp_path: Path, name: str) -> None:
    content, place = PLACES[name]
    source = written(tmp_path, name, content.encode())

    known = load_dataset(source, ReadOptions(keep_lines=True, max_bad_rows=0.5))
    unknown = load_dataset(source, ReadOptions(max_bad_rows=0.5))

    assert known.take(np.array([1])).place(0).endswith(f"/{place}")
    assert unknown.place(1).endswith(f"/{name}: row 2")


def test_a_compressed_excel_file_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in (("text", "label"), ("good", "pos")):
        workbook.active.append(row)
    workbook.save(tmp_path / "a.xlsx")
    (tmp_path / "a.xlsx.gz").write_bytes(gzip.compress((tmp_path / "a.xlsx").read_bytes()))

    assert first_rows(str(tmp_path / "a.xlsx.gz")) == [{"text": "good", "label": "pos"}]
