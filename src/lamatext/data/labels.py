"""Label encoder: labels (str, int or bool) to class indices and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lamatext.errors import DataError

Label: TypeAlias = str | int | bool
LabelColumn: TypeAlias = "pa.ChunkedArray | pa.Array | NDArray[Any] | Sequence[Label]"
ClassIndices: TypeAlias = NDArray[np.int64]

_SHOWN_LABELS = 20


@dataclass(frozen=True, slots=True)
class LabelEncoder:
    """Label encoder that converts labels to class indices and back.

    A class index is a position in ``classes``.
    """

    classes: tuple[Label, ...]  # distinct labels in the order of numpy.unique

    @classmethod
    def fit(cls, labels: LabelColumn) -> "LabelEncoder":
        """Create a label encoder whose classes are the sorted distinct labels."""
        distinct, _ = _distinct_labels(labels)
        return cls(tuple(np.unique(distinct).tolist()))

    @property
    def names(self) -> list[str]:
        """Return the class labels as strings, in the order of the class indices."""
        return [str(label) for label in self.classes]

    @property
    def class_array(self) -> NDArray[Any]:
        """Return the class labels as a NumPy array, in the order of the class indices.

        Its type is str, int64 or bool.
        """
        return np.array(self.classes)

    def encode(self, labels: LabelColumn, *, source: str = "labels") -> ClassIndices:
        """Encode each label as its class index.

        Labels read from a file are strings: they also match int and bool classes.

        Args:
            labels: one label per text.
            source: where the labels come from, for the error message.

        Raises:
            DataError: if a label is not among the classes.
        """
        distinct, codes = _distinct_labels(labels)
        by_text = distinct.dtype.kind in "UO" and not isinstance(self.classes[0], str)
        known = {_written(label) if by_text else label: i for i, label in enumerate(self.classes)}
        values = [_written(label) for label in distinct.tolist()] if by_text else distinct.tolist()
        class_of_code = np.array([known.get(value, -1) for value in values], dtype=np.int64)
        indices: ClassIndices = class_of_code[codes]
        unknown_rows = np.flatnonzero(indices < 0)
        if len(unknown_rows):
            row = int(unknown_rows[0])
            more = ", ..." if len(self.classes) > _SHOWN_LABELS else ""
            raise DataError(
                f"{source}: row {row + 1} has the label {distinct[codes[row]].item()!r}, which is "
                f"not among the known labels: {', '.join(self.names[:_SHOWN_LABELS])}{more}. "
                "Correct the label, leave the row out, or train on texts with that label."
            )
        return indices

    def decode(self, indices: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Decode class indices into the corresponding labels.

        The array has the type str, int64 or bool.
        """
        labels: NDArray[Any] = self.class_array[indices]
        return labels


def _distinct_labels(labels: LabelColumn) -> tuple[NDArray[Any], ClassIndices]:
    if not len(labels):
        raise DataError("there are no labels to encode. Expected one label per text.")
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.combine_chunks()
    if isinstance(labels, pa.Array):  # hashing takes a fraction of the time that sorting does
        encoded = labels.dictionary_encode()
        return np.array(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int64)
    distinct, codes = np.unique(np.asarray(labels), return_inverse=True)
    return distinct, codes.astype(np.int64)


def _written(label: Label) -> str:
    """Return a label as a string, with boolean labels in lower case as in data files."""
    text = str(label)
    return text.lower() if text in ("True", "False") else text
