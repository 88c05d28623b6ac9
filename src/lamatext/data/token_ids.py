"""Token ids of many texts in one flat array, and their padding into batches.

Token ids are padded only here. An encoder returns them together with the words, as strings or as
code points, from which n-grams are hashed.
Shapes: n texts, N token ids of all texts, W words of all texts.
"""

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PAD = 0  # fills padded batches; everything downstream reads lengths or a mask, never this value
UNK = 1  # the id of a word outside the vocabulary
FIRST_WORD = 2  # the first id of a vocabulary word
MANY_ROWS = 10_000  # texts that are taken with a mask instead of an index for each token id

Ids = NDArray[np.int32]
Indices = NDArray[np.int64]

OPEN, CLOSE = "\x02", "\x03"  # marks around a word, which do not occur in ordinary text


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Token ids of many texts, stored in one flat array with the offset of each text.

    The ids of text i are ``ids[offsets[i] : offsets[i + 1]]``.
    """

    ids: Ids  # (N,): the token ids of all texts, one text after the other
    offsets: Indices  # (n + 1,)

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | Ids]) -> "TokenIds":
        """Create a TokenIds object from one list of token ids per text."""
        arrays = [np.asarray(row, dtype=np.int32) for row in rows]
        offsets = np.array([0, *accumulate(map(len, arrays))], dtype=np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0, np.int32), offsets)

    @classmethod
    def concatenate(cls, parts: Sequence["TokenIds"]) -> "TokenIds":
        """Concatenate several TokenIds objects into one, in the given order."""
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        ids = [np.empty(0, np.int32), *(part.ids for part in parts)]
        return cls(np.concatenate(ids), np.cumsum(lengths))

    @classmethod
    def write(cls, file: Path, parts: Iterable["TokenIds"]) -> "TokenIds":
        """Write several TokenIds objects to a file and return them as one memory-mapped object."""
        lengths = [np.zeros(1, np.int64)]
        with file.open("wb") as output:
            for part in parts:
                output.write(np.ascontiguousarray(part.ids, np.int32).data)
                lengths.append(part.lengths)
        offsets = np.cumsum(np.concatenate(lengths))
        if not offsets[-1]:
            return cls(np.empty(0, np.int32), offsets)
        return cls(np.memmap(file, np.int32, "r"), offsets)

    def extended(self, other: "TokenIds") -> "TokenIds":
        """Append the token ids of more texts, in the same file if they are memory-mapped."""
        if not isinstance(self.ids, np.memmap):
            return TokenIds.concatenate([self, other])
        file = Path(str(self.ids.filename))
        with file.open("ab") as output:
            output.write(np.ascontiguousarray(other.ids, np.int32).data)
        offsets = np.append(self.offsets, self.offsets[-1] + other.offsets[1:])
        return TokenIds(np.memmap(file, np.int32, "r"), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def are_on_disk(self) -> bool:
        """Return whether the token ids are memory-mapped from a file instead of held in memory."""
        return isinstance(self.ids, np.memmap)

    def release_pages(self) -> None:
        """Allow the operating system to evict token ids that are memory-mapped from a file."""
        pages = getattr(self.ids, "_mmap", None)
        if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)

    @property
    def lengths(self) -> Indices:
        """Return the number of token ids in each text."""
        return np.diff(self.offsets)

    def take(self, rows: Indices) -> "TokenIds":
        """Select the token ids of the given texts, in the given order.

        Consecutive texts are not copied, so texts on disk stay there.
        """
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            offsets = self.offsets[rows[0] : rows[-1] + 2]
            return TokenIds(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if len(rows) > MANY_ROWS and (np.diff(rows) > 0).all():  # a mask needs less memory
            is_taken = np.zeros(len(self), dtype=bool)
            is_taken[rows] = True
            return TokenIds(self.ids[np.repeat(is_taken, self.lengths)], offsets)
        shift = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return TokenIds(self.ids[np.arange(offsets[-1]) + shift], offsets)

    def filter(self, keep: NDArray[np.bool_]) -> "TokenIds":
        """Keep only the token ids that a boolean mask selects, which may leave texts empty."""
        kept_before = np.concatenate([[0], np.cumsum(keep)])
        return TokenIds(self.ids[keep], kept_before[self.offsets])

    def pad(self, rows: Indices) -> tuple[Ids, Ids]:
        """Return the token ids of the given texts as a right-padded batch, with the text lengths.

        The batch is (B, T), the lengths are (B,).
        """
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(int(lengths.max()))
        is_word = columns < lengths[:, None]
        padded = np.full(is_word.shape, PAD, dtype=np.int32)
        padded[is_word] = self.ids[(starts[:, None] + columns)[is_word]]
        return padded, lengths.astype(np.int32)


def batches_by_length(lengths: Indices, *, max_words: int) -> list[Indices]:
    """Group texts of similar length into batches with a limited number of token ids.

    The limit is ``max_words``, counting padding; a text longer than that is a batch of its own.
    """
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * lengths[order[stop]] <= max_words:
            stop += 1
        batches.append(order[start:stop])
        start = stop
    return batches


class FramedTexts(NamedTuple):
    """Tokenized texts as Unicode code points, with boundary marks around each word."""

    points: NDArray[np.uint32]  # of all words, one after the other
    lengths: Indices  # (W,) code points of each word, marks included
    bounds: Indices  # (n + 1,) first word of each text, and the number of words

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> "FramedTexts":
        """Convert tokenized texts to arrays of code points, for hashing n-grams."""
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=bounds[1:])
        words = texts[0] if len(texts) == 1 else list(chain.from_iterable(texts))
        if not words:
            return cls(np.zeros(0, np.uint32), np.zeros(0, np.int64), bounds)
        return cls(*frame_words(words), bounds)


def frame_words(words: Sequence[str]) -> tuple[NDArray[np.uint32], Indices]:
    """Concatenate words as Unicode code points, with boundary marks around each word.

    Returns the code points and the length of each word, marks included. N-grams are hashed from
    them.
    """
    framed = OPEN + (CLOSE + OPEN).join(words) + CLOSE
    points = np.frombuffer(framed.encode("utf-32-le", "surrogatepass"), np.uint32)
    return points, np.fromiter(map(len, words), np.int64, len(words)) + 2


class EncodedTexts(NamedTuple):
    """Encoded texts: word ids, words, and the number of words and of known words per text."""

    ids: TokenIds  # word ids of each text
    words: Sequence[Sequence[str]] | FramedTexts  # all words of each text, known or not
    word_counts: Indices  # (n,)
    known_counts: Indices  # (n,) words in the vocabulary
