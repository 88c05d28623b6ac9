"""Word ids of many texts, laid end to end; padding happens here and nowhere else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

PAD = 0  # fills a padded batch; whatever reads one goes by lengths or mask, never by this value
UNK = 1  # a word outside the vocabulary
FIRST_WORD = 2

Ids = NDArray[np.int32]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """The ids of text i are ``ids[offsets[i] : offsets[i + 1]]``."""

    ids: Ids  # (N,)
    offsets: Indices  # (n + 1,)

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | Ids]) -> "Ragged":
        """Lay the rows end to end."""
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        offsets = np.array([0, *accumulate(map(len, arrays))], dtype=np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0, np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Indices:
        """How many ids each text has: (n,)."""
        return np.diff(self.offsets)

    def take(self, rows: Indices) -> "Ragged":
        """Some texts, in the order given."""
        lengths = self.lengths[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        shift = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Ragged(self.ids[np.arange(offsets[-1]) + shift], offsets)

    def pad(self, rows: Indices) -> tuple[Ids, Ids]:
        """Some texts as one matrix (B, T), padded on the right, and their lengths (B,)."""
        lengths = self.lengths[rows]
        padded = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int32)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = self.take(rows).ids
        return padded, lengths.astype(np.int32)


def by_length(lengths: Indices, *, words: int) -> list[Indices]:
    """Batches for prediction: sorted by length, each of about ``words`` words, padding included."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * lengths[order[stop]] <= words:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches
