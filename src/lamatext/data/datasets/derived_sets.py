"""Data sets derived from others by the paper's rules: samples, long texts, polarity from stars."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.dataset import Dataset
from lamatext.errors import DataError

SEED = 0

# Words and punctuation marks, each a token, as spaCy and our own tokenizer count them.
_TOKEN = r"[\pL\pN\pM_]+(?:['’][\pL\pN\pM_]+)*|[^\pL\pN\pM_\s]"

# Polarity of each number of stars; other stars are dropped. The paper's sentence for Yelp-P is
# "stars 1 and 2 negative, and 3 and 4 positive", which leaves 5 out.
PAPER_POLARITY = {"1": "neg", "2": "neg", "3": "pos", "4": "pos"}
COMMON_POLARITY = {"1": "neg", "2": "neg", "4": "pos", "5": "pos"}


def sample_splits(
    rows: int, train: int, test: int, seed: int = SEED
) -> dict[str, NDArray[np.int64]]:
    """Draw disjoint random rows for a derived training and test set, in ascending order.

    With fewer rows than requested, both sets shrink in proportion.
    """
    if rows < train + test:
        test = max(round(rows * test / (train + test)), 1)
        train = rows - test
    shuffled = np.random.default_rng(seed).permutation(rows)
    return {"train": np.sort(shuffled[:train]), "test": np.sort(shuffled[train : train + test])}


def long_texts(dataset: Dataset, train: Dataset) -> Dataset:
    """Derive the set of texts with more tokens than the mean of the training set."""
    return dataset.take(
        np.flatnonzero(_token_counts(dataset.texts) > _token_counts(train.texts).mean())
    )


def polarity_from_stars(dataset: Dataset, polarity: dict[str, str]) -> Dataset:
    """Derive a polarity set from star ratings; stars without a polarity are dropped."""
    if dataset.labels is None:
        raise DataError(
            f"{dataset.source}: no stars to derive the polarity from. Expected labels 1 to 5."
        )
    stars = dataset.labels.to_pylist()
    rows = np.array([row for row, star in enumerate(stars) if star in polarity], np.int64)
    labels = pa.chunked_array([[polarity[stars[row]] for row in rows]], pa.string())
    return replace(dataset.take(rows), labels=labels)


def rename_labels(dataset: Dataset, names: dict[str, str]) -> Dataset:
    """Derive a set with renamed labels; a label without a new name stays as it is."""
    if dataset.labels is None:
        return dataset
    renamed = [names.get(label, label) for label in dataset.labels.to_pylist()]
    return replace(dataset, labels=pa.chunked_array([renamed], pa.string()))


def sample_at_most(dataset: Dataset, rows: int, seed: int = SEED) -> Dataset:
    """Derive a random subset of at most ``rows`` texts, in their original order."""
    if len(dataset) <= rows:
        return dataset
    return dataset.take(np.sort(np.random.default_rng(seed).permutation(len(dataset))[:rows]))


def _token_counts(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = pc.count_substring_regex(texts, _TOKEN).to_numpy()
    return counts
