"""Fuzz targets of the readers: file formats, label folders, suspects and probabilities."""

import bz2
import gzip
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from hardening.fuzz_target import FindingError, FuzzTarget
from hardening.mutation import UNUSUAL_TEXT, ByteSource
from lamatext.data.dataset import Dataset
from lamatext.data.probability_file import (
    IdColumn,
    match_probabilities,
    read_probability_columns,
)
from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset, open_table
from lamatext.data.suspects_file import leave_out_suspects, text_hash
from lamatext.errors import DataError

BOMB_BYTES = 1_300_000_000  # of one line, once decompressed
EXCEL_PARTS = ("", "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/workbook.xml")
NAMESPACE = b'"http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SHEET = b"<worksheet xmlns=" + NAMESPACE + b"><sheetData>%b</sheetData></worksheet>"
SUFFIXES = {"csv": ".csv", "tsv": ".tsv", "jsonl": ".jsonl", "parquet": ".parquet"}
CSV = (
    b"text,label\na good film,pos\n\"a, \"\"bad\"\" film\",neg\n",
    b"label;text\r\n1;eins\r\n0;\"zwei\nZeilen\"\r\n",
    b"id,review,sentiment,split\n1,fine,1,train\n2,awful,0,test\n",
    b"\xef\xbb\xbftext,label\nna\xc3\xafve,pos\n,neg\n\n",
    b"text\nonly one column\nsecond\n",
)  # fmt: skip
JSONL = (
    b'{"text": "a good film", "label": "pos"}\n{"text": "bad", "label": "neg"}\n',
    b'{"review": "x", "stars": 5, "tags": ["a", {"b": null}]}\n{"review": "y", "stars": 1.0}\n',
    b'{"text": "\\ud800 \\u0000 \\ud83d\\ude00", "label": true}\n',
    b'{"text": "new key", "label": 1}\n{"text": null, "label": 2, "more": NaN}\n',
)
FASTTEXT = (
    b"__label__pos a good film\n__label__neg bad , bad film\n",
    b"__label__a x\r\n__label__b __label__c y\n\nno label\n__label__",
)
LINES = (b"a good film\nbad\n\nthe last without end", b"\xef\xbb\xbfone\r\ntwo\x00\n")
WORDS = {
    "csv": (b'"', b'""', b",", b";", b"\t", b"\r\n", b"\n", b"\r", b"text,label\n", b",,,,", b"\\"),
    "jsonl": (
        *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b"NaN", b"-Infinity", b"\n"),
        *(b'"\\ud800"', b"\\u0000", b'"text": ', b'"label": ', b"1e400", b'{"a":', b"[" * 400),
    ),
    "fasttext": (b"__label__", b"__label__ ", b"\n", b"\r", b" "),
    "lines": (b"\n", b"\r\n", b"\r", b"\x00"),
}
PROBABILITY_WORDS = (
    *(
        b"pos",
        b"neg",
        b"text",
        b"key",
        b"0.5",
        b"1e-320",
        b"1e400",
        b"nan",
        b"-0",
        b"1_0",
        b"0x1p3",
    ),
    *WORDS["csv"],
)
TABLE_NAMES = ("a.csv", "a.tsv", "a.jsonl", "a.parquet")  # of suspects and probabilities
TEXTS = ("a good film", "bad, bad", "naïve\nfilm", "film é 東京")  # of the data that they belong to
CLASSES = ("pos", "neg")
LARGE = {  # inputs that need quadratic time or memory in a careless reader
    "csv": (
        b"text,label\n" + b'"a\nb"c,d\n' * 100_000,
        b"text,label\n" + b'x,"y\n' * 100_000,
        b"text,label\n" + b'"' * 1_000_000,
        b",".join(b"c%d" % number for number in range(60_000)) + b"\n",
        b"text,label\n" + b"\xe9\xff,b\n" * 100_000,
    ),
    "jsonl": (
        b"".join(b'{"k%d": 1}\n' % number for number in range(60_000)),
        b"{" + b",".join(b'"k%d": 1' % number for number in range(60_000)) + b"}",
        b'{"text": ' + b"[" * 100_000,
    ),
}


