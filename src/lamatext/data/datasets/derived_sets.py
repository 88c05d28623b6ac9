"""The paper's rules as code: sampling by seed, longer than the mean, stars to polarity."""

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

# Polarity of each number of stars; a missing one is dropped. The paper's sentence for Yelp-P is
# "stars 1 and 2 negative, and 3 and 4 positive", which leaves 5 out.
PAPER = {"1": "neg", "2": "neg", "3": "pos", "4": "pos"}
COMMON = {"1": "neg", "2": "neg", "4": "pos", "5": "pos"}


def sample(rows: int, train: int, test: int, seed: int = SEED) -> dict[str, NDArray[np.int64]]:
    """Random disjoint rows for both parts, ascending; of fewer rows, in the same proportion."""
    if rows < train + test:
        test = max(round(rows * test / (train + test)), 1)
        train = rows - test
    shuffled = np.random.default_rng(seed).permutation(rows)
    return {"train": np.sort(shuffled[:train]), "test": np.sort(shuffled[train : train + test])}


def tokens(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Tokens of each text."""
    counts: NDArray[np.int64] = pc.count_substring_regex(texts, _TOKEN).to_numpy()
    return counts


def longer_than_mean(corpus: Dataset, train: Dataset) -> Dataset:
    """The texts with more tokens than the mean of the training part."""
    return corpus.take(np.flatnonzero(tokens(corpus.texts) > tokens(train.texts).mean()))


def to_polarity(corpus: Dataset, polarity: dict[str, str]) -> Dataset:
    """The texts whose stars have a polarity, labelled with it."""
    if corpus.labels is None:
        raise DataError(f"{corpus.source}: no stars to make a polarity of.")
    stars = corpus.labels.to_pylist()
    kept = np.array([row for row, star in enumerate(stars) if star in polarity], np.int64)
    labels = pa.chunked_array([[polarity[stars[row]] for row in kept]], pa.string())
    return replace(corpus.take(kept), labels=labels)


def relabel(corpus: Dataset, names: dict[str, str]) -> Dataset:
    """The corpus with its labels renamed; a label without a new name keeps its own."""
    if corpus.labels is None:
        return corpus
    renamed = [names.get(label, label) for label in corpus.labels.to_pylist()]
    return replace(corpus, labels=pa.chunked_array([renamed], pa.string()))


def at_most(corpus: Dataset, rows: int, seed: int = SEED) -> Dataset:
    """The corpus, or as many random rows of it."""
    if len(corpus) <= rows:
        return corpus
    return corpus.take(np.sort(np.random.default_rng(seed).permutation(len(corpus))[:rows]))
