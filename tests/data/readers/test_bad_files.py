import bz2
import gzip
import lzma
import os
import re
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers import excel_reader, parquet_pages, parquet_reader
from lamatext.data.readers.input_files import CHUNK, read_chunks
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
    "empty Parquet": ("a.parquet", b"", "a.parquet: the file is empty"),
    "empty Excel": ("a.xlsx", b"", "a.xlsx: the file is empty"),
    "empty text": ("a.txt", b"", "a.txt: the file is empty"),
    "two headers": ("a.csv", b"text,text,label\na,b,c\n", "2 columns are named 'text'"),
    "empty jsonl": ("a.jsonl", b"\n\n", "a.jsonl: the file is empty"),
    "header only": ("a.csv", b"text,label\n", "a.csv: no rows"),
    "no header": (
        "a.csv",
        b"great,1\nbad,0\n",
        "no label column found: .*Its columns are column 1",
    ),
    "ragged": ("a.csv", b'text,label\n"a\nb",1\nq,w,e\n', "a.csv:4: expected 2 fields.*got 3"),
    "one field": ("a.csv", b"text\na\nb,c\n", "a.csv:3: expected 1 field as in the header, got 2"),
    "open quote": ("a.csv", b'text,label\n"a, b",1\n"b,2\nc,3\n', "a.csv:3: a quote is opened"),
    "mixed": ("a.csv", 'text,label\n"é\nb",1\n'.encode() + b"caf\xe9,2\n", "a.csv:4: not UTF-8"),
    "mixed jsonl": (
        "a.jsonl",
        '{"a": "é"}\n'.encode() + b'{"a": "\xe9"}\n',
        "a.jsonl:2: not UTF-8",
    ),
    "cut utf-16": ("a.csv", "text,label\na,1\n".encode("utf-16")[:-1], "not utf-16-le text"),
    "binary": ("a.csv", bytes(range(256)) * 9, "a.csv: full of control characters"),
    "zip": ("a.csv", b"PK\x03\x04abc", "a zip archive.*Unpack an archive, or save the data as CSV"),
    "xz": ("a.csv", lzma.compress(b"text,label\na,1\n"), "a.csv: this is an .xz file.*Unpack"),
    "named zip": (
        "a.csv.zip",
        b"PK\x03\x04abc",
        ".zip files are not read. Unpack it; .*.bz2, .zst",
    ),
    "named xz": ("a.csv.XZ", b"\xfd7zXZ", ".xz files are not read. Unpack it"),
    "tar": ("a.tar.gz", gzip.compress(b"a"), ".tar files are not read. Unpack it"),
    "bad json": ("a.jsonl", b'{"text": "a"}\n{"text":\n', "a.jsonl:2: expected a JSON object"),
    "deep json": ("a.jsonl", b'{"a":' + b"[" * 200_000, "a.jsonl:1: .*nested too deeply"),
    "not an object": ("a.jsonl", b'{"text": "a"}\n[1]\n', r"a.jsonl:2: .*\[1\].*not an object"),
    "json array": ("a.json", b'[{"text": "a"},', "a.json: not a JSON array"),
    "array of texts": (
        "a.json",
        b'[{"text": "a", "label": "b"}, "c"]',
        "a.json: row 2: expected a",
    ),
    "json indented": ("a.json", b'{\n"text": "a"}', "a.json:1: this is one JSON document"),
    "no format": ("a.docx", b"PK", "the extension '.docx' is not that of a known format"),
    "not xlsx": ("a.xlsx", b"PK", "a.xlsx: not a readable .xlsx workbook"),
    "truncated gz": ("a.csv.gz", gzip.compress(b"text,label\na,1\n")[:-9], "cut short or damaged"),
    "not gz": ("a.csv.gz", b"text,label\n", "its name says gzip, its content does not"),
    "truncated bz2": ("a.csv.bz2", bz2.compress(b"text,label\na,1\n")[:-9], "cut short or damaged"),
    "not bz2": ("a.csv.bz2", b"text,label\n", "its name says bz2, its content does not"),
    "damaged zst": ("a.csv.zst", b"\x28\xb5\x2f\xfd garbage", "cut short or damaged"),
    "not parquet": ("a.parquet", b"text,label\na,b\n", "not a readable Parquet file .*Write it"),
    "nested labels": ("a.jsonl", b'{"text": "a", "labels": [["x"]]}', "a.jsonl:1: .*one value or"),
    "one label, then a list": (
        "a.jsonl",
        b'{"text": "a", "label": "x"}\n{"text": "b", "label": ["x", "y"]}',
        r"a.jsonl:2: 'label' holds \[\"x\", \"y\"\], but the rows before hold one value",
    ),
    "null in a list": ("a.jsonl", b'{"text": "a", "label": ["x", null]}', "row 1: .*null or blank"),
    "lists as texts": ("a.jsonl", b'{"text": ["a"], "label": "x"}', "'text' holds lists"),
    "no labels": ("a.txt", b"one\ntwo\n", "a.txt: no labels, its only column is text"),
    "missing label": ("a.csv", b"text,label\na,x\nb, \n", "a.csv:3: no label in column 'label'"),
    "null label": ("a.jsonl", b'{"text": "a", "label": null}', "a.jsonl:1: no label"),
    "unlabelled line": ("a.txt", b"__label__x a\nb\n", "a.txt:2: no label"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_the_error_for_a_bad_file_names_the_file_and_the_fault(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    if name.endswith(".xlsx"):
        pytest.importorskip("openpyxl", reason="needs the extra excel")
    with pytest.raises(DataError, match=f"(?s){message}"):
        load_dataset(written(tmp_path, name, content))


def test_lists_are_json_in_a_table_of_all_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": [["x", "y"]]}), path)

    assert first_rows(str(path)) == [{"text": "a", "label": '["x", "y"]'}]


def test_objects_as_labels_in_parquet_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": [[{"x": 1}]]}), path)

    with pytest.raises(DataError, match=r"column 'label' holds list<.*one value or a list"):
        load_dataset(str(path))


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


def test_a_missing_file_is_compared_without_the_extension(tmp_path: Path) -> None:
    for name in ("reviews.csv", "reviews.jsonl", "out.jsonl"):
        written(tmp_path, name, "")

    with pytest.raises(DataError, match=r"Did you mean .*reviews.csv\?"):
        load_dataset(str(tmp_path / "Review.csv"))
    with pytest.raises(DataError, match=r"Did you mean .*reviews.jsonl\?"):
        load_dataset(str(tmp_path / "review.jsonl"))
    with pytest.raises(DataError, match=r"no such file. Check the path"):
        load_dataset(str(tmp_path / "nosuch.jsonl"))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file, and no folder .*nowhere"):
        load_dataset(str(tmp_path / "nowhere" / "a.csv"))


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown format 'xml'. Known formats are csv, tsv"):
        load_dataset(written(tmp_path, "a.csv", "text,label\na,1\n"), ReadOptions(format="xml"))


NOT_UTF8 = pa.array([b"good", b"b\xffd"]).view(pa.string())


def test_a_parquet_string_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": NOT_UTF8, "label": ["x", "y"]}), path)

    with pytest.raises(DataError, match=r"column 'text', row 2: not UTF-8"):
        load_dataset(str(path))
    with pytest.raises(DataError, match=r"column 'text', row 2: not UTF-8"):
        first_rows(str(path))


def test_a_parquet_list_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    lists = pa.ListArray.from_arrays([0, 1, 2], NOT_UTF8)
    pq.write_table(pa.table({"text": ["a", "b"], "tags": lists}), path)

    with pytest.raises(DataError, match=r"column 'tags' of type list.* cannot be written as JSON"):
        first_rows(str(path))


def test_a_parquet_column_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "n!me": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"n!me", b"n\xffme"))

    with pytest.raises(DataError, match="a column name that is not UTF-8"):
        open_table(str(path))


