"""Stratified parts and folds: which rows train, validate and test, fixed by a seed."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.errors import DataError

Labels: TypeAlias = "pa.ChunkedArray | pa.Array | Sequence[str] | NDArray[Any]"
Rows = NDArray[np.int64]


def stratified_split(
    labels: Labels, shares: Sequence[float], seed: int, *, names: Sequence[str] | None = None
) -> tuple[Rows, ...]:
    """The rows of each part in ascending order, the first part being training.

    Each part gets its share of each label to within a row or two. A label seen once stays in
    training, with a UserWarning, and every label has a row there. ``names`` are what class numbers
    in ``labels`` stand for.
    """
    if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise DataError(f"shares {tuple(shares)} must be above 0 and sum to 1.")
    codes, seen = _codes(labels)
    rng = np.random.default_rng(seed)
    rare = _rare(codes, [names[int(number)] for number in seen] if names else seen)
    rows = _by_label(codes, rng)
    pool, parts = rows[~rare[codes[rows]]], []
    for last in range(len(shares) - 1, 0, -1):
        count = round(len(pool) * shares[last] / sum(shares[: last + 1]))
        picked = _spread(len(pool), count, rng)
        parts.append(pool[picked])
        pool = pool[~picked]
    train = np.concatenate([pool, rows[rare[codes[rows]]]])
    train, held = _lend(train, parts[::-1], codes, len(seen))
    return tuple(np.sort(part) for part in (train, *held))


def folds(labels: Labels, k: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """For each of ``k`` folds the training rows and the held-out rows, in ascending order.

    Every row is held out once, except labels seen once: these always train.
    """
    if k < 2:
        raise DataError(f"folds ({k}) must be at least 2.")
    codes, names = _codes(labels)
    rng = np.random.default_rng(seed)
    rare = _rare(codes, names)
    rows = _by_label(codes, rng)
    fold = np.full(len(codes), -1)
    dealt = rows[~rare[codes[rows]]]
    fold[dealt] = np.arange(len(dealt)) % k
    for number in range(k):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _codes(labels: Labels) -> tuple[NDArray[np.int64], list[str]]:
    """Each row's label as a number, in order of first appearance, and the labels."""
    column = labels if isinstance(labels, pa.Array | pa.ChunkedArray) else pa.array(list(labels))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    coded = pc.dictionary_encode(column)
    if not len(coded):
        raise DataError("no rows to split. Expected one label or more.")
    return coded.indices.to_numpy().astype(np.int64), [str(v) for v in coded.dictionary.to_pylist()]


def _rare(codes: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which labels are seen once; a warning names them."""
    rare: NDArray[np.bool_] = np.bincount(codes, minlength=len(names)) == 1
    if rare.any():
        seen = [names[code] for code in np.flatnonzero(rare).tolist()]
        warnings.warn(
            f"{len(seen)} label(s) seen once stay in training and are not scored: "
            f"{', '.join(seen[:5])}{', ...' if len(seen) > 5 else ''}.",
            stacklevel=3,
        )
    return rare


def _by_label(codes: NDArray[np.int64], rng: np.random.Generator) -> Rows:
    """All rows, label after label, at random within each."""
    shuffled = rng.permutation(len(codes))
    rows: Rows = shuffled[np.argsort(codes[shuffled], kind="stable")]
    return rows


def _spread(size: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """``count`` of ``size`` places, evenly spaced, so that each label gives its share."""
    picked = np.zeros(size, dtype=bool)
    places = ((np.arange(count) + rng.random()) * size / max(count, 1)).astype(np.int64)
    picked[np.minimum(places, size - 1)] = True
    return picked


def _lend(
    train: Rows, held: list[Rows], codes: NDArray[np.int64], labels: int
) -> tuple[Rows, list[Rows]]:
    """A row to training for each label that has none there."""
    absent = np.flatnonzero(np.bincount(codes[train], minlength=labels) == 0)
    for label in absent:
        for number, part in enumerate(held):
            at = np.flatnonzero(codes[part] == label)
            if len(at):
                train = np.append(train, part[at[0]])
                held[number] = np.delete(part, at[0])
                break
    return train, held
