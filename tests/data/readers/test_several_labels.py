"""Reading data with several labels per text, in each of the shapes that are recognized."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lamatext.data.dataset import Dataset
from lamatext.data.read_options import ReadOptions
from lamatext.data.sources import load_dataset, open_table
from lamatext.errors import DataError

LABELS = [["news", "sport"], ["sport"], []]


def labels_of(dataset: Dataset) -> list[object]:
    labels: list[object] = dataset.require_labels().to_pylist()
    return labels


def write_text(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_lists_in_jsonl_are_several_labels(tmp_path: Path) -> None:
    rows = '{"text": "a", "label": ["news", "sport"]}\n{"text": "b", "label": ["sport"]}\n'
    path = write_text(tmp_path, "a.jsonl", rows + '{"text": "c", "label": []}\n')

    dataset = load_dataset(path)

    assert dataset.is_multi_label
    assert labels_of(dataset) == LABELS


def test_numbers_in_lists_are_labels_as_they_are_written(tmp_path: Path) -> None:
    path = write_text(tmp_path, "a.jsonl", '{"text": "a", "label": [1, 2.0, 1]}\n')

    assert labels_of(load_dataset(path)) == [["1", "2.0"]]


@pytest.mark.parametrize("options", [ReadOptions(), ReadOptions(label_columns=("label",))])
def test_lists_in_csv_are_several_labels(options: ReadOptions, tmp_path: Path) -> None:
    content = """text,label\na,"[""news"", ""sport""]"\nb,"[""sport""]"\nc,[]\n"""
    path = write_text(tmp_path, "a.csv", content)

    assert labels_of(load_dataset(path, options)) == LABELS


def rows_of_lists(count: int) -> list[str]:
    return [f'a text of several words, {row}\t"[""news"", ""sport""]"' for row in range(count)]


@pytest.mark.parametrize("header", ["text\tlabel", "words\tthemes"])
def test_a_row_without_list_is_an_error_in_whatever_batch_it_is(
    header: str, tmp_path: Path
) -> None:
    rows = rows_of_lists(12_000)
    rows[11_000] = "a text of several words\tnews"
    path = write_text(tmp_path, "a.tsv", "\n".join([header, *rows]))

    with pytest.raises(DataError, match=r"row 11001: expected a JSON list .* got 'news'"):
        load_dataset(path)


def test_the_row_without_list_in_a_stream_counts_the_rows_of_earlier_batches(
    tmp_path: Path,
) -> None:
    rows = rows_of_lists(12_000)
    rows[11_000] = "a text of several words\tnews"
    path = write_text(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows]))
    batches = open_table(path).to_datasets()

    assert len(next(batches)) < 11_000
    with pytest.raises(DataError, match=r"row 11001: expected a JSON list .* got 'news'"):
        list(batches)


@pytest.mark.parametrize("row", [0, 50, 11_000])
def test_a_row_without_labels_among_lists_is_skipped(row: int, tmp_path: Path) -> None:
    rows = rows_of_lists(12_000)
    rows[row] = "a text of several words\t "
    path = write_text(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows]))

    dataset = load_dataset(path, ReadOptions(max_bad_rows=0.01))

    assert labels_of(dataset) == [["news", "sport"]] * 11_999
    assert dataset.notes[-1].endswith(f"no label (line {row + 2})")


def test_a_few_labels_in_brackets_are_no_lists(tmp_path: Path) -> None:
    rows = ["a,good", "b,[1]", "c,bad", "d,[open"]
    path = write_text(tmp_path, "a.csv", "\n".join(["text,label", *rows]))

    assert labels_of(load_dataset(path)) == ["good", "[1]", "bad", "[open"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.int64()])
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_lists_in_parquet_are_several_labels(
    tmp_path: Path, kind: pa.DataType, list_of: type[pa.ListType]
) -> None:
    lists = [[1, 2], [2], []] if kind == pa.int64() else LABELS
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": ["a", "b", "c"], "label": pa.array(lists, list_of(kind))}), path
    )

    assert labels_of(load_dataset(str(path))) == [[str(x) for x in row] for row in lists]


def test_a_null_list_is_an_unlabelled_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "label": [["x"], None]}), path)

    with pytest.raises(DataError, match="row 2: no label in column 'label'"):
        load_dataset(str(path))


def test_one_line_with_two_fasttext_labels_makes_all_lines_lists(tmp_path: Path) -> None:
    lines = ["__label__a one", "__label__a __label__b two"]
    path = write_text(tmp_path, "a.txt", "\n".join(lines))

    dataset = load_dataset(path)

    assert labels_of(dataset) == [["a"], ["a", "b"]]
    assert dataset.texts.to_pylist() == ["one", "two"]


def test_a_separator_splits_a_column_and_an_empty_cell_has_no_labels(tmp_path: Path) -> None:
    path = write_text(tmp_path, "a.csv", 'text,label\na,"news, sport,news"\nb,sport\nc,\n')

    assert labels_of(load_dataset(path, ReadOptions(label_separator=","))) == LABELS


def test_null_under_a_separator_is_an_unlabelled_row(tmp_path: Path) -> None:
    rows = '{"text": "a", "label": "x;y"}\n{"text": "b", "label": null}\n'
    path = write_text(tmp_path, "a.jsonl", rows)

    with pytest.raises(DataError, match=r"a.jsonl:2: no label"):
        load_dataset(path, ReadOptions(label_separator=";"))


def test_a_separator_for_lists_is_an_error(tmp_path: Path) -> None:
    path = write_text(tmp_path, "a.jsonl", '{"text": "a", "label": ["x"]}\n')

    with pytest.raises(DataError, match=r"lists of labels already\. Leave --label-separator out"):
        load_dataset(path, ReadOptions(label_separator=","))


def test_several_label_columns_hold_0_and_1(tmp_path: Path) -> None:
    rows = "text,news,sport\na,1,True\nb,0.0,1\nc,false,0\n"
    path = write_text(tmp_path, "a.csv", rows)

    dataset = load_dataset(path, ReadOptions(label_columns=("news", "sport")))

    assert labels_of(dataset) == LABELS
    assert dataset.layout.label_columns == ("news", "sport")


@pytest.mark.parametrize("cell", ["2", "", "yes"])
def test_another_value_in_a_0_1_column_is_an_error(tmp_path: Path, cell: str) -> None:
    path = write_text(tmp_path, "a.csv", f"text,news,sport\na,1,0\nb,0,{cell}\n")

    with pytest.raises(DataError, match=f"column 'sport', row 2: expected 0 or 1, got '{cell}'"):
        load_dataset(path, ReadOptions(label_columns=("news", "sport")))


def test_a_list_and_a_single_label_cannot_be_concatenated(tmp_path: Path) -> None:
    one = load_dataset(write_text(tmp_path, "a.csv", "text,label\na,x\n"))
    several = load_dataset(
        write_text(tmp_path, "b.csv", "text,label\na,x\n"), ReadOptions(label_separator=",")
    )

    with pytest.raises(DataError, match="one has several labels per text, the other one"):
        one.concatenate(several)


def test_the_row_of_a_bad_label_counts_rows_without_labels(tmp_path: Path) -> None:
    rows = '{"text": "a", "labels": null}\n{"text": "b", "labels": ["x"]}\n'
    path = tmp_path / "a.jsonl"
    path.write_text(rows + '{"text": "c", "labels": ["x", " "]}\n')

    with pytest.raises(DataError, match="row 3: one of its labels is null or blank"):
        load_dataset(str(path), ReadOptions(max_bad_rows=1.0))
