"""What a user should know of the data before training on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset

PERCENTILES = (5, 50, 95, 99, 100)

_ROWS = 4096  # texts looked at together, so that memory stays small
_SPACE = 0x20  # bytes up to it are white space or control characters


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over a corpus, and over the overlap with its test part."""

    source: str
    rows: int
    classes: dict[str, int]  # rows of each label, the most frequent first; empty without labels
    words: dict[int, int]  # percentile: words of a text, parted by white space
    mean_words: float
    empty: int  # texts of white space alone
    duplicates: int  # texts that repeat an earlier one exactly
    test_rows: int | None = None
    in_both: int | None = None  # test texts that occur in training too

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def lines(self) -> list[str]:
        """For a person."""
        lines = [f"{self.source}: {self.rows:,} texts"]
        if self.classes:
            lines.append(f"{len(self.classes)} classes: {self._shares()}")
        spread = ", ".join(f"{words:,} at {p} %" for p, words in self.words.items())
        lines.append(f"words a text: {self.mean_words:,.0f} on average; {spread}")
        lines.append(f"{self.empty:,} empty texts, {self.duplicates:,} exact duplicates")
        if self.in_both is not None:
            lines.append(f"{self.in_both:,} of {self.test_rows:,} test texts are in training too")
        return lines

    def _shares(self, most: int = 10) -> str:
        shown = list(self.classes.items())[:most]
        text = ", ".join(f"{label} {100 * count / self.rows:.1f} %" for label, count in shown)
        return text + (f" and {len(self.classes) - most} more" if len(self.classes) > most else "")


def summarize_dataset(train: Dataset, test: Dataset | None = None) -> Summary:
    """The summary of a corpus, with the overlap where a test part is given."""
    words = word_counts(train.texts)
    hashes = _hashes(train.texts)
    known = np.unique(hashes)
    percentiles = np.percentile(words, PERCENTILES, method="nearest").astype(int).tolist()
    return Summary(
        source=train.source,
        rows=len(train),
        classes=class_counts(train),
        words=dict(zip(PERCENTILES, percentiles, strict=True)),
        mean_words=float(words.mean()),
        empty=int((words == 0).sum()),
        duplicates=len(hashes) - len(known),
        test_rows=None if test is None else len(test),
        in_both=None if test is None else int(np.isin(_hashes(test.texts), known).sum()),
    )


def class_counts(corpus: Dataset) -> dict[str, int]:
    """Rows of each label, the most frequent first, equal ones by name."""
    if corpus.labels is None:
        return {}
    counts = [
        (pair["values"], pair["counts"]) for pair in pc.value_counts(corpus.labels).to_pylist()
    ]
    return dict(sorted(counts, key=lambda pair: (-pair[1], pair[0])))


def word_counts(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Words of each text, parted by ASCII white space."""
    return np.concatenate([_count_words(piece) for piece in _pieces(texts)])


def _count_words(texts: pa.Array) -> NDArray[np.int64]:
    """Counts the bytes that begin a word: black after white, or first in their text."""
    starts, data = _buffers(texts)
    black = data > _SPACE
    begins = black.copy()
    begins[1:] &= ~black[:-1]
    firsts = starts[:-1][starts[:-1] < starts[1:]]
    begins[firsts] = black[firsts]
    counts: NDArray[np.int64] = np.diff(np.searchsorted(np.flatnonzero(begins), starts))
    return counts


def _hashes(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """64 bits for each text, equal within this process for equal texts."""
    every = (hash(text) for piece in _pieces(texts) for text in _raw(piece))
    return np.fromiter(every, np.int64, count=len(texts))


def _raw(texts: pa.Array) -> Iterator[bytes]:
    offsets, data = _buffers(texts)
    whole, ends = data.tobytes(), offsets.tolist()
    return (whole[start:end] for start, end in pairwise(ends))


def _buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text starts and the last one ends, and the bytes of them all."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return ends, np.zeros(0, np.uint8)
    return ends - ends[0], np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _pieces(texts: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in texts.chunks:
        for start in range(0, len(chunk), _ROWS):
            yield chunk.slice(start, _ROWS)
