"""Encodings, separators, quotes, missing headers, Excel files and nested JSON are recognized."""

import io
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.text_encoding import check_encoding
from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import DataError

LINES = {
    "cp1252": [
        "Die Lieferung kam zu spät, größere Müllbeutel wären schön – 5 €",
        "J’ai été débité",
    ],
    "cp1250": ["Zażółć gęślą jaźń, paczka nie dotarła", "proszę o zwrot pieniędzy za książkę źle"],
    "cp1251": ["Где мой заказ? Я жду уже две недели", "верните деньги пожалуйста"],
    "cp932": ["商品がまだ届いていません。返金をお願いします。", "ありがとうございました"],
    "gb18030": ["我的订单还没有到，请尽快退款。", "质量很差，不满意"],
    "cp949": ["주문한 상품이 아직 도착하지 않았습니다.", "환불해 주세요"],
    "cp1256": ["لم يصل طلبي بعد، أريد استرداد المبلغ من فضلك", "شكرا جزيلا لكم"],
}


def write(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(folder: Path, name: str, content: bytes | str, **options: object) -> Dataset:
    return load_dataset(write(folder, name, content), ReadOptions(**options))  # type: ignore[arg-type]


def table_of(lines: list[str]) -> str:
    rows = "".join(f"{line};{'ab'[number % 2]}\r\n" for number, line in enumerate(lines * 10))
    return f"text;label\r\n{rows}"


@pytest.mark.parametrize(("encoding", "lines"), LINES.items(), ids=LINES)
def test_an_encoding_is_detected_and_noted(tmp_path: Path, encoding: str, lines: list[str]) -> None:
    dataset = read(tmp_path, "a.csv", table_of(lines).encode(encoding))

    assert dataset.texts.to_pylist() == lines * 10
    assert dataset.layout.encoding == encoding
    assert any(f"read as {encoding}" in note for note in dataset.notes)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_unicode_encodings_are_detected_with_and_without_byte_order_mark(
    tmp_path: Path, encoding: str
) -> None:
    lines = LINES["cp1252"]

    dataset = read(tmp_path, "a.csv", table_of(lines).encode(encoding))

    assert dataset.texts.to_pylist() == lines * 10
    assert dataset.layout.text_columns == ("text",)
    has_mark = encoding in ("utf-8-sig", "utf-16", "utf-32")
    assert any("byte order mark" in note for note in dataset.notes) == has_mark


def test_the_encoding_is_detected_after_many_lines_of_ascii(tmp_path: Path) -> None:
    rows = "text,label\n" + "plain,a\n" * 60_000 + "Grüße,b\n"

    dataset = read(tmp_path, "a.csv", rows.encode("cp1252"))

    assert dataset.texts[-1].as_py() == "Grüße"


def test_a_requested_encoding_that_does_not_fit_is_an_error_with_the_first_line(
    tmp_path: Path,
) -> None:
    content = ("text,label\nplain,a\n" + "Grüße,b\n" * 3).encode("cp1252")

    with pytest.raises(
        DataError,
        match=r"a\.csv: not UTF-8, although --encoding says so: 3 of 4 rows have bytes that are "
        r"invalid in UTF-8, the first in line 3\. Leave --encoding out to detect the encoding, or",
    ):
        read(tmp_path, "a.csv", content, encoding="utf-8", max_bad_rows=0.01)


def test_a_requested_encoding_is_used_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    content = "text,label\nŻ,a\n".encode("cp1250")

    assert read(tmp_path, "a.csv", content, encoding="cp1250").texts.to_pylist() == ["Ż"]
    with pytest.raises(DataError, match=r"--encoding cp125: .*Did you mean cp125"):
        check_encoding("cp125")
    with pytest.raises(DataError, match="not a known text encoding"):
        check_encoding("base64")


def test_a_remembered_encoding_is_preferred_unless_the_file_is_utf8(tmp_path: Path) -> None:
    remembered = Layout(encoding="iso8859-15")

    for encoding in ("iso8859-15", "utf-8"):
        dataset = read(
            tmp_path, "a.csv", "text,label\n5 €,a\n".encode(encoding), remembered=remembered
        )
        assert (dataset.texts[0].as_py(), dataset.layout.encoding) == ("5 €", encoding)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_the_separator_is_detected(tmp_path: Path, name: str, separator: str) -> None:
    rows = [["text", "label"], *[[f"one, two; three {n}", "ab"[n % 2]] for n in range(12)]]
    content = "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows)

    dataset = read(tmp_path, name, content + "\n")

    assert dataset.texts[0].as_py() == "one, two; three 0"
    assert dataset.layout.separator == separator


def test_single_quotes_and_no_quotes_are_detected(tmp_path: Path) -> None:
    single = "text,label\n" + "'one, two',a\n'three, four',b\n" * 5
    without = "text\tlabel\n" + '"unbalanced quote\ta\nplain\tb\n' * 5

    assert read(tmp_path, "a.csv", single).texts[0].as_py() == "one, two"
    assert read(tmp_path, "a.tsv", without).texts[0].as_py() == '"unbalanced quote'


def test_a_requested_separator_is_used(tmp_path: Path) -> None:
    content = "text~label\na, b~x\nc, d~y\n"

    assert read(tmp_path, "a.csv", content, separator="~").texts.to_pylist() == ["a, b", "c, d"]
    with pytest.raises(DataError, match="expected one ASCII character"):
        read(tmp_path, "a.csv", content, separator="::")


@pytest.mark.parametrize("first", ["sep={}\r\n", '"sep={}"\n', "SEP={} \n\n"])
@pytest.mark.parametrize("separator", [";", ",", "\t", "~"])
@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_a_first_line_that_names_the_separator_is_not_read_as_data(
    tmp_path: Path, name: str, separator: str, first: str
) -> None:
    rows = [["text", "label"], ["one, two; three", "a"], ["four | five", "b"]]
    content = first.format(separator) + "\n".join(
        separator.join(f'"{cell}"' for cell in row) for row in rows
    )

    dataset = read(tmp_path, name, content)

    assert dataset.texts.to_pylist() == ["one, two; three", "four | five"]
    assert dataset.require_labels().to_pylist() == ["a", "b"]
    shown = "tab" if separator == "\t" else f"'{separator}'"
    note = f"separator {shown} (from the line sep= at the top of the file)"
    assert (note in dataset.notes) == (separator != ",")


def test_lines_are_counted_from_the_one_that_names_the_separator(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv:4: no label"):
        read(tmp_path, "a.csv", "sep=;\ntext;label\none;a\ntwo; \n")
    with pytest.raises(DataError, match=r"a.csv: the file is empty"):
        read(tmp_path, "b_a.csv", "sep=;\n")


def test_a_requested_or_remembered_separator_does_not_keep_the_line_that_names_one(
    tmp_path: Path,
) -> None:
    content = "sep=;\ntext|label\none;two|a\n"
    layout = read(tmp_path, "a.csv", content, separator="|").layout

    again = read(tmp_path, "b.csv", content.replace("sep=;", "sep=|"), remembered=layout)

    assert layout.separator == "|"
    assert again.texts.to_pylist() == ["one;two"]


def test_lines_that_end_with_cr_are_read(tmp_path: Path) -> None:
    dataset = read(tmp_path, "a.csv", "text,label\ra,1\rb,2\r")

    assert dataset.texts.to_pylist() == ["a", "b"]


@pytest.mark.parametrize("labels", [("1", "0"), ("good", "bad")])
def test_a_missing_header_is_noticed(tmp_path: Path, labels: tuple[str, str]) -> None:
    rows = [f"the film number {n} was seen,{labels[n % 2]}" for n in range(12)]

    dataset = read(tmp_path, "a.csv", "\n".join(rows))

    assert len(dataset) == 12
    assert dataset.layout.text_columns == ("column 1",)
    assert not dataset.layout.header
    assert "the first row is data" in dataset.notes[0]


def test_blank_lines_before_the_first_row_are_skipped(tmp_path: Path) -> None:
    rows = [f"the film number {n} was seen,{n % 2}" for n in range(12)]

    dataset = read(tmp_path, "a.csv", "\n".join(["", "  ", *rows]))

    assert len(dataset) == 12
    assert not dataset.layout.header


def test_several_text_columns_are_joined_and_names_may_have_commas(tmp_path: Path) -> None:
    content = '"Subject, short",Body,label\nHello,the text,a\n,only body,b\nOnly subject, ,a\n'
    options = ReadOptions(text_columns=("Subject, short", "Body"))

    dataset = load_dataset(write(tmp_path, "a.csv", content), options)

    assert dataset.texts.to_pylist() == ["Hello\nthe text", "only body", "Only subject"]


def test_joined_columns_that_are_all_empty_keep_texts_and_labels_together(tmp_path: Path) -> None:
    content = "Subject,Body,label\nHello,you,a\n, ,b\nBye,now,c\n"
    options = ReadOptions(text_columns=("Subject", "Body"), max_bad_rows=0.5)

    dataset = load_dataset(write(tmp_path, "a.csv", content), options)

    assert dataset.texts.to_pylist() == ["Hello\nyou", "Bye\nnow"]
    assert dataset.require_labels().to_pylist() == ["a", "c"]
    assert "no text (line 3)" in dataset.notes[-1]


def test_values_of_nested_json_have_dotted_paths(tmp_path: Path) -> None:
    rows = '{"t": {"body": "a b", "meta": {"n": 1}}, "x.y": "z", "q": {"label": "x"}}\n'
    source = write(tmp_path, "a.jsonl", rows * 3)

    dataset = load_dataset(source, ReadOptions(("t.body",), ("q.label",)))

    assert dataset.texts.to_pylist() == ["a b"] * 3
    assert open_table(source).columns == ("t.body", "t.meta.n", "x.y", "q.label")


def test_structs_in_parquet_have_dotted_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    tickets = [{"body": "a b", "meta": {"n": 1}}] * 2
    pq.write_table(pa.table({"t": tickets, "label": ["x", "y"]}), path)

    dataset = load_dataset(str(path), ReadOptions(("t.body",)))

    assert dataset.texts.to_pylist() == ["a b"] * 2
    assert open_table(str(path)).columns == ("t.body", "t.meta.n", "label")


def test_a_json_array_is_read_like_json_lines(tmp_path: Path) -> None:
    array = '[\n {"text": "a", "label": "x"},\n {"text": "b", "label": "y"}\n]\n'

    assert read(tmp_path, "a.json", array).texts.to_pylist() == ["a", "b"]


def workbook(path: Path) -> str:
    book = pytest.importorskip("openpyxl", reason="needs the extra excel").Workbook()
    book.create_sheet("empty", 0)
    sheet = book.active if book.active.title != "empty" else book.worksheets[1]
    sheet.append([])
    sheet.append(["When", "Text", "Stars", "Seen"])
    sheet.append([datetime(2026, 5, 1, 12, 0), 'Grüße, "quoted"\nsecond line', 5, True])
    sheet.append([datetime(2026, 5, 2), "b", 1.0, False])
    book.save(path)
    return str(path)


def test_an_excel_sheet_is_read(tmp_path: Path) -> None:
    source = workbook(tmp_path / "a.xlsx")

    dataset = load_dataset(source)
    rows = next(open_table(source).all_batches()).to_pylist()

    assert dataset.texts.to_pylist() == ['Grüße, "quoted"\nsecond line', "b"]
    assert dataset.require_labels().to_pylist() == ["5", "1"]
    assert rows[0]["When"] == "2026-05-01 12:00:00"
    assert rows[1]["Seen"] == "false"
    assert any("the header is in row 2" in note for note in dataset.notes)


def test_a_sheet_of_notes_before_the_table_is_not_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Exported on Monday"])
    table = book.create_sheet("Data")
    for row in (["Comment", "Kind"], ["a fine film", "good"], [None, None], ["a bore", "bad"]):
        table.append(row)
    book.save(tmp_path / "a.xlsx")

    dataset = load_dataset(
        str(tmp_path / "a.xlsx"), ReadOptions(text_columns=("Comment",), label_columns=("Kind",))
    )

    assert dataset.texts.to_pylist() == ["a fine film", "a bore"]
    assert "read from the sheet 'Data', the first of 2 that is a table" in dataset.notes[0]


def test_titles_above_the_header_of_an_excel_sheet_are_not_read(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    for row in (["Export, confidential"], ["created", "2026-05-01"], []):
        sheet.append(row)
    sheet.merge_cells("A1:E1")
    sheet.append(["Number", "Text", "Label", "Stars", "Seen"])
    for number in range(4):
        sheet.append([number, f"text {number}", "ab"[number % 2], 5, True])
    book.save(tmp_path / "a.xlsx")

    dataset = load_dataset(str(tmp_path / "a.xlsx"))

    assert dataset.texts.to_pylist() == [f"text {number}" for number in range(4)]
    assert "the header is in row 4; rows above it are not read" in " ".join(dataset.notes)


TICKETS = [f"ticket {n}{', opened' * (n % 3)}" for n in range(30)]
TITLES = {
    "filled up with separators": ("Export from 2026-05-01;;;;\n", 2),
    "one cell and a blank line": ("Report, 1st quarter\n\n", 3),
    "two titles": ("Report\ncreated;2026-05-01\n;;;;\n", 4),
    "quoted over two lines": ('"Report; all\ntickets";;;;\n', 3),
    "below the separator": ("sep=;\nReport\n", 3),
}


@pytest.mark.parametrize(("titles", "line"), TITLES.values(), ids=TITLES)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_titles_above_the_header_of_a_csv_file_are_not_read(
    tmp_path: Path, name: str, titles: str, line: int
) -> None:
    rows = "".join(f"{n};{text};{'ab'[n % 2]};x;1\n" for n, text in enumerate(TICKETS))
    content = f"{titles}Number;Kommentar;Art;Channel;Stars\n{rows}31;last; ;x;1\n"
    options = {"text_columns": ("Kommentar",), "label_columns": ("Art",)}

    dataset = read(tmp_path, name, content, **options, max_bad_rows=0.1)

    assert dataset.texts.to_pylist() == TICKETS
    assert f"the header is in line {line}; lines above it are not read" in dataset.notes
    assert dataset.notes[-1].endswith(f"no label (line {line + 31})")


def test_titles_are_recognized_by_the_columns_that_the_model_was_trained_on(
    tmp_path: Path,
) -> None:
    remembered = Layout(("Kommentar",), ("Art",), separator=";")
    content = "Report\nKommentar;Art\none;a\ntwo;b\n"

    assert read(tmp_path, "a.csv", content, remembered=remembered).texts.to_pylist() == [
        "one",
        "two",
    ]


def test_a_title_above_a_row_that_may_be_data_is_an_error(tmp_path: Path) -> None:
    rows = "".join(f"Kommentar number {n};{'ab'[n % 2]}\n" for n in range(12))

    for titles, line in (("Report;\n", 2), ("Report\n\n", 3)):
        with pytest.raises(
            DataError,
            match=rf"a.csv: 'Report' looks like a title.*header seems to be in line {line}. Delete",
        ):
            read(tmp_path, "a.csv", f"{titles}Kommentar;Art\n{rows}")


NOT_TITLES = {
    "a row without a label": ("the first film;\n", ("the first film", "")),
    "a row with another separator": ("the first film\n", ("the first film",)),
    "a column without a name": ("text;\n", ("text", "")),
}


@pytest.mark.parametrize(("first", "columns"), NOT_TITLES.values(), ids=NOT_TITLES)
def test_a_first_row_with_few_values_is_not_a_title_if_the_next_one_is_data(
    tmp_path: Path, first: str, columns: tuple[str, ...]
) -> None:
    rows = "".join(f"the film number {n};{'ab'[n % 2]}\n" for n in range(12))

    assert open_table(write(tmp_path, "a.csv", first + rows)).columns == columns


def test_few_texts_in_one_column_are_not_taken_for_a_title_and_a_table(tmp_path: Path) -> None:
    source = write(tmp_path, "a.csv", "Kommentar\ngood; cheap\nbad; expensive\n")

    assert open_table(source).columns == ("Kommentar",)


def test_an_excel_file_is_read_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = Path(workbook(tmp_path / "a.xlsx")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert len(load_dataset("-", ReadOptions(format="xlsx"))) == 2


def test_a_remembered_layout_is_used_for_a_file_with_the_same_columns(tmp_path: Path) -> None:
    first = read(
        tmp_path, "a.csv", "Inhalt|Art\na;b|x\nc|y\n", separator="|", text_columns=("Inhalt",),
        label_columns=("Art",),
    )  # fmt: skip

    second = read(tmp_path, "b.csv", "Art|Inhalt|Nr\nx|q;w;e|1\n", remembered=first.layout)

    assert second.texts.to_pylist() == ["q;w;e"]
    assert Layout.from_json(first.layout.as_json()) == first.layout


RUSSIAN = "text,label\nОчень хороший фильм, спасибо всем,да\nПосылка не пришла вовремя,нет\n"
GERMAN = "text,label\nGröße passt nicht und Überraschung,ja\nLieferung verspätet zurück,nein\n"


@pytest.mark.parametrize(
    ("trained_in", "text", "encoding"),
    [
        ("cp1252", RUSSIAN.replace("фильм,", "фильм"), "cp1251"),
        ("cp1251", GERMAN, "cp1252"),
        ("utf-16-le", GERMAN, "cp1252"),
        ("gb18030", RUSSIAN.replace("фильм,", "фильм"), "koi8_r"),
    ],
)
def test_a_remembered_encoding_that_does_not_fit_is_not_forced(
    trained_in: str, text: str, encoding: str, tmp_path: Path
) -> None:
    remembered = Layout(encoding=trained_in)

    dataset = read(tmp_path, "a.csv", text.encode(encoding), remembered=remembered)

    assert dataset.texts[0].as_py() == text.splitlines()[1].rpartition(",")[0]
    assert any(f"not fit {trained_in}" in note for note in dataset.notes)


@pytest.mark.parametrize("encoding", LINES)
def test_a_remembered_encoding_that_fits_is_kept(encoding: str, tmp_path: Path) -> None:
    content = "".join(f'"{line}",x\n' for line in LINES[encoding])

    dataset = read(
        tmp_path,
        "a.csv",
        f"text,label\n{content}".encode(encoding),
        remembered=Layout(encoding=encoding),
    )

    assert dataset.layout.encoding == encoding
    assert dataset.texts.to_pylist() == LINES[encoding]


def test_another_separator_or_quotes_than_in_training_are_detected_and_named(
    tmp_path: Path,
) -> None:
    remembered = Layout(separator=";", quote="", encoding="utf-8")
    quoted = 'text;label\n"one; two";a\n"three; ""four""";b\n"five; six";a\n'

    commas = read(tmp_path, "a.csv", "text,label\none; two,a\nthree,b\n", remembered=remembered)
    quotes = read(tmp_path, "b.csv", quoted, remembered=remembered)

    assert commas.texts.to_pylist() == ["one; two", "three"]
    assert "unlike the training file (separator ';', without quotes)" in commas.notes[0]
    assert quotes.texts.to_pylist() == ["one; two", 'three; "four"', "five; six"]
    assert "unlike the training file" in quotes.notes[0]


HEADERLESS = Layout(
    text_columns=("column 2",),
    label_columns=("column 1",),
    format="csv",
    separator=",",
    header=False,
)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("pos,nice film today\nneg,bad film today\n", ["nice film today", "bad film today"]),
        ("label,text\npos,nice film\n", ["nice film"]),
        ("nice film today\nbad film today\n", ["nice film today", "bad film today"]),
    ],
)
def test_a_file_without_a_header_is_read_like_that_of_the_training(
    content: str, texts: list[str], tmp_path: Path
) -> None:
    options = ReadOptions(remembered=HEADERLESS)

    columns, batches = open_table(write(tmp_path, "a.csv", content), options).text_batches(options)

    assert [text for batch in batches for text in batch.column(columns[0]).to_pylist()] == texts


def test_commas_in_the_first_text_do_not_hide_the_separator_of_the_training(
    tmp_path: Path,
) -> None:
    content = "the film, its cast, and the rest;pos\n"
    layout = replace(HEADERLESS, text_columns=("column 1",), separator=";")
    options = ReadOptions(remembered=layout)

    columns, batches = open_table(write(tmp_path, "a.csv", content), options).text_batches(options)

    (batch,) = batches
    assert batch.column(columns[0]).to_pylist() == ["the film, its cast, and the rest"]


def test_a_rare_label_in_the_first_row_does_not_make_it_a_header(tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[row % 2]},the film number {row} was seen\n" for row in range(12))

    table = open_table(
        write(tmp_path, "a.csv", f"rare,the film of today\n{rows}"),
        ReadOptions(remembered=HEADERLESS),
    )

    assert table.columns == ("column 1", "column 2")


def test_a_single_row_with_a_long_text_is_not_a_header(tmp_path: Path) -> None:
    text = "a film " * 20
    options = ReadOptions()

    table = open_table(write(tmp_path, "a.csv", f"{text},pos\n"), options)

    assert table.columns == ("column 1", "column 2")


@pytest.mark.parametrize(
    ("suffix", "first", "separator"),
    [
        ("csv", "Queue,Ticket body", ","),
        ("csv", "p;film 7, seen", ";"),
        ("tsv", "p\tfilm 7, seen", "\t"),
    ],
)
def test_another_header_or_separator_than_in_training_without_header_is_detected(
    suffix: str, first: str, separator: str, tmp_path: Path
) -> None:
    rows = "".join(f"{'pn'[row % 2]}{separator}film {row}\n" for row in range(12))

    table = open_table(
        write(tmp_path, f"a.{suffix}", f"{first}\n{rows}"), ReadOptions(remembered=HEADERLESS)
    )

    has_header = first.startswith("Queue")
    assert table.columns == (("Queue", "Ticket body") if has_header else ("column 1", "column 2"))
    assert table.log.separator == separator


def test_a_line_separator_in_a_text_does_not_hide_the_table(tmp_path: Path) -> None:
    rows = "".join(f"one\u2028two {row}\t{'ab'[row % 2]}\n" for row in range(12))

    dataset = read(tmp_path, "a.txt", f"text\tlabel\n{rows}")

    assert dataset.texts[0].as_py() == "one\u2028two 0"
    assert dataset.layout.separator == "\t"


@pytest.mark.parametrize("options", [{}, {"label_columns": ("Stars",)}])
def test_an_error_about_columns_names_the_sheet_that_was_read(
    tmp_path: Path, options: dict[str, tuple[str, ...]]
) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    first, second = book.active, book.create_sheet("Reviews")
    first.title = "Orders"
    for number in range(30):
        first.append([f"{number} nice words", f"{number} more words here"])
        second.append([f"text {number}", number % 2])
    book.save(tmp_path / "a.xlsx")

    with pytest.raises(DataError, match=r"\. It was read from the sheet 'Orders', the first of 2 "):
        load_dataset(str(tmp_path / "a.xlsx"), ReadOptions(**options))  # type: ignore[arg-type]
