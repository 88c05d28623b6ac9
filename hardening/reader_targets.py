"""Fuzz targets of the readers: every file format, compressed files and one folder per label."""

import gzip
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hardening.fuzz_target import FindingError, FuzzTarget
from hardening.mutation import UNUSUAL_TEXT, ByteSource
from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset, open_table
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
    if selected and selected[0] & 4:  # compress valid content of the format anew
        codec = "gzip" if name.endswith("gz") else "zstd"
        content = pa.Codec(codec).compress(content, asbytes=True)
    path = scratch_folder() / name
    path.write_bytes(content)
    check_file(path)


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
        *(b"\5" + data for data in JSONL),
    ]
    member = gzip.compress(b"a" * (1 << 24), 9, mtime=0)
    bomb = b"\2" + member * (BOMB_BYTES >> 24)  # members of a gzip file are read as one
    return seeds, (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"), [bomb]


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
