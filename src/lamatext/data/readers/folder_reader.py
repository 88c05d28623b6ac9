"""Folder reader: one file per split, one folder per label, or shards of one dataset.

Shards are Parquet or JSONL files with the same columns, which are read as one table. They are in a
folder or match a glob pattern.
"""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lamatext.data.read_options import Layout, ReadOptions
from lamatext.data.readers.format_detection import file_table, is_table_file
from lamatext.data.readers.input_files import decompressed_suffix, read_text
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table
from lamatext.data.readers.text_encoding import check_encoding
from lamatext.data.tokenizer import encodable
from lamatext.errors import DataError, plural

_SPLITS = ("train", "test", "valid", "validation", "dev", "val")
_NOT_LABELS = frozenset({"unsup", *_SPLITS})  # the folder unsup of aclImdb has no labels
_BATCH_FILES = 1000
_BATCH_CHARACTERS = 1 << 24
_MAX_LISTED = 5  # files in a message
_SHARD_SUFFIXES = (".parquet", ".pq", ".jsonl", ".ndjson")


def folder_table(root: Path, split: str, options: ReadOptions) -> Table:
    """Open the training or test data in a folder as a table.

    ``split`` names the data: ``train`` or ``test``. A folder without splits contains training
    data only. A text file of more than ``options.max_record`` bytes is an error.
    """
    file = _split_file(root, split)
    if file is not None:
        return file_table(str(file), options)
    labels = _label_folders(root / split)
    if not labels and split == "train":
        labels = _label_folders(root)
    if labels:
        return _label_folders_table(str(root), labels, options)
    shards = shards_in_folder(root, split)
    if shards:
        if split == "train":
            check_one_kind(root, shards)
        table = shards_table(str(root), shards, options)
        table.log.notes.insert(0, _describe_shards(root, shards))
        return table
    raise DataError(_missing_split_message(root, split))


def folder_has_split(root: Path, split: str) -> bool:
    """Return whether a data folder contains the given split, such as ``train`` or ``test``.

    The split can be one file, several files (shards), or a folder with one subfolder per label.
    """
    if _split_file(root, split) is not None or _label_folders(root / split):
        return True
    return not _label_folders(root) and bool(shards_in_folder(root, split))


def data_files(root: Path) -> list[Path]:
    """Return the table files in a data folder and the text files in its label folders."""
    tables = [path for path in root.iterdir() if is_table_file(path)]
    labels = [_label_folders(folder) for folder in (root, *(root / split for split in _SPLITS))]
    return tables + [file for folders in labels for one in folders for file in _text_files(one)]


def _split_file(root: Path, split: str) -> Path | None:
    return next((path for path in sorted(root.glob(f"{split}.*")) if is_table_file(path)), None)


def _label_folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    folders = (path for path in sorted(root.iterdir()) if path.is_dir())
    return [path for path in folders if path.name not in _NOT_LABELS and _text_files(path)]


def _text_files(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def _missing_split_message(root: Path, split: str) -> str:
    if split != "train" and (folder_has_split(root, "train") or _label_folders(root)):
        return f"{root}: the folder has no {split} split. Add {root / split} or {split}.csv."
    if (root / "config.json").is_file() and any(root.glob("*.safetensors")):
        return f"{root}: this is a saved model, not data. Name a file or folder with texts."
    files = sorted(path.name for path in root.iterdir() if is_table_file(path))
    if files:
        return f"{root}: a folder without {split}.csv. Name one of its files: {root / files[0]}."
    return f"{root}: nothing to read. Expected one folder of text files per label, or {split}.csv."


def _label_folders_table(name: str, folders: Sequence[Path], options: ReadOptions) -> Table:
    log = ReadLog(name, options.max_bad_rows)
    if options.encoding is not None:
        options = replace(options, encoding=check_encoding(options.encoding))

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or ("text", "label"))
        for folder in folders:
            for texts in _text_batches(folder, options):
                columns = {"text": texts, "label": [encodable(folder.name)] * len(texts)}
                yield pa.RecordBatch.from_pydict({column: columns[column] for column in names})

    return Table(name, ("text", "label"), batches, log)


def _text_batches(folder: Path, options: ReadOptions) -> Iterator[list[str]]:
    """Yield the texts of a label folder in batches, to limit memory use."""
    texts: list[str] = []
    characters = 0
    for path in _text_files(folder):
        texts.append(read_text(str(path), options.max_record, options.encoding))
        characters += len(texts[-1])
        if len(texts) == _BATCH_FILES or characters > _BATCH_CHARACTERS:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


def is_glob(source: str) -> bool:
    """Return whether a data source is a glob pattern for shards, such as ``data/*.parquet``."""
    return glob.has_magic(source) and not Path(source).exists()


def glob_files(source: str) -> list[Path]:
    """Return the shard files that match a glob pattern, sorted by name."""
    paths = [Path(name) for name in sorted(glob.glob(source, recursive=True))]  # noqa: PTH207
    files = [path for path in paths if path.is_file()]
    if not files:
        raise DataError(f"{source}: no file matches this pattern. Check the path.")
    return files


