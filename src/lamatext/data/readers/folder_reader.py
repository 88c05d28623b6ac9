"""A folder as data: a file a part (``train.csv``, ``test.csv``), or a folder a label."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lamatext.data.readers.compression import read_text
from lamatext.data.readers.file_formats import file_table, is_table
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

_PARTS = ("train", "test", "valid", "validation", "dev", "val")
_IGNORED = frozenset({"unsup", *_PARTS})  # aclImdb's unsup has no labels
_FILES = 1000  # files of a batch


def folder_table(root: Path, split: str, format: str | None = None) -> Table:
    """The part ``split`` of a folder; a folder without parts is all training part."""
    file = _part_file(root, split)
    if file is not None:
        return file_table(str(file), format)
    labels = _label_folders(root / split)
    if not labels and split == "train":
        labels = _label_folders(root)
    if labels:
        return _labelled_folders(str(root), labels)
    raise DataError(_nothing_found(root, split))


def has_part(root: Path, split: str) -> bool:
    """Whether the folder holds a part of that name as a file or a folder of its own."""
    return _part_file(root, split) is not None or bool(_label_folders(root / split))


def _part_file(root: Path, split: str) -> Path | None:
    return next((path for path in sorted(root.glob(f"{split}.*")) if is_table(path)), None)


def _label_folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    folders = (path for path in sorted(root.iterdir()) if path.is_dir())
    return [path for path in folders if path.name not in _IGNORED and _texts(path)]


def _texts(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def _nothing_found(root: Path, split: str) -> str:
    if split != "train" and (has_part(root, "train") or _label_folders(root)):
        return f"{root}: the folder has no part '{split}'. Add {root / split} or {split}.csv."
    files = sorted(path.name for path in root.iterdir() if is_table(path))
    if files:
        return (
            f"{root}: a folder without {split}.csv or the like. Name one file: {root / files[0]}."
        )
    return f"{root}: nothing to read. Expected a folder a label with text files, or {split}.csv."


def _labelled_folders(name: str, labels: Sequence[Path]) -> Table:
    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = list(wanted or ("text", "label"))
        for folder in labels:
            files = _texts(folder)
            for start in range(0, len(files), _FILES):
                texts = [read_text(str(path)) for path in files[start : start + _FILES]]
                columns = {"text": texts, "label": [folder.name] * len(texts)}
                yield pa.RecordBatch.from_pydict({column: columns[column] for column in names})

    return Table(name, ("text", "label"), batches)
