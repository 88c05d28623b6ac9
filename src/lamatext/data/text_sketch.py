"""Sketch of the training texts: a sample of their hashes, to recognize them in other data.

A text is hashed without case, punctuation, digits and spaces. A sketch keeps the 1,024 smallest of
all hashes (a bottom-k sample). A text of another file can be checked if its hash is in the range of
the kept hashes: it was a training text if its hash is one of them. With at most 1,024 training
texts, the sketch keeps every hash, and all texts can be checked. A text cannot be computed from its
32-bit hash, but whoever guesses a whole text can check whether it was probably a training text.
"""

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

MAX_HASHES = 1024


@dataclass(frozen=True, slots=True)
class TextSketch:
    """Sketch of a model's training texts: the smallest hashes and the number of different texts.

    It is saved with the model, to recognize training texts in other data.
    """

    hashes: NDArray[np.uint32]  # ascending
    texts: int  # different training texts

    @classmethod
    def of_texts(cls, texts: "pa.ChunkedArray") -> "TextSketch":
        """Compute the sketch of a model's training texts from their smallest hashes."""
        keys = _keys(texts)
        distinct = np.unique(_hashes(keys[keys != 0]))
        return cls(distinct[:MAX_HASHES], len(distinct))

    @classmethod
    def from_json(cls, value: Any) -> "TextSketch":
        """Create a ``TextSketch`` from its JSON object in the ``config.json`` of a saved model.

        Raises:
            ValueError: the object is invalid.
        """
        if not isinstance(value, dict) or value.keys() != {"hashes", "texts"}:
            raise ValueError("expected hashes and texts")
        texts, encoded = value["texts"], value["hashes"]
        if type(texts) is not int or not isinstance(encoded, str):
            raise ValueError("expected a string and a number")
        try:
            content = bytearray(base64.b64decode(encoded, validate=True))
            hashes = np.frombuffer(content, "<u4").astype(np.uint32)
        except ValueError as error:
            raise ValueError("expected numbers of 32 bits in base64") from error
        if len(hashes) != min(texts, MAX_HASHES) or (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("expected ascending hashes, one per text")
        return cls(hashes, texts)

    def as_json(self) -> dict[str, object]:
        """Return the sketch of the training texts as a JSON object for ``config.json``.

        The hashes are little-endian 32-bit integers in base64.
        """
        encoded = base64.b64encode(self.hashes.astype("<u4").tobytes()).decode("ascii")
        return {"hashes": encoded, "texts": self.texts}

    def recognize(self, texts: "pa.ChunkedArray") -> tuple[int, int]:
        """Return how many of the given texts are in the sketch, and how many it can check."""
        keys = _keys(texts)
        checked = len(keys) if self._has_all_hashes else int(self._can_check(keys).sum())
        return int(self._holds(keys).sum()), checked

    def check(self, texts: "pa.ChunkedArray") -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which texts (n,) were certainly training texts, and which certainly were not.

        The others are outside the range that the sketch can check.
        """
        keys = _keys(texts)
        holds = self._holds(keys)
        return holds, self._can_check(keys) & ~holds

    @property
    def _has_all_hashes(self) -> bool:
        return self.texts <= len(self.hashes)

    def _can_check(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        largest = np.uint32(2**32 - 1) if self._has_all_hashes else self.hashes[-1]
        can_check: NDArray[np.bool_] = (keys != 0) & (_hashes(keys) <= largest)
        return can_check

    def _holds(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        holds: NDArray[np.bool_] = (keys != 0) & np.isin(_hashes(keys), self.hashes)
        return holds


def _keys(texts: "pa.ChunkedArray") -> NDArray[np.uint64]:
    """Return the key of each text (n,) for a sketch, 0 for an empty text."""
    from lamatext.data.dataset import text_batches  # not needed to predict
    from lamatext.data.duplicates import text_keys

    keys = [text_keys(batch) for batch in text_batches(texts)]
    return np.concatenate([np.zeros(0, np.uint64), *keys])


def _hashes(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return (keys >> np.uint64(32)).astype(np.uint32)
