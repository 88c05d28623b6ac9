"""Files of suspects: the rows that training leaves out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset
from lamatext.data.suspects_file import describe_texts, leave_out_suspects, text_hash
from lamatext.errors import DataError

DATA = 'text,label\n"a fine\nfilm",pos\n,neg\na dull film,neg\na superb film,pos\n'
OPTIONS = ReadOptions(max_bad_rows=0.5, keep_lines=True)


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    (tmp_path / "data.csv").write_text(DATA)
    return load_dataset(str(tmp_path / "data.csv"), OPTIONS)


def write(folder: Path, *rows: tuple[object, str]) -> Path:
    lines = [f"{row},{text_hash(text)}" for row, text in rows]
    (folder / "suspects.csv").write_text("\n".join(["row,text_hash", *lines, ""]))
    return folder / "suspects.csv"


def test_a_dataset_knows_the_line_of_each_row(data: Dataset) -> None:
    assert data.row_numbers.tolist() == [2, 5, 6]
    assert load_dataset(data.source, replace(OPTIONS, keep_lines=False)).lines is None


def test_rows_of_other_formats_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "a film", "label": "a"}\n\n{"text": "a bore", "label": "b"}\n')

    assert load_dataset(str(path), OPTIONS).row_numbers.tolist() == [1, 3]


def test_listed_rows_are_left_out(data: Dataset, tmp_path: Path) -> None:
    rest = leave_out_suspects(data, write(tmp_path, (2, "a fine\nfilm"), (6, "a superb film")))

    assert rest.texts.to_pylist() == ["a dull film"]
    assert rest.row_numbers.tolist() == [5]
    assert "2 rows are left out, as" in rest.notes[-2]
    assert rest.notes[-1].endswith("suspects.csv does not list are not checked for changes.")
    assert rest.left_out == (0, 2)


def test_an_empty_list_leaves_out_nothing(data: Dataset, tmp_path: Path) -> None:
    rest = leave_out_suspects(data, write(tmp_path))

    assert len(rest) == 3
    assert rest.notes == data.notes


def test_a_row_whose_label_was_corrected_since_stays(data: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "suspects.csv"
    rows = [(2, "POS ", "a fine\nfilm"), (5, "pos", "a dull film"), (6, "", "a superb film")]
    lines = [f"{row},{label},{text_hash(text)}" for row, label, text in rows]
    path.write_text("\n".join(["row,label,text_hash", *lines, ""]))

    rest = leave_out_suspects(data, path)

    assert rest.texts.to_pylist() == ["a dull film"]  # it is neg in the data
    assert rest.notes[-3].startswith("2 rows are left out")
    assert rest.notes[-2].startswith(f"1 row that {path} lists stays in the data: the label is no")


@pytest.mark.parametrize(
    ("row", "text", "message"),
    [
        (5, "a fine film", r"lists row 5, but .*data.csv has another text there. .* has changed"),
        (3, "a fine film", r"lists row 3, but .*data.csv has no usable row there"),
        (
            "five",
            "a",
            r"expected a row number and a text hash of 16 hex.* in every row, got 'five'",
        ),
    ],
)
def test_a_changed_file_is_an_error(
    row: object, text: str, message: str, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        leave_out_suspects(data, write(tmp_path, (row, text)))


def test_the_texts_of_all_rows_are_checked_unless_rows_without_a_time_are_skipped(
    data: Dataset, tmp_path: Path
) -> None:
    path = tmp_path / "suspects.csv"
    line = f'5,{text_hash("a dull film")},"{describe_texts(data)}"'
    path.write_text(f"row,text_hash,data\n{line}\n")
    without_last = data.take(np.array([0, 1]))

    assert "not checked" not in leave_out_suspects(data, path).notes[-1]
    with pytest.raises(DataError, match=r"is a list for 3 texts, hash \w{16}, but .* has 2 texts"):
        leave_out_suspects(without_last, path)
    dated = replace(without_last, times=np.zeros(2))
    assert "not checked" in leave_out_suspects(dated, path).notes[-1]


def test_another_file_is_an_error(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the columns 'row' and 'text_hash'"):
        leave_out_suspects(data, tmp_path / "data.csv")


def test_a_list_of_every_text_is_an_error(data: Dataset, tmp_path: Path) -> None:
    listed = zip([2, 5, 6], data.texts.to_pylist(), strict=True)

    with pytest.raises(DataError, match="lists every text of"):
        leave_out_suspects(data, write(tmp_path, *listed))


@pytest.mark.parametrize(
    "content",
    [
        "row,text_hash\n" + "9" * 5000 + ",aa\n",
        "row,row,text_hash\n2,2,aa\n",
        "row,text_hash\n2,   \n",
        "row,text_hash\n2,none\n",
        "row,text_hash\n2,\u0660\u0661\u0662\u0663\u0660\u0661\u0662\u0663\u0660\u0661\u0662\u0663\u0660\u0661\u0662\u0663\n",
    ],
    ids=["endless number", "column twice", "blank hash", "no hash", "other digits"],
)
def test_a_hostile_list_is_an_error(content: str, data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "suspects.csv").write_text(content)

    with pytest.raises(DataError, match=r"suspects\.csv: expected .*row"):
        leave_out_suspects(data, tmp_path / "suspects.csv")
