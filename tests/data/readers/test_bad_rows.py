"""Rows that cannot be used are skipped, counted and listed with their line, up to a share."""

from pathlib import Path

import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import DataError


def read(folder: Path, name: str, content: bytes | str, share: float | None = 1.0) -> Dataset:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_dataset(str(path), ReadOptions(max_bad_rows=share))


def test_rows_without_text_or_label_are_skipped_and_listed(tmp_path: Path) -> None:
    rows = 'text,label\n"a\nb",x\n ,x\n\nc,\nd,y\n'

    dataset = read(tmp_path, "a.csv", rows)

    assert dataset.texts.to_pylist() == ["a\nb", "d"]
    assert dataset.notes[1:] == (
        "2 rows that cannot be used were skipped: no label (line 6); no text (line 4)",
    )


def test_rows_with_another_number_of_fields_are_skipped(tmp_path: Path) -> None:
    rows = 'text,label\na,x\n"b\nc",y\nd,e,f\ng\nh,x\n'

    dataset = read(tmp_path, "a.csv", rows)

    assert dataset.texts.to_pylist() == ["a", "b\nc", "h"]
    assert "skipped: expected 2 fields" in dataset.notes[1]
    assert dataset.notes[1].endswith("(lines 5, 6)")


def test_a_quote_that_is_not_closed_loses_one_row(tmp_path: Path) -> None:
    good = "".join(f'"text, {n}",x\n' for n in range(20))

    in_the_middle = read(tmp_path, "a.csv", f'text,label\n{good}"open, y\n{good}')
    at_the_end = read(tmp_path, "b.csv", f'text,label\n{good}"open, y\nz,x\n')

    assert len(in_the_middle) == 40
    assert len(at_the_end) == 21
    for dataset in (in_the_middle, at_the_end):
        assert dataset.notes[1].endswith("a quote is opened in this row and not closed (line 22)")


def test_lines_with_broken_bytes_are_skipped(tmp_path: Path) -> None:
    rows = "text,label\n" + "é,x\n" * 5
    broken = rows.encode() + b'"b\n\xe9",y\nc,y\n'

    dataset = read(tmp_path, "a.csv", broken)
    lines = read(tmp_path, "a.jsonl", b'{"text": "\xc3\xa9", "label": "x"}\n{"text": "\xe9"}\n')

    assert dataset.texts.to_pylist() == ["é"] * 5 + ["c"]
    assert dataset.notes[1].endswith("skipped: bytes that are not UTF-8 (line 7)")
    assert lines.notes[1].endswith("skipped: bytes that are not UTF-8 (line 2)")


def test_broken_json_lines_are_skipped_except_the_first(tmp_path: Path) -> None:
    good = '{"text": "a", "label": "x"}\n'

    dataset = read(tmp_path, "a.jsonl", f'{good}{{"text": \n{good}[1]\n{good}')

    assert len(dataset) == 3
    assert dataset.notes[1].endswith("skipped: expected a JSON object (lines 2, 4)")
    with pytest.raises(DataError, match=r"a.jsonl:1: expected a JSON object"):
        read(tmp_path, "a.jsonl", f"{{\n{good}"[2:].replace("{", "", 1))


def test_too_many_bad_rows_are_an_error_with_the_option_that_skips_them(tmp_path: Path) -> None:
    rows = "text,label\n" + "a,x\n" * 97 + "b,\n" * 3

    assert len(read(tmp_path, "a.csv", rows, 0.03)) == 97
    with pytest.raises(
        DataError,
        match=r"3 of 100 rows cannot be used.*no label \(lines 99, 100, 101\)\. Texts were "
        r"read from column 'text', labels from 'label'; --text-.* others\. Correct.*-rows 3%",
    ):
        read(tmp_path, "a.csv", rows, 0.01)


def test_without_an_allowed_share_the_first_bad_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv:3: no label in column 'label'"):
        read(tmp_path, "a.csv", "text,label\na,x\nb,\n", None)


def test_a_file_of_empty_texts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"every text is empty. Choose another --text-column"):
        read(tmp_path, "a.csv", "text,label\n,x\n ,y\n")


def test_many_bad_rows_are_counted_and_some_are_listed(tmp_path: Path) -> None:
    rows = "text,label\n" + "a,x\n" * 1100 + "b,\n" * 1500

    _, note = read(tmp_path, "a.csv", rows).notes

    assert note.startswith("1,500 rows that cannot be used were skipped: no label (lines 1102, ")
    assert note.endswith("1112, 1113 and 1488 more)")


@pytest.mark.parametrize("options", [{}, {"text_columns": ("text",), "label_columns": ("label",)}])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_requested_encoding_that_does_not_fit_is_named_with_the_first_line(
    tmp_path: Path, name: str, options: dict[str, tuple[str, ...]]
) -> None:
    rows = [f"Größe {n}" for n in range(1500)]
    as_json = [f'{{"text": "{text}", "label": "x"}}' for text in rows]
    as_csv = ["text,label", *(f"{text},x" for text in rows)]
    path = tmp_path / name
    path.write_text("\n".join(as_csv if name == "a.csv" else as_json), encoding="cp1252")

    for encoding in ("utf-8", "ascii"):
        reading = ReadOptions(encoding=encoding, max_bad_rows=0.01, **options)  # type: ignore[arg-type]
        first = 2 if name == "a.csv" else 1
        message = rf"{name}: not {encoding.upper()}, .*1,500 of 1,500 rows .*line {first}\. Leave"
        with pytest.raises(DataError, match=message):
            load_dataset(str(path), reading)
        with pytest.raises(DataError, match=message):
            list(open_table(str(path), reading).text_batches(reading)[1])


def test_too_many_bad_rows_are_reported_rather_than_that_no_column_is_left(tmp_path: Path) -> None:
    rows = "words,kind,more\n" + "a,b\n" * 100

    with pytest.raises(DataError, match=r"100 of 100 rows cannot be used.*lines 2, 3"):
        read(tmp_path, "a.csv", rows, 0.01)


def test_if_no_row_can_be_used_none_is_offered_to_be_skipped(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 of 1 rows cannot be used") as error:
        read(tmp_path, "a.csv", "text,label\na,\n", 0.01)

    assert "--max-bad-rows" not in str(error.value)