def build_target(name: str) -> FuzzTarget:
    """Build the fuzz target of a reader."""
    if name in SUFFIXES:
        seeds = {"csv": CSV, "tsv": _tsv_seeds(), "jsonl": JSONL, "parquet": _parquet_seeds()}
        words = WORDS.get({"tsv": "csv"}.get(name, name), ())
        large = LARGE.get(name, ())
        return FuzzTarget(name, _file_check(SUFFIXES[name]), seeds[name], words, large)
    if name == "fasttext":
        return FuzzTarget(name, _file_check(".txt", "fasttext"), FASTTEXT, WORDS["fasttext"])
    if name == "lines":
        return FuzzTarget(name, _file_check(".txt"), (*LINES, *FASTTEXT, *JSONL), WORDS["lines"])
    if name == "excel":
        return FuzzTarget(name, check_excel, *_excel_inputs())
    if name == "compressed":
        return FuzzTarget(name, check_compressed, *_compressed_inputs())
    if name == "suspects":
        return FuzzTarget(name, check_suspects, _suspects_seeds(), WORDS["csv"])
    if name == "probabilities":
        return FuzzTarget(name, check_probabilities, _probability_seeds(), PROBABILITY_WORDS)
    return FuzzTarget(name, check_label_folders, _folder_plans(), (b"\x00", b"/", b"train", b"."))


def check_file(path: Path, format: str | None = None) -> None:
    """Read a file as a table and, if it has labels, as a dataset; both must have the same rows."""
    table = open_table(str(path), ReadOptions(format=format))
    rows = 0
    for batch in table.all_batches():
        if tuple(batch.schema.names) != table.columns:
            raise FindingError(
                f"other columns than announced: {batch.schema.names}, {table.columns}"
            )
        if any(column.type != pa.string() for column in batch.columns):
            raise FindingError(f"a column is not of strings: {batch.schema.types}")
        batch.validate(full=True)
        rows += len(batch)
    with suppress(DataError):  # too many rows may be bad
        load_dataset(str(path), ReadOptions(format=format, max_bad_rows=0.5))
    try:
        dataset = load_dataset(str(path), ReadOptions(format=format))
    except DataError:
        return  # readable, but without texts and labels
    dataset.texts.validate(full=True)
    if len(dataset) != rows:
        raise FindingError(f"table and dataset differ in rows: {rows}, {len(dataset)}")


def check_compressed(data: bytes) -> None:
    """Read a compressed file: the first byte selects name and codec of the other bytes."""
    selected, content = data[:1], data[1:]
    name = ("a.csv.gz", "a.jsonl.zst", "a.txt.gz", "a.parquet.gz")[selected[0] & 3 if data else 0]
    if selected and selected[0] & 8:
        name = "a.csv.bz2"
    if selected and selected[0] & 4:  # compress valid content of the format anew
        content = _compress(content, name)
    path = scratch_folder() / name
    path.write_bytes(content)
    check_file(path)


def _compress(content: bytes, name: str) -> bytes:
    if name.endswith(".bz2"):
        return bz2.compress(content)
    codec = pa.Codec("gzip" if name.endswith("gz") else "zstd")
    compressed: bytes = codec.compress(content, asbytes=True)
    return compressed


def check_excel(data: bytes) -> None:
    """Read an Excel workbook: raw bytes, or one whose part named by the first byte is replaced."""
    part = EXCEL_PARTS[data[0] % len(EXCEL_PARTS)] if data else ""
    content = data[1:]
    if part:
        content = _zip({**_excel_files(), part: content})
    path = scratch_folder() / "a.xlsx"
    path.write_bytes(content)
    check_file(path)


def check_label_folders(data: bytes) -> None:
    """Read a folder with one folder per label, whose names and files come from the input."""
    root = scratch_folder() / "labels"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    source = ByteSource(data)
    for _ in range(2 + source.number(3)):
        folder = root / _file_name(source)
        _try_write(folder.mkdir)
        for _ in range(source.number(3)):
            name, size = _file_name(source), source.number(48)
            path, content = folder / name, source.bytes(size)
            _try_write(lambda path=path, content=content: path.write_bytes(content))  # type: ignore[misc]
    check_folder(root)


def check_folder(root: Path) -> None:
    """Read a folder as a dataset by its reader of label folders."""
    dataset = load_dataset(str(root))
    dataset.texts.validate(full=True)
    if not len(dataset) or dataset.require_labels().null_count:
        raise FindingError("a folder was read without rows or without labels")


def check_suspects(data: bytes) -> None:
    """Leave out the rows that a hostile file of suspects lists; the first byte is its format."""
    dataset = _labelled_texts()
    rest = leave_out_suspects(dataset, _table_file(data))
    rest.texts.validate(full=True)
    if len(rest) + len(rest.left_out) != len(dataset) or not len(rest):
        raise FindingError(f"{len(rest)} rows are left and {len(rest.left_out)} left out")


