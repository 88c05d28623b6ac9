"""Labels of texts: encoding as class indices or a label matrix, counting, merging of variants.

Shapes: n texts, L labels.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.errors import DataError

Label: TypeAlias = str | int | bool
LabelColumn: TypeAlias = "pa.ChunkedArray | pa.Array | NDArray[Any] | Sequence[Label]"
ClassIndices: TypeAlias = NDArray[np.int64]
LabelMatrix: TypeAlias = NDArray[np.float32]  # (n, L), 1 where the label applies to the text
Targets: TypeAlias = ClassIndices | LabelMatrix  # what a model is trained to predict

Place: TypeAlias = Callable[[int], str]  # name of a row for messages, such as "a.csv:3"

MAX_LABELS = 5_000
"""Maximum number of labels: the scores take memory proportional to the square of their number."""
_SHOWN_LABELS = 20


def _place_in_list(row: int) -> str:
    return f"labels: row {row + 1}"


@dataclass(frozen=True, slots=True)
class LabelEncoder:
    """Label encoder that converts labels to class indices or to a label matrix, and back.

    Class indices and the columns of the label matrix follow the order of ``classes``.
    """

    classes: tuple[Label, ...]  # distinct labels in the order of numpy.unique

    @classmethod
    def fit(cls, labels: LabelColumn) -> "LabelEncoder":
        """Create a label encoder whose classes are the sorted distinct labels."""
        distinct, _ = _distinct_labels(list_items(labels) if holds_lists(labels) else labels)
        return cls(tuple(np.unique(distinct).tolist()))

    @property
    def names(self) -> list[str]:
        """Return the class labels as strings, in the order of the class indices."""
        return [str(label) for label in self.classes]

    @property
    def class_array(self) -> NDArray[Any]:
        """Return the class labels as a NumPy array of type str, int64 or bool."""
        return np.array(self.classes)

    def encode(self, labels: LabelColumn, *, place: Place = _place_in_list) -> ClassIndices:
        """Encode each label as its class index.

        Labels read from a file are strings: they also match int and bool classes.

        Args:
            labels: one label per text.
            place: returns the place of a row, for the error message.

        Raises:
            DataError: if a label is not among the classes.
        """
        distinct, codes = _distinct_labels(labels)
        indices = self._class_of(distinct)[codes]
        unknown = np.flatnonzero(indices < 0)
        if len(unknown):
            raise self._unknown_label(distinct[codes[unknown[0]]].item(), place(int(unknown[0])))
        return indices

    def encode_lists(self, labels: LabelColumn, *, place: Place = _place_in_list) -> LabelMatrix:
        """Encode lists of labels as a binary label matrix with one column per class.

        Args:
            labels: a column of lists, with the labels of each text.
            place: returns the place of a row, for the error message.

        Raises:
            DataError: if a label is not among the classes.
        """
        matrix = np.zeros((len(labels), len(self.classes)), np.float32)
        items, rows = list_items(labels), list_rows(labels)
        if not len(items):
            return matrix
        distinct, codes = _distinct_labels(items)
        indices = self._class_of(distinct)[codes]
        unknown = np.flatnonzero(indices < 0)
        if len(unknown):
            label = distinct[codes[unknown[0]]].item()
            raise self._unknown_label(label, place(int(rows[unknown[0]])))
        matrix[rows, indices] = 1
        return matrix

    def encode_targets(self, labels: LabelColumn, *, place: Place = _place_in_list) -> Targets:
        """Encode a label column as class indices or, if it contains lists, as a label matrix."""
        if holds_lists(labels):
            return self.encode_lists(labels, place=place)
        return self.encode(labels, place=place)

    def decode(self, indices: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Decode class indices to an array of labels of type str, int64 or bool."""
        labels: NDArray[Any] = self.class_array[indices]
        return labels

    def decode_lists(self, matrix: NDArray[np.bool_]) -> NDArray[Any]:
        """Decode a label matrix to an object array (n,) with a list of labels per row."""
        lists = np.empty(len(matrix), dtype=object)
        for row, flags in enumerate(matrix):
            lists[row] = [self.classes[i] for i in np.flatnonzero(flags)]
        return lists

    def unknown(self, labels: Sequence[Label]) -> list[Label]:
        """Return the given labels that are not classes of the encoder."""
        indices = self._class_of(np.array(labels))
        return [label for label, index in zip(labels, indices, strict=True) if index < 0]

    def _class_of(self, distinct: NDArray[Any]) -> ClassIndices:
        """Return the class index of each distinct label, or -1 if the label is unknown."""
        by_text = distinct.dtype.kind in "UO" and not isinstance(self.classes[0], str)
        known = {_written(label) if by_text else label: i for i, label in enumerate(self.classes)}
        values = [_written(label) for label in distinct.tolist()] if by_text else distinct.tolist()
        return np.array([known.get(value, -1) for value in values], dtype=np.int64)

    def _unknown_label(self, label: object, place: str) -> DataError:
        more = ", ..." if len(self.classes) > _SHOWN_LABELS else ""
        return DataError(
            f"{place} has the label {label!r}, which is not among the known labels: "
            f"{', '.join(map(repr, self.classes[:_SHOWN_LABELS]))}{more}. "
            "Correct the label, leave the row out, or train on texts with that label."
        )

    def drop_unknown(self, dataset: Dataset) -> Dataset:
        """Drop the labels of a dataset that are not known classes, and warn about them.

        A text with one label is left out; a list of labels loses the unknown ones.

        Raises:
            DataError: if no label is known.
        """
        labels = dataset.require_labels()
        items = list_items(labels) if holds_lists(labels) else labels
        if not len(items):
            return dataset
        distinct, codes = _distinct_labels(items)
        is_unknown = self._class_of(distinct) < 0
        if not is_unknown.any():
            return dataset
        if is_unknown.all():
            row = list_rows(labels)[0] if holds_lists(labels) else 0
            raise self._unknown_label(distinct[0].item(), dataset.place(int(row)))
        unknown = [str(label) for label in distinct[is_unknown].tolist()]
        count = int(is_unknown[codes].sum())
        warnings.warn(
            f"{dataset.source}: {count:,} {'texts have' if count > 1 else 'text has'} a label that "
            f"the training data lacks ({', '.join(map(repr, unknown[:5]))}"
            f"{', ...' if len(unknown) > 5 else ''}). The scores are over the known labels.",
            stacklevel=2,
        )
        if not dataset.is_multi_label:
            return dataset.take(np.flatnonzero(~is_unknown[codes]))
        unseen = set(unknown)
        lists = [[label for label in row if label not in unseen] for row in labels.to_pylist()]
        return dataset.with_labels(pa.chunked_array([pa.array(lists, labels.type)]))


