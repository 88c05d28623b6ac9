"""Folder reader: one file per split, one folder per label, or shards of one data set."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lamatext.data.read_options import ReadOptions
from lamatext.data.readers.format_detection import file_table, is_table_file
from lamatext.data.readers.input_files import read_text
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.shard_reader import shards_in_folder, shards_table
from lamatext.data.readers.table import Table
from lamatext.data.tokenizer import encodable
from lamatext.errors import DataError

_SPLITS = ("train", "test", "valid", "validation", "dev", "val")
_NOT_LABELS = frozenset({"unsup", *_SPLITS})  # the folder unsup of aclImdb has no labels
_BATCH_FILES = 1000
_BATCH_CHARACTERS = 1 << 24


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
        return shards_table(str(root), shards, options)
    raise DataError(_missing_split_message(root, split))


def folder_has_split(root: Path, split: str) -> bool:
    """Return whether a data folder contains the given split, such as ``train`` or ``test``.

    The split can be one file, several files (shards), or a folder with one subfolder per label.
    """
    if _split_file(root, split) is not None or _label_folders(root / split):
        return True
    return not _label_folders(root) and bool(shards_in_folder(root, split))


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
    files = sorted(path.name for path in root.iterdir() if is_table_file(path))
    if files:
        return f"{root}: a folder without {split}.csv. Name one of its files: {root / files[0]}."
    return f"{root}: nothing to read. Expected one folder of text files per label, or {split}.csv."


def _label_folders_table(name: str, folders: Sequence[Path], options: ReadOptions) -> Table:
    log = ReadLog(name, options.max_bad_rows)

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or ("text", "label"))
        for folder in folders:
            for texts in _text_batches(folder, options):
                columns = {"text": texts, "label": [encodable(folder.name)] * len(texts)}
                yield pa.RecordBatch.from_pydict({column: columns[column] for column in names})

    return Table(name, ("text", "label"), batches, log)


def _text_batches(folder: Path, options: ReadOptions) -> Iterator[list[str]]:
    """Yield the texts in a label folder in batches, to limit the memory use."""
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