def test_parquet_columns_of_the_same_name_are_read_by_position(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = [pa.array([value]) for value in "abcd"]
    names = ["text", "label", "more", "more"]
    pq.write_table(pa.Table.from_arrays(columns, names=names), path)

    batch = next(open_table(str(path)).all_batches())

    assert batch.schema.names == names
    assert [column[0].as_py() for column in batch.columns] == ["a", "b", "c", "d"]
    assert load_dataset(str(path)).texts.to_pylist() == ["a"]
    pq.write_table(pa.Table.from_arrays(columns[:3], names=["text", "label", "label"]), path)
    with pytest.raises(DataError, match="2 columns are named 'label'"):
        load_dataset(str(path))


def test_lone_surrogates_in_json_keys_are_replaced(tmp_path: Path) -> None:
    rows = b'{"text": "a", "\\ud800k": "b", "deep": {"\\udc00": 1}}\n'

    assert first_rows(written(tmp_path, "a.jsonl", rows)) == [
        {"text": "a", "\ufffdk": "b", "deep.\ufffd": "1"}
    ]


@pytest.mark.parametrize("depth", [900, 3000, 100_000])
def test_deeply_nested_json_is_read_or_a_named_error(depth: int, tmp_path: Path) -> None:
    deep = "[" * depth + "]" * depth  # which depth is too much depends on the version of Python
    source = written(tmp_path, "a.jsonl", f'{{"text": "a", "deep": {deep}}}\n')

    try:
        found = str(first_rows(source))
    except DataError as error:
        found = str(error)
    assert deep in found or re.search(r"a\.jsonl:1: .*nested too deeply", found)


def test_a_label_folder_whose_name_is_not_utf8_is_read(tmp_path: Path) -> None:
    for name in (b"n\xffg", b"pos"):
        folder = tmp_path / os.fsdecode(name)
        folder.mkdir()
        (folder / "1.txt").write_text("a film")

    assert sorted(load_dataset(str(tmp_path)).require_labels().to_pylist()) == ["n?g", "pos"]


LONG: dict[str, tuple[str, bytes, str]] = {
    "line": ("a.txt", b"short\n" + b"a" * 2_000_000 + b"\n", "a.txt:2: a record longer than 1 MB"),
    "last line": ("a.txt", b"short\n" + b"a" * 2_000_000, "a.txt:2: a record longer than 1 MB"),
    "bz2": ("a.txt.bz2", bz2.compress(b"a" * 2_000_000), "a.txt.bz2:1: a record longer than 1 MB"),
    "gzip": ("a.txt.gz", gzip.compress(b"a" * 2_000_000), "a.txt.gz:1: a record longer than 1 MB"),
    "json": ("a.jsonl", b'{"text": "' + b"a" * 2_000_000 + b'"}', "a.jsonl:1: a record longer"),
    "field": (
        "a.csv",
        b'text,label\na,b\n"' + b"word\n" * 400_000 + b'",b\n',
        "a.csv:3: a row longer than 1 MB.*--max-record",
    ),
}


@pytest.mark.parametrize(("name", "content", "message"), LONG.values(), ids=LONG)
def test_a_record_that_is_too_long_is_an_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    source = written(tmp_path, name, content)

    with pytest.raises(DataError, match=message):
        list(open_table(source, ReadOptions(max_record=1_000_000)).all_batches())
    assert list(open_table(source, ReadOptions(max_record=3_000_000)).all_batches())


def test_long_files_of_short_records_are_read(tmp_path: Path) -> None:
    lines = written(tmp_path, "a.txt", b"a short line\n" * 200_000)
    rows = written(tmp_path, "a.csv", b"text,label\n" + b'"two\nlines",x\n' * 200_000)

    for source in (lines, rows):
        batches = open_table(source, ReadOptions(max_record=1_000_000)).all_batches()
        assert sum(map(len, batches)) == 200_000


def test_a_text_file_of_a_label_folder_is_one_record(tmp_path: Path) -> None:
    (tmp_path / "pos").mkdir()
    written(tmp_path / "pos", "1.txt", b"line\n" * 400_000)

    with pytest.raises(DataError, match=r"1.txt: a record longer than 1 MB"):
        list(open_table(str(tmp_path), ReadOptions(max_record=1_000_000)).all_batches())


def test_a_parquet_value_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b" * 1_500_000], "label": ["x", "y"]}), path)

    with pytest.raises(DataError, match=r"column 'text', row 2: a record longer than 1 MB"):
        list(open_table(str(path), ReadOptions(max_record=1_000_000)).all_batches())


def test_compressed_parquet_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "MAX_STREAM", 100_000)
    source = written(tmp_path, "a.parquet.gz", gzip.compress(bytes(1_000_000)))

    with pytest.raises(DataError, match=r"a.parquet.gz: .*Save it as a plain .parquet file"):
        open_table(source)