def check_label_count(count: int, texts: int, source: str) -> None:
    """Raise DataError if there are too many different labels to learn.

    A column in which every row has its own value, such as a number or an address, is a frequent
    mistake, and training on it would take hours or all memory.
    """
    if count > MAX_LABELS:
        raise DataError(
            f"{source}: {count:,} different labels in {texts:,} texts, at most {MAX_LABELS:,} can "
            "be learned. If they are not labels, choose another column (--label-column); "
            "otherwise join rare labels into one, such as 'other'."
        )


def class_counts(dataset: Dataset) -> dict[str, int]:
    """Count the rows of a dataset per label, in descending order of frequency."""
    if dataset.labels is None:
        return {}
    labels = list_items(dataset.labels) if dataset.is_multi_label else dataset.labels
    counts = [(pair["values"], pair["counts"]) for pair in pc.value_counts(labels).to_pylist()]
    return dict(sorted(counts, key=lambda pair: (-pair[1], pair[0])))


def label_variants(counts: Mapping[str, int]) -> list[list[str]]:
    """Group labels that differ only in case or spaces, with the most frequent variant first."""
    groups: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        groups.setdefault(label_key(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def merge_label_variants(dataset: Dataset, known: Iterable[str] = ()) -> Dataset:
    """Merge labels of a dataset that differ only in case or spaces into one label.

    The merged label is a known label, such as a class of a model, or otherwise the most frequent
    variant, without spaces at its ends.
    """
    counts = class_counts(dataset)
    merged = {label_key(label): label for label in known}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        merged.setdefault(label_key(label), label.strip())
    return dataset.rename_labels({label: merged[label_key(label)] for label in counts})


def label_key(label: str) -> str:
    """Return a label case-folded and without spaces, as a key that is equal for its variants."""
    return "".join(label.split()).casefold()


def holds_lists(labels: LabelColumn) -> bool:
    """Return whether a label column contains lists, that is, several labels per text."""
    return isinstance(labels, pa.Array | pa.ChunkedArray) and pa.types.is_list(labels.type)


def list_items(labels: LabelColumn) -> pa.Array:
    """Return all labels of a column of label lists as one flat array."""
    return _one_array(labels).flatten()


def list_rows(labels: LabelColumn) -> NDArray[np.int64]:
    """Return the row index of each label in a column of label lists."""
    lengths = pc.list_value_length(_one_array(labels)).to_numpy()
    return np.repeat(np.arange(len(lengths)), lengths)


def _one_array(labels: LabelColumn) -> pa.Array:
    return labels.combine_chunks() if isinstance(labels, pa.ChunkedArray) else labels


def _distinct_labels(labels: LabelColumn) -> tuple[NDArray[Any], ClassIndices]:
    if not len(labels):
        raise DataError("there are no labels to encode. Expected one label or more.")
    if isinstance(labels, pa.Array | pa.ChunkedArray):
        # Hashing takes a fraction of the time that sorting does.
        encoded = _one_array(labels).dictionary_encode()
        return np.array(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int64)
    distinct, codes = np.unique(np.asarray(labels), return_inverse=True)
    return distinct, codes.astype(np.int64)


def _written(label: Label) -> str:
    """Convert a label to a string, with boolean labels in lower case as in data files."""
    text = str(label)
    return text.lower() if text in ("True", "False") else text
