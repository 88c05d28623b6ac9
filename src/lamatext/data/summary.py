"""Summary of a dataset: class balance, text lengths, duplicates, overlap with the test set."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset, text_batches
from lamatext.data.duplicates import count_shared
from lamatext.data.labels import list_items
from lamatext.data.tokenizer import UNSPACED, WordTokenizer

PERCENTILES = (5, 50, 95, 99, 100)

_SPACE = 0x20  # bytes up to this one are whitespace or control characters


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a dataset: class balance, text lengths, duplicates and overlap with a test set."""

    source: str
    rows: int
    classes: dict[str, int]  # number of rows per label, the most frequent first
    words: dict[int, int]  # percentile: words per text, see ``word_counts``
    mean_words: float
    empty: int  # texts of whitespace only
    duplicates: int  # exact copies of an earlier text
    test_rows: int | None = None
    in_both: int | None = None  # test texts with a duplicate or near-duplicate in training
    labels_per_text: dict[int, int] | None = None  # number of labels: texts; None for one each


def summarize_dataset(train: Dataset, test: Dataset | None = None) -> Summary:
    """Compute the summary of a dataset, including its overlap with an optional test set."""
    words = word_counts(train.texts)
    hashes = _hashes(train.texts)
    distinct = np.unique(hashes)
    percentiles = np.percentile(words, PERCENTILES, method="nearest").astype(int).tolist()
    return Summary(
        source=train.source,
        rows=len(train),
        classes=class_counts(train),
        words=dict(zip(PERCENTILES, percentiles, strict=True)),
        mean_words=float(words.mean()),
        empty=int((words == 0).sum()),
        duplicates=len(hashes) - len(distinct),
        test_rows=None if test is None else len(test),
        in_both=None if test is None else count_shared(train.texts, test.texts),
        labels_per_text=_labels_per_text(train) if train.is_multi_label else None,
    )


def class_counts(dataset: Dataset) -> dict[str, int]:
    """Count the rows per label for the dataset summary, the most frequent label first."""
    if dataset.labels is None:
        return {}
    labels = list_items(dataset.labels) if dataset.is_multi_label else dataset.labels
    counts = [(pair["values"], pair["counts"]) for pair in pc.value_counts(labels).to_pylist()]
    return dict(sorted(counts, key=lambda pair: (-pair[1], pair[0])))


def _labels_per_text(dataset: Dataset) -> dict[int, int]:
    numbers = pc.list_value_length(dataset.require_labels()).to_numpy()
    return {number: int(texts) for number, texts in enumerate(np.bincount(numbers)) if texts}


def word_counts(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Count the words in each text for the dataset summary.

    Words are separated by ASCII whitespace; a text in a script that is written without spaces has
    as many as the tokenizer finds.
    """
    return np.concatenate([_count_words(batch) for batch in text_batches(texts)])


def _count_words(texts: pa.Array) -> NDArray[np.int64]:
    counts = _count_spaced_words(texts)
    is_unspaced = pc.match_substring_regex(texts, f"[{UNSPACED}]").to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(is_unspaced).tolist():
        counts[row] = len(WordTokenizer().words(texts[row].as_py()))
    return counts


def _count_spaced_words(texts: pa.Array) -> NDArray[np.int64]:
    _, offsets, data = texts.buffers()  # without a copy: 20 times faster than a regular expression
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]]
    starts = starts - starts[0]
    is_word = content > _SPACE
    starts_word = is_word.copy()  # the first byte of a text, or a byte after whitespace
    starts_word[1:] &= ~is_word[:-1]
    firsts = starts[:-1][starts[:-1] < starts[1:]]
    starts_word[firsts] = is_word[firsts]
    counts: NDArray[np.int64] = np.diff(np.searchsorted(np.flatnonzero(starts_word), starts))
    return counts


def _hashes(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    hashes = (hash(text) for batch in text_batches(texts) for text in batch.to_pylist())
    return np.fromiter(hashes, np.int64, count=len(texts))
