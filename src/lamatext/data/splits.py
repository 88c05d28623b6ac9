"""Stratified splits and cross-validation folds: row indices drawn at random by a seed."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.labels import ClassIndices, LabelColumn, holds_lists, list_items, list_rows
from lamatext.errors import DataError

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """Split of the rows into a training and a validation set, stored as row indices."""

    train: Rows
    validation: Rows


def stratified_split(
    labels: LabelColumn, fractions: Sequence[float], seed: int
) -> tuple[Rows, ...]:
    """Split the rows at random into parts with the same class proportions.

    Each part gets its fraction of each label to within a row or two. The first part is the training
    part: every label has a row there, and labels that occur once stay there, with a UserWarning.
    A row with several labels counts for the rarest of them.

    Args:
        labels: one label per row, or a list of labels per row.
        fractions: the size of each part, training first; they sum to 1.
        seed: fixes the rows of each part.

    Returns:
        The row indices of each part in ascending order.
    """
    if not fractions or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DataError(f"fractions {tuple(fractions)} must be above 0 and sum to 1.")
    strata = _strata(labels)
    codes, rng = strata.codes, np.random.default_rng(seed)
    is_single = _single_labels(strata)
    rows = _shuffled_by_label(codes, rng)
    pool, parts = rows[~is_single[codes[rows]]], []
    for last in range(len(fractions) - 1, 0, -1):
        count = round(len(pool) * fractions[last] / sum(fractions[: last + 1]))
        picked = _evenly_spaced(len(pool), count, rng)
        parts.append(pool[picked])
        pool = pool[~picked]
    train = np.concatenate([pool, rows[is_single[codes[rows]]]])
    train, held_out = _complete_training(train, parts[::-1], strata)
    return tuple(np.sort(part) for part in (train, *held_out))


def hold_out(
    labels: LabelColumn, fraction: float, seed: int, *, source: str = "the data"
) -> tuple[Rows, Rows]:
    """Split off a stratified part of the rows; return the remaining and the held-out rows.

    Raises:
        DataError: if there are too few texts to hold any out.
    """
    rows, held_out = stratified_split(labels, (1 - fraction, fraction), seed)
    if not len(held_out):
        raise DataError(
            f"{source}: {len(rows)} texts are too few to hold out {fraction:.0%} of them. "
            "Give more texts, or a separate file with --test or --validation."
        )
    return rows, held_out


def hold_out_validation(labels: LabelColumn, fraction: float, seed: int) -> Split:
    """Split the rows into a training set and a stratified validation set.

    With too few texts, the training set is the validation set too, with a UserWarning.
    """
    rows, held_out = stratified_split(labels, (1 - fraction, fraction), seed)
    if not len(held_out):
        warnings.warn(
            f"{len(rows)} texts are too few to hold out a validation set: "
            "early stopping uses the training texts.",
            stacklevel=2,
        )
        return Split(rows, rows)
    return Split(rows, held_out)


def folds(labels: LabelColumn, k: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the training rows and the held-out rows of each cross-validation fold.

    Every row is held out once, except labels that occur once: these are always training rows.
    """
    if k < 2:
        raise DataError(f"folds ({k}) must be at least 2.")
    strata = _strata(labels)
    codes, rng = strata.codes, np.random.default_rng(seed)
    is_single = _single_labels(strata)
    rows = _shuffled_by_label(codes, rng)
    fold_of_row = np.full(len(codes), -1)
    dealt = rows[~is_single[codes[rows]]]
    fold_of_row[dealt] = np.arange(len(dealt)) % k
    for fold in range(k):
        yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)


class _Strata(NamedTuple):
    """Strata of a split: one per label, in which a row with several labels is in the rarest's."""

    codes: ClassIndices  # (n,) stratum of each row
    names: list[str]  # of the labels
    label_rows: Rows  # row of each label: ``codes`` has one per row, this one per label of a row
    labels: ClassIndices  # code of each of these labels


def _strata(labels: LabelColumn) -> _Strata:
    """Assign each row to a stratum; labels are numbered by first appearance.

    The rows that a seed selects depend on this order.
    """
    if holds_lists(labels):
        return _strata_of_lists(labels)
    column = labels if isinstance(labels, pa.Array | pa.ChunkedArray) else pa.array(list(labels))
    codes, names = _codes(column)
    return _Strata(codes, names, np.arange(len(codes)), codes)


def _strata_of_lists(labels: LabelColumn) -> _Strata:
    rows, (codes, names) = list_rows(labels), _codes(list_items(labels))
    rarest_last = np.argsort(-np.bincount(codes)[codes], kind="stable")
    strata = np.full(len(labels), len(names), np.int64)  # the last: rows without labels
    strata[rows[rarest_last]] = codes[rarest_last]  # later assignments win
    return _Strata(strata, names, rows, codes)


def _codes(column: pa.Array | pa.ChunkedArray) -> tuple[ClassIndices, list[str]]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column)
    if not len(encoded):
        raise DataError("no rows to split. Expected one label or more.")
    distinct = [str(label) for label in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy().astype(np.int64), distinct


def _single_labels(strata: _Strata) -> NDArray[np.bool_]:
    """Return which strata have a single row, with a warning for labels that occur once."""
    single = [strata.names[code] for code in np.flatnonzero(np.bincount(strata.labels) == 1)]
    if single:
        warnings.warn(
            f"{len(single)} label(s) seen once stay in training and are not scored: "
            f"{', '.join(single[:5])}{', ...' if len(single) > 5 else ''}.",
            stacklevel=3,
        )
    is_single: NDArray[np.bool_] = np.bincount(strata.codes, minlength=len(strata.names) + 1) == 1
    return is_single


def _shuffled_by_label(codes: ClassIndices, rng: np.random.Generator) -> Rows:
    shuffled = rng.permutation(len(codes))
    rows: Rows = shuffled[np.argsort(codes[shuffled], kind="stable")]
    return rows


def _evenly_spaced(size: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Select evenly spaced rows for a split, starting at a random offset.

    If the rows are grouped by label, the selection is stratified.
    """
    picked = np.zeros(size, dtype=bool)
    positions = ((np.arange(count) + rng.random()) * size / max(count, 1)).astype(np.int64)
    picked[np.minimum(positions, size - 1)] = True
    return picked


def _complete_training(
    train: Rows, held_out: list[Rows], strata: _Strata
) -> tuple[Rows, list[Rows]]:
    """Ensure that every label occurs in the training part of a split.

    For a label that does not, one of its held-out rows is moved there.
    """
    in_training = np.isin(strata.label_rows, train)
    present = np.bincount(strata.labels[in_training], minlength=len(strata.names))
    for label in np.flatnonzero(present == 0):
        candidates = strata.label_rows[strata.labels == label]
        if np.isin(candidates, train).any():
            continue  # moved for another label
        for i, part in enumerate(held_out):
            at = np.flatnonzero(np.isin(part, candidates))
            if len(at):
                train = np.append(train, part[at[0]])
                held_out[i] = np.delete(part, at[0])
                break
    return train, held_out