def shards_in_folder(folder: Path, split: str) -> list[Path]:
    """List the shard files of the training or test data in a folder.

    They are sorted by name; subfolders are not searched. If files are named after splits
    (``train-0.parquet``), those of the split are returned; otherwise all are training data.
    """
    files = [path for path in sorted(folder.iterdir()) if _is_shard(path)]
    by_split = [path for path in files if path.name.startswith(f"{split}-")]
    if by_split or split != "train":
        return by_split
    held_out = tuple(f"{name}-" for name in _SPLITS if name != split)
    return [path for path in files if not path.name.startswith(held_out)]


def check_one_kind(root: Path, shards: Sequence[Path]) -> None:
    """Raise DataError if the folder also holds tables of other kinds, which would not be read."""
    others = _other_tables(root, shards)
    if others and not all(path.name.startswith(f"{_SPLITS[0]}-") for path in shards):
        raise DataError(
            f"{root}: the folder has data files of several kinds: {_file_list(shards)}; "
            f"{_file_list(others)}. Name one of its files, or a pattern such as "
            f"'{root / ('*' + shards[0].suffix)}'."
        )


def _other_tables(root: Path, shards: Sequence[Path]) -> list[Path]:
    """List the tables in a folder that are not among its shards and not of another split.

    A JSON file may hold facts about the data, so it is not among them.
    """
    other_splits = tuple(f"{name}{end}" for name in _SPLITS for end in "-.")
    tables = sorted(path for path in root.iterdir() if is_table_file(path))
    return [
        path
        for path in tables
        if path not in shards
        and not path.name.startswith((".", *other_splits))
        and decompressed_suffix(path) != ".json"
    ]


def _describe_shards(root: Path, shards: Sequence[Path]) -> str:
    files = (path for path in sorted(root.iterdir()) if path.is_file())
    others = [path for path in files if path not in shards and not path.name.startswith(".")]
    ignored = f"; not read: {_file_list(others)}" if others else ""
    return f"read {plural(len(shards), 'file')} of the folder: {_file_list(shards)}{ignored}"


def _file_list(files: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in files[:_MAX_LISTED])
    rest = len(files) - _MAX_LISTED
    return f"{names} and {rest:,} more" if rest > 0 else names


def _is_shard(path: Path) -> bool:
    return not path.name.startswith(".") and decompressed_suffix(path) in _SHARD_SUFFIXES


def shards_table(name: str, files: Sequence[Path], options: ReadOptions) -> Table:
    """Open shards as one table, opening each shard only when its rows are read.

    Empty shards are skipped, with a note. All others must have the same columns. A short CSV shard
    may not show its dialect and header, so those of the first shard are used if they fit.
    """
    log = ReadLog(name, options.max_bad_rows)
    used = _used_shards(files, log)
    first = file_table(str(used[0]), options)
    log.copy_layout(first.log)
    layout = Layout(
        text_columns=first.columns,
        encoding=log.encoding,
        separator=log.separator,
        quote=log.quote,
        header=log.header,
    )
    options = replace(options, remembered=layout)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return read_shards(list(first.columns if wanted is None else wanted), wanted)

    def read_shards(
        names: list[str], wanted: Sequence[str] | None, format: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        schema = None  # of the first batch, as one output has one schema
        for number, path in enumerate(used):
            shard = file_table(str(path), options) if number else first
            _check_columns(shard, first, used[0])
            for batch in shard.batches(wanted) if format is None else shard.all_batches(format):
                selected = batch.select(names)
                schema = schema or selected.schema
                yield selected if format is None else _with_schema(selected, schema, shard.name)
            log.add_bad_rows(shard.log)

    def typed_batches(format: str) -> Iterator[pa.RecordBatch]:
        return read_shards(list(first.columns), None, format)

    return Table(name, first.columns, batches, log, typed_batches)


def _used_shards(files: Sequence[Path], log: ReadLog) -> list[Path]:
    """Return the shard files that are not empty, or raise DataError if all are empty."""
    used = []
    for path in files:
        if _is_empty(path):
            log.notes.append(f"{path}: an empty shard, skipped")
        else:
            used.append(path)
    if not used:
        raise DataError(
            f"{log.name}: no rows in {plural(len(files), 'shard')}. Expected one text or more."
        )
    return used


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    try:
        return batch.cast(schema)
    except pa.ArrowException as error:
        raise DataError(
            f"{name}: a column has another type than in the first shard ({error}). Write all "
            "shards with the same types, or write the predictions as CSV."
        ) from error


def _is_empty(path: Path) -> bool:
    if path.stat().st_size == 0:
        return True
    if path.suffix.lower() not in (".parquet", ".pq"):
        return False
    try:
        return bool(pq.read_metadata(path).num_rows == 0)
    except (pa.ArrowException, OSError):
        return False  # damaged: its reader says how


def _check_columns(shard: Table, first: Table, first_path: Path) -> None:
    missing = sorted(set(first.columns) - set(shard.columns))
    further = sorted(set(shard.columns) - set(first.columns))
    if missing or further:
        difference = f"has no column {missing[0]!r}" if missing else f"has a column {further[0]!r}"
        raise DataError(
            f"{shard.name}: the shard {difference}, unlike {first_path}. Write all shards with the "
            "same columns."
        )
