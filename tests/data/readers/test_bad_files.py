import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import DataError


def first_rows(source: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = next(open_table(source).all_batches()).to_pylist()
    return rows


def written(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


BAD = {
    "empty file": ("a.csv", b"", "a.csv: the file is empty"),
    "empty text": ("a.txt", b"", "a.txt: the file is empty"),
    "old line ends": ("a.csv", b"text,label\ra,1\r", "the lines end with CR alone"),
    "two headers": ("a.csv", b"text,text,label\na,b,c\n", "2 columns are named 'text'"),
    "empty jsonl": ("a.jsonl", b"\n\n", "a.jsonl: the file is empty"),
    "header only": ("a.csv", b"text,label\n", "a.csv: no rows"),
    "no header": ("a.csv", b"great,1\nbad,0\n", "no text column found. Its columns are great, 1"),
    "ragged": ("a.csv", b'text,label\n"a\nb",1\nq,w,e\n', "a.csv:4: expected 2 fields.*got 3"),
    "open quote": ("a.csv", b'text,label\na,1\n"b,2\nc,3\n', "a.csv:3: a quote is opened"),
    "latin-1": ("a.csv", b'text,label\n"a\nb",1\ncaf\xe9,2\n', "a.csv:4: not UTF-8.*0xe9.*iconv"),
    "latin-1 jsonl": ("a.jsonl", b'{"text": "a"}\n{"text": "\xe9"}\n', "a.jsonl:2: not UTF-8"),
    "utf-16": ("a.csv", "text,label\na,1\n".encode("utf-16"), "UTF-16 text.*iconv -f UTF-16"),
    "utf-16 no mark": ("a.csv", "text,label\na,1\n".encode("utf-16-le"), "NUL bytes.*UTF-16"),
    "binary": ("a.csv", bytes(range(256)) * 9, "a.csv:2: not UTF-8"),
    "zip": ("a.csv", b"PK\x03\x04abc", "a zip archive.*Save the data as CSV"),
    "bad json": ("a.jsonl", b'{"text": "a"}\n{"text":\n', "a.jsonl:2: expected a JSON object"),
    "deep json": ("a.jsonl", b'{"a":' + b"[" * 200_000, "a.jsonl:1: .*nested too deeply"),
    "not an object": ("a.jsonl", b'{"text": "a"}\n[1]\n', r"a.jsonl:2: .*\[1\].*not an object"),
    "json array": ("a.json", b'[{"text": "a"}]', "a.json:1: this is one JSON document.*jq"),
    "json indented": ("a.json", b'{\n"text": "a"}', "a.json:1: this is one JSON document"),
    "no format": ("a.xlsx", b"PK", "the extension '.xlsx' is not that of a known format"),
    "truncated gz": ("a.csv.gz", gzip.compress(b"text,label\na,1\n")[:-9], "cut short or damaged"),
    "not gz": ("a.csv.gz", b"text,label\n", "its name says gzip, its content does not"),
    "damaged zst": ("a.csv.zst", b"\x28\xb5\x2f\xfd garbage", "cut short or damaged"),
    "not parquet": ("a.parquet", b"text,label\na,b\n", "a.parquet: not a readable Parquet file"),
    "json labels": ("a.jsonl", b'{"text": "a", "labels": ["x", "y"]}', "a.jsonl:1: .*multi-label"),
    "two labels": ("a.txt", b"__label__a __label__b hi\n", "a.txt:1: several labels.*multi-label"),
    "no labels": ("a.txt", b"one\ntwo\n", "a.txt: no labels, its only column is text"),
    "missing label": ("a.csv", b"text,label\na,x\nb, \n", "row 2 has no label in column 'label'"),
    "null label": ("a.jsonl", b'{"text": "a", "label": null}', "row 1 has no label"),
    "unlabelled line": ("a.txt", b"__label__x a\nb\n", "row 2 has no label"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_the_error_for_a_bad_file_names_the_file_and_the_fault(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=f"(?s){message}"):
        load_dataset(written(tmp_path, name, content))


def test_list_labels_in_parquet_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": [["x", "y"]]}), path)

    with pytest.raises(DataError, match=r"column 'label' holds list.*multi-label"):
        load_dataset(str(path))

    assert first_rows(str(path)) == [{"text": "a", "label": '["x", "y"]'}]


def test_binary_columns_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [b"\xff"], "label": ["x"]}), path)

    with pytest.raises(DataError, match=r"column 'text' of type binary cannot be read as text"):
        load_dataset(str(path))


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.parquet", "reviews.odd"])
def test_a_missing_file_is_reported_with_a_similar_name(tmp_path: Path, name: str) -> None:
    written(tmp_path, "review.csv", "text,label\n")

    with pytest.raises(DataError, match=r"no such file. Did you mean .*review.csv"):
        load_dataset(str(tmp_path / name))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file, and no folder .*nowhere"):
        load_dataset(str(tmp_path / "nowhere" / "a.csv"))


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown format 'xml'. Known formats are csv, tsv"):
        load_dataset(written(tmp_path, "a.csv", "text,label\na,1\n"), format="xml")