def check_probabilities(data: bytes) -> None:
    """Match a teacher's hostile file of probabilities with texts; the first byte has its options.

    Two bits are the format, one each selects several labels per text and matching by ids.
    """
    flags = data[0] if data else 0
    is_multi_label = bool(flags & 4)
    table = match_probabilities(
        read_probability_columns(_table_file(data)),
        CLASSES,
        TEXTS,
        source="teacher",
        ids=IdColumn("key", ["1", "2", "3", "4"]) if flags & 8 else None,
        multi_label=is_multi_label,
    )
    values = table.look_up(TEXTS)
    if values.shape != (len(TEXTS), len(CLASSES)) or not np.isfinite(values).all():
        raise FindingError("probabilities of another shape, or not finite")
    if values.min() < 0 or values.max() > 1:
        raise FindingError(f"probabilities out of range: {values.tolist()}")
    if not is_multi_label and np.abs(values.sum(axis=1) - 1).max() > 1e-5:
        raise FindingError(f"probabilities that do not sum to 1: {values.tolist()}")


def _table_file(data: bytes) -> Path:
    """Write the bytes of a fuzz input to a file whose format its first byte selects."""
    path = scratch_folder() / TABLE_NAMES[data[0] & 3 if data else 0]
    path.write_bytes(data[1:])
    return path


@cache
def _labelled_texts() -> Dataset:
    path = scratch_folder() / "data.jsonl"
    rows = [{"text": text, "label": CLASSES[n % 2]} for n, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_dataset(str(path), ReadOptions(keep_lines=True))


def _suspects_seeds() -> list[bytes]:
    rows = [
        {"row": str(n + 1), "label": CLASSES[n % 2], "text_hash": text_hash(text)}
        for n, text in enumerate(TEXTS)
    ]
    corrected = [{**row, "label": "other"} for row in rows]
    without_label = [{"row": row["row"], "text_hash": row["text_hash"]} for row in rows]
    tables = (rows[:1], rows[1:3], corrected, without_label[2:], rows)
    return [seed for table in tables for seed in _table_bytes(pa.Table.from_pylist(table))]


def _probability_seeds() -> list[bytes]:
    """Return files of probabilities that match by order, by text and by id, of both kinds."""
    votes = pa.table({"pos": ["0.9", "0.25", "1", "0.5"], "neg": ["0.1", "0.75", "0", "0.5"]})
    several = pa.table({"neg": ["0.9", "1", "1e-3", "0"], "pos": ["0.1", "1", "0", "0.5"]})
    by_id = votes.append_column("key", pa.array(["4", "3", "2", "1"]))
    by_text = votes.append_column("text", pa.array(TEXTS[::-1]))
    numbers = pa.table({"pos": [0.9, 0.25, 1.0, 0.5], "neg": [0.1, 0.75, 0.0, 0.5]})
    tables = ((votes, 0), (by_text, 0), (numbers, 0), (several, 4), (by_id, 8), (by_id, 12))
    return [
        bytes([seed[0] | flags]) + seed[1:]
        for table, flags in tables
        for seed in _table_bytes(table)
    ]


def _table_bytes(table: pa.Table) -> list[bytes]:
    """Return a table as CSV, TSV, JSONL and Parquet, each behind the byte of its format."""
    files = [io.BytesIO(), io.BytesIO()]
    for file, delimiter in zip(files, ",\t", strict=True):
        pa.csv.write_csv(table, file, pa.csv.WriteOptions(delimiter=delimiter))
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    contents = [*(file.getvalue() for file in files), lines.encode(), _parquet_bytes(table, "none")]
    return [bytes([number]) + content for number, content in enumerate(contents)]


@cache
def scratch_folder() -> Path:
    """Create the folder for the files of reader inputs."""
    return Path(tempfile.mkdtemp(prefix="readers-"))


def _file_check(suffix: str, format: str | None = None) -> Callable[[bytes], None]:
    path = scratch_folder() / f"input{suffix}"

    def check(data: bytes) -> None:
        path.write_bytes(data)
        check_file(path, format)

    return check


def _file_name(source: ByteSource) -> str:
    """Draw a file name: letters, hostile names, or arbitrary bytes."""
    kind = source.number(4)
    if kind < 2:
        return "abcdefgh"[source.number(8)] + (".txt", ".gz", "", ".csv")[source.number(4)]
    if kind == 2:
        return os.fsdecode(source.choice(UNUSUAL_TEXT).replace(b"\0", b"n").replace(b"/", b"s"))
    raw = source.bytes(1 + source.number(12)).replace(b"\0", b"n").replace(b"/", b"s")
    return os.fsdecode(raw).strip(".") or "x"


def _try_write(write: Callable[[], object]) -> None:
    """Write a hostile file unless the file system itself refuses its name."""
    try:
        write()
    except (OSError, ValueError):
        return


def _tsv_seeds() -> tuple[bytes, ...]:
    return tuple(data.replace(b",", b"\t").replace(b";", b"\t") for data in CSV)


def _parquet_seeds() -> tuple[bytes, ...]:
    columns = {"text": ["a good film", "bad", None, "x"], "label": ["pos", "neg", "pos", "neg"]}
    tables = [
        pa.table(columns),
        pa.table({"text": columns["text"], "label": [1, 2, 1, 2], "when": [None, 1.5, 2.0, 3.0]}),
        pa.table({"text": pa.array(["a", "b"]).dictionary_encode(), "label": [[1], [2, 3]]}),
        pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]),
        pa.table({"text": pa.array([b"\xff\xfe"], pa.binary()), "label": ["x"]}),
        pa.table({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}),
        _not_utf8_table(),
    ]
    return tuple(
        _parquet_bytes(table, compression) for table in tables for compression in ("none", "snappy")
    )