def test_a_long_value_that_many_parquet_rows_repeat_is_read_in_small_batches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays([0] * 400, ["a" * 1_000_000])
    pq.write_table(pa.table({"text": texts.cast(pa.string())}), path)
    assert path.stat().st_size < 100_000

    sizes = [(len(batch), batch.nbytes) for batch in open_table(str(path)).all_batches()]

    assert sum(rows for rows, _ in sizes) == 400
    assert max(size for _, size in sizes) < 70_000_000


def test_parquet_values_that_repeat_the_one_before_are_read_in_small_batches(
    tmp_path: Path,
) -> None:
    path, texts = tmp_path / "a.parquet", pa.table({"text": ["a" * 1_000_000] * 200})
    pq.write_table(texts, path, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    assert path.stat().st_size < 100_000

    sizes = [(len(batch), batch.nbytes) for batch in open_table(str(path)).all_batches()]

    assert sum(rows for rows, _ in sizes) == 200
    assert max(size for _, size in sizes) < 70_000_000


def test_parquet_lists_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], ["y"] * 1000]}), path)
    assert list(open_table(str(path)).all_batches())
    monkeypatch.setattr(parquet_reader, "MAX_ITEMS", 1000)

    with pytest.raises(DataError, match=r"a.parquet: column 'labels.*', row group 1: more than"):
        list(open_table(str(path)).all_batches())


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_parquet_files_are_found(tmp_path: Path, version: str) -> None:
    texts = [f"{number} {'long ' * 300}" for number in range(3000)]
    table = pa.table({"text": texts, "tags": [["a", None]] * 1500 + [None, []] * 750})
    path = tmp_path / "a.parquet"
    pq.write_table(
        table, path, data_page_size=10_000, data_page_version=version, compression="none"
    )
    file = pq.ParquetFile(path)

    content = pa.OSFile(str(path))
    found = parquet_pages.column_chunks(content)
    chunks = [file.metadata.row_group(0).column(number) for number in range(2)]
    pages = [list(parquet_pages.read_pages(content, chunk)) for chunk in found[0]]

    assert len(found) == 1
    for place, chunk, own in zip(found[0], chunks, pages, strict=True):
        assert place.start == (chunk.dictionary_page_offset or chunk.data_page_offset)
        assert place.end == place.start + chunk.total_compressed_size
        data = [page for page in own if not page.is_dictionary]
        assert sum(page.values for page in data) == chunk.num_values
        assert len(own) - len(data) == 1
        assert sum(page.size for page in own) < chunk.total_uncompressed_size
        assert sum(page.size for page in own) > 0.8 * chunk.total_uncompressed_size
    assert len(pages[0]) > 3