def _not_utf8_table() -> pa.Table:
    """Return a table whose string column holds bytes that are not UTF-8."""
    offsets, content = pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, content])
    return pa.table({"text": text, "label": ["x"]})


def _parquet_bytes(table: pa.Table, compression: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, compression=compression)
    return file.getvalue()


def _compressed_inputs() -> tuple[list[bytes], tuple[bytes, ...], list[bytes]]:
    """Return seed inputs, dictionary and large inputs of the target of compressed files."""
    zstd = pa.Codec("zstd")
    seeds = [
        *(b"\0" + gzip.compress(data, mtime=0) for data in CSV),
        *(b"\1" + zstd.compress(data, asbytes=True) for data in JSONL),
        *(b"\2" + gzip.compress(data, mtime=0) for data in LINES),
        *(b"\3" + gzip.compress(data, mtime=0) for data in _parquet_seeds()[:2]),
        *(b"\4" + data for data in CSV),
        *(b"\10" + bz2.compress(data) for data in CSV),
        *(b"\5" + data for data in JSONL),
    ]
    member = gzip.compress(b"a" * (1 << 24), 9, mtime=0)
    bomb = b"\2" + member * (BOMB_BYTES >> 24)  # members of a gzip file are read as one
    return seeds, (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh9"), [bomb]


@cache
def _excel_files() -> dict[str, bytes]:
    """Return the files of a small Excel workbook with shared strings."""
    import openpyxl

    workbook = openpyxl.Workbook()
    rows = (("text", "label", "when"), ("a good film", "pos", 1.5), ("bad", "neg", True))
    for row in rows:
        workbook.active.append(row)
    content = io.BytesIO()
    workbook.save(content)
    with zipfile.ZipFile(content) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    strings = b"<si><t>text</t></si><si><r><t>la</t></r><r><t>bel</t></r></si>"
    return {EXCEL_PARTS[2]: b"<sst xmlns=%b>%b</sst>" % (NAMESPACE, strings), **files}


def _zip(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def _excel_inputs() -> tuple[list[bytes], tuple[bytes, ...], list[bytes]]:
    """Return seed inputs, dictionary and large inputs of the target of Excel workbooks."""
    files = _excel_files()
    seeds = [bytes([n]) + files[part] for n, part in enumerate(EXCEL_PARTS) if part]
    seeds += [b"\0" + _zip(files), b"\1" + SHEET % b'<row r="9"><c r="C9" t="b"><v>1</v></c></row>']
    words = (
        *(
            b"<row>",
            b"</row>",
            b'<c t="s"><v>0</v></c>',
            b'<c t="e">',
            b'<c t="d">',
            b"<v>",
            b"&a;",
        ),
        *(
            b'r="1048577"',
            b'r="XFD1"',
            b"<!DOCTYPE a [",
            b"<![CDATA[",
            b"<is><t>",
            b"<!--",
            b"</c>",
        ),
    )
    far_column = b"".join(
        b'<row r="%d"><c r="ZZZ%d"><v>1</v></c></row>' % (n, n) for n in range(5000)
    )
    large = [
        b"\1" + SHEET % b'<row r="2000000000"><c r="A1"><v>1</v></c></row>',
        b"\1" + SHEET % far_column,
        b"\1" + SHEET % (b"<row/>" * 400_000),
    ]
    return seeds, words, large


def _folder_plans() -> list[bytes]:
    plan = bytes(range(64))
    return [plan, bytes(64), b"\2" + b"\0\1\2\3hello world\n" * 6, b"\1" + os.fsencode("é") * 30]