MEMORY = """
import resource, sys
from lamatext.data.readers import excel_reader, parquet_reader
from lamatext.data.sources import open_table
from lamatext.errors import DataError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(open_table(sys.argv[1]).all_batches())
except DataError as error:
    print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_an_endless_line_in_a_gzip_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"text,label\n")
        for _ in range(400):
            file.write(b"a" * 1_000_000)

    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], check=True, capture_output=True, text=True
    )

    assert "a.csv.gz:2: a record longer than 64 MB" in done.stderr
    assert int(done.stdout) < 250_000  # kB


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_long_parquet_value_is_refused_before_it_is_read(
    tmp_path: Path, rows: int, dictionary: bool
) -> None:
    path = tmp_path / "a.parquet"
    texts = ["a" * 300_000_000, *map(str, range(rows))]
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=dictionary, compression="zstd")
    assert path.stat().st_size < 100_000

    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], check=True, capture_output=True, text=True
    )

    message = "a record longer than 64 MB" if rows == 1 else "a page of 300 MB, at most "
    assert f"a.parquet: column 'text', row group 1: {message}" in done.stderr
    assert int(done.stdout) < 100_000  # kB


HEADER_CASES = {"blank lines": b"\n" * 1_000_000, "an open quote": b'"' + b"\n" * 1_000_000}


@pytest.mark.parametrize("content", HEADER_CASES.values(), ids=HEADER_CASES)
def test_a_csv_file_without_a_header_is_refused_in_linear_time(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "lines.csv"
    path.write_bytes(content)
    remembered = ReadOptions(remembered=Layout(("text",), ("label",), separator=",", quote='"'))

    for options in (ReadOptions(), remembered):  # minutes if it were quadratic
        with pytest.raises(DataError, match=r"lines\.csv"):
            load_dataset(str(path), options)


def test_the_header_of_a_csv_file_may_follow_blank_lines_and_span_lines(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('\n \n"te\nxt",label\nfine,a\n"two\nlines",b\n')

    assert open_table(str(path)).columns == ("te\nxt", "label")


def test_misquoted_rows_are_skipped_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + b"good,pos\n" * 10 + b'"a\nb"c,d\n' * 100_000)
    begin = time.monotonic()

    dataset = load_dataset(str(path), ReadOptions(max_bad_rows=1.0))

    assert len(dataset) == 100_010
    assert time.monotonic() - begin < 15  # quadratic time is a minute


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b",".join([b"c"] * 10_001) + b"\n", r"more than 10,000 columns"),
        ("a.csv", b",".join([b"c"] * 1001) + b"\n" + b"," * 1000, r"1,001 columns, too many to"),
        (
            "a.jsonl",
            b"".join(b'{"k%d": 1}\n' % number for number in range(9000)),
            r"9,000 different keys in the first 9,000 objects",
        ),
    ],
)
def test_tables_with_countless_columns_are_an_error(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DataError, match=message):
        load_dataset(str(tmp_path / name))


def write_workbook(path: Path, rows: str) -> None:
    """Write an Excel workbook whose only sheet has these rows, as XML."""
    openpyxl = pytest.importorskip("openpyxl")
    empty_path = path.with_name("empty.xlsx")
    openpyxl.Workbook().save(empty_path)
    sheet = "xl/worksheets/sheet1.xml"
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with (
        zipfile.ZipFile(empty_path) as empty,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as changed,
    ):
        for name in empty.namelist():
            text = f'<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>'
            changed.writestr(name, text if name == sheet else empty.read(name))


@pytest.mark.parametrize(
    ("rows", "message"),
    [("<a>" * 2000, "tags are nested more than 100 deep"), ("<a/>" * 700_000, "tags. Save the")],
    ids=["nested", "many"],
)
def test_a_small_workbook_with_countless_tags_is_an_error(
    rows: str, message: str, tmp_path: Path
) -> None:
    write_workbook(tmp_path / "a.xlsx", rows)

    with pytest.raises(DataError, match=message):
        load_dataset(str(tmp_path / "a.xlsx"))


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="2000000000"><c r="A1"><v>1</v></c></row>',
        "".join(f'<row r="{n}"><c r="ZZZ{n}"><v>1</v></c></row>' for n in range(1, 500)),
    ],
)
def test_a_workbook_of_empty_cells_is_an_error(rows: str, tmp_path: Path) -> None:
    write_workbook(tmp_path / "a.xlsx", rows)

    with pytest.raises(DataError, match="most of its cells are empty"):
        load_dataset(str(tmp_path / "a.xlsx"))


def test_a_workbook_that_unpacks_to_gigabytes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.active.append(["text", "label"])
    workbook.save(tmp_path / "a.xlsx")
    monkeypatch.setattr(excel_reader, "MAX_TAGS", 10)

    with pytest.raises(DataError, match="too large for an Excel file"):
        load_dataset(str(tmp_path / "a.xlsx"))


def test_a_parquet_file_with_fewer_rows_than_it_declares_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"text": ["a", "b"], "label": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr(parquet_reader, "_read_groups", lambda *_: iter(table.to_batches()[:0]))

    with pytest.raises(DataError, match=r"damaged \(it has 0 of 2 rows\)"):
        load_dataset(str(tmp_path / "a.parquet"))


def test_a_damaged_compressed_file_does_not_leak_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\na,1\n")[:-9])

    def read_often(times: int) -> int:
        for _ in range(times):
            with pytest.raises(DataError, match="damaged"):
                list(read_chunks(str(path)))
        return int(Path("/proc/self/statm").read_text().split()[0])  # pages of address space

    before = read_often(50)
    grown = (read_often(400) - before) * resource.getpagesize()
    assert grown < 400 * CHUNK / 4


def test_a_name_with_a_null_character_is_an_error() -> None:
    with pytest.raises(DataError, match="not the name of a file"):
        load_dataset("a\0b.csv")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_whose_content_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DataError, match="/proc/self/mem: cannot be read"):
        next(iter(read_chunks("/proc/self/mem")))


def test_a_batch_without_labels_does_not_make_lists_of_all_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    labels = ["good" if row % 2 else "bad" for row in range(16_384)] + [None] * 8_192
    words = [f"a text of several words, {row}" for row in range(len(labels))]
    pq.write_table(pa.table({"words": words, "verdict": labels}), path)

    dataset = load_dataset(str(path), ReadOptions(keep_unlabelled=True))

    assert not dataset.is_multi_label
    assert len(dataset) == 16_384
    assert len(dataset.unlabelled) == 8_192


def test_a_blank_block_in_the_middle_is_streamed_like_any_other(tmp_path: Path) -> None:
    rows = '{"words": "a b c", "kind": "x"}\n{"words": "d e f", "kind": "y"}\n' * 9
    path = written(tmp_path, "a.jsonl", rows + "\n" * 2 * CHUNK + rows)

    datasets = list(open_table(path).to_datasets())

    assert [dataset.is_multi_label for dataset in datasets] == [False] * len(datasets)
    assert sum(map(len, datasets)) == 36


def test_a_column_is_not_taken_for_a_field_of_another_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = {"review": ["1", "2"], "review.text": ["good", "bad"], "label": ["x", "y"]}
    pq.write_table(pa.table(table), path)

    dataset = load_dataset(str(path), ReadOptions(text_columns=("review.text",)))

    assert dataset.texts.to_pylist() == ["good", "bad"]


def test_the_line_of_a_row_with_too_few_fields_is_right(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "text,label\nthis is good,pos\nthe end,neg\ngood\n")

    with pytest.raises(DataError, match=r"a.csv:4: .*got 1: 'good'. Add the missing fields"):
        load_dataset(path)


@pytest.mark.parametrize("content", ["text,label", "text,label\n"])
def test_a_header_without_rows_is_an_empty_table(content: str, tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "a.csv", content))

    assert table.columns == ("text", "label")
    assert [len(batch) for batch in table.all_batches()] == [0]


def test_blank_lines_before_the_header_are_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "\n" * 2 * CHUNK + 'text,label\n"a",b\nc\n')

    with pytest.raises(DataError, match=f"a.csv:{2 * CHUNK + 3}: expected 2 fields"):
        load_dataset(path)


@pytest.mark.parametrize("remembered", [Layout(), Layout(text_columns=("x",))])
def test_a_column_that_occurs_twice_is_an_error_also_in_prediction(
    remembered: Layout, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.csv", "text,text,label\na,b,c\n")

    with pytest.raises(DataError, match="2 columns are named 'text'"):
        open_table(path).text_batches(ReadOptions(remembered=remembered))
