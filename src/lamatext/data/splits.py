"""Stratified splits, splits by time and cross-validation folds of a dataset, as row indices."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import ClassIndices, LabelColumn, holds_lists, list_items, list_rows
from lamatext.errors import DataError, percent, plural

Rows = NDArray[np.int64]

MAX_LISTED = 5  # labels in a warning
MANY_KNOWN = 0.05  # share of validation texts; if more are training texts, too, they are left out


@dataclass(frozen=True, slots=True)
class Split:
    """Row indices of the training set and the validation set after splitting a dataset."""

    train: Rows
    validation: Rows
    # Of all texts; further splits keep each group together.
    groups: TextGroups | None = field(default=None, kw_only=True)
    # Texts (n,) that the continued model was trained on, as far as is known; None: hardly any.
    is_known: NDArray[np.bool_] | None = field(default=None, kw_only=True)
    is_mostly_known: bool = field(default=False, kw_only=True)  # it was trained on most of them


def stratified_split(
    labels: LabelColumn, fractions: Sequence[float], seed: int, groups: Rows | None = None
) -> tuple[Rows, ...]:
    """Split the rows of a dataset at random into parts with the same class proportions.

    Each part gets its fraction of each label to within a row or two. The first part is the training
    part: every label has a row there, and labels that occur once stay there, with a UserWarning.
    A row with several labels counts for the rarest of them. The rows of a group stay together: a
    group counts for its most frequent label, and a group that is too large for another part stays
    in training.

    Args:
        labels: one label per row, or a list of labels per row.
        fractions: the size of each part, training first; they sum to 1.
        seed: fixes the rows of each part.
        groups: the group of each row, any number; None puts each row in a group of its own.

    Returns:
        The row indices of each part in ascending order.
    """
    if not fractions or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise DataError(f"fractions {tuple(fractions)} must be above 0 and sum to 1.")
    strata, rng = _strata(labels), np.random.default_rng(seed)
    units = _group_units(strata, groups)
    is_single = _single_units(strata, units)
    order = _shuffled_by_label(units, rng)
    pool, parts = order[~is_single[order]], []
    for last in range(len(fractions) - 1, 0, -1):
        picked = _pick(pool, units.sizes, fractions[last] / sum(fractions[: last + 1]), rng)
        parts.append(units.rows_of(pool[picked]))
        pool = pool[~picked]
    train = units.rows_of(np.concatenate([pool, order[is_single[order]]]))
    train, held_out = _complete_training(train, parts[::-1], strata, units)
    return tuple(np.sort(part) for part in (train, *held_out))


def newest_split(
    labels: LabelColumn,
    fraction: float,
    times: NDArray[np.float64],
    groups: Rows | None = None,
) -> tuple[Rows, Rows]:
    """Split a dataset by time and return the indices of the older rows and of the newest rows.

    A group is as old as its oldest row. If the older rows lack a label, one of the newest rows with
    that label is moved to them, with its group.
    """
    strata = _strata(labels)
    units = _group_units(strata, groups)
    oldest = np.full(len(units.sizes), np.inf)
    np.minimum.at(oldest, units.unit_of_row, times)
    order = np.argsort(oldest, kind="stable")
    is_newest = np.cumsum(units.sizes[order][::-1])[::-1] <= max(1, round(len(times) * fraction))
    newest = units.rows_of(order[is_newest])
    rest = np.setdiff1d(np.arange(len(times)), newest)
    train, (held_out,) = _complete_training(rest, [newest], strata, units)
    return np.sort(train), np.sort(held_out)


def hold_out(
    labels: LabelColumn,
    fraction: float,
    seed: int,
    *,
    groups: Rows | None = None,
    times: NDArray[np.float64] | None = None,
    source: str = "the data",
) -> tuple[Rows, Rows]:
    """Split a dataset into training rows and held-out rows, either stratified or by time.

    Args:
        labels: as for ``stratified_split``.
        fraction: the share of rows to hold out.
        seed: fixes the rows.
        groups: the group of each row, which stays together.
        times: hold out the newest rows instead of random ones.
        source: the name of the data, for messages.

    Raises:
        DataError: if there are too few texts to hold any out.
    """
    if times is not None:
        rows, held_out = newest_split(labels, fraction, times, groups)
    else:
        rows, held_out = stratified_split(labels, (1 - fraction, fraction), seed, groups)
    if not len(held_out):
        many = "" if groups is None else describe_groups(groups)
        raise DataError(
            f"{source}: {plural(len(rows), 'text')}{many}: too few to hold out "
            f"{percent(fraction, 0)} of them. Give more texts, or a separate file with --test or "
            "--validation."
        )
    return rows, held_out


def describe_groups(groups: Rows) -> str:
    """Return a phrase on how many parts a split can separate, empty if each text is one."""
    count = len(np.unique(groups))
    if count == len(groups):
        return ""
    sets = "one set" if count == 1 else f"only {count:,} sets"
    return f", in {sets} of texts that must stay together (near-duplicates or a group)"


def hold_out_validation(
    labels: LabelColumn, fraction: float, seed: int, groups: TextGroups
) -> Split:
    """Split a dataset at random into a training set and a stratified validation set.

    With too few groups to hold one out, only duplicates stay together. With too few distinct texts,
    the training set is also used as the validation set. Each case gives a UserWarning.
    """
    parts = _split_if_possible(labels, fraction, seed, groups.of_rows)
    if parts is None and groups.duplicates is not groups.of_rows:
        parts = _split_if_possible(labels, fraction, seed, groups.duplicates)
        if parts is not None:
            count = plural(len(np.unique(groups.of_rows)), "group is", "groups are")
            warnings.warn(
                f"{count} too few to hold one out: validation texts may be of the same group as "
                "training texts.",
                stacklevel=2,
            )
    if parts is None:
        rows, distinct = np.arange(len(labels)), len(np.unique(groups.duplicates))
        kind = "text" if distinct == len(rows) else "distinct text"
        warnings.warn(
            f"{plural(distinct, f'{kind} is', f'{kind}s are')} too few to hold out a validation "
            "set: the training texts are used instead.",
            stacklevel=2,
        )
        parts = rows, rows
    return Split(*parts, groups=groups)


def validation_texts_to_leave_out(
    validation: pa.ChunkedArray, train: pa.ChunkedArray
) -> NDArray[np.bool_]:
    """Return which given validation texts (n,) are not used, because they are training texts, too.

    They would show how well a model memorizes, which would make it overconfident. A few of them do
    not matter and are used.
    """
    in_both = train.filter(pc.is_in(train, value_set=validation))
    is_known: NDArray[np.bool_] = pc.is_in(validation, value_set=in_both).to_numpy()
    if is_known.sum() < MANY_KNOWN * len(validation):
        return np.zeros(len(validation), bool)
    return is_known


def _split_if_possible(
    labels: LabelColumn, fraction: float, seed: int, groups: Rows
) -> tuple[Rows, Rows] | None:
    """Split a dataset in two; return None, without warnings, if there are too few groups."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, held_out = stratified_split(labels, (1 - fraction, fraction), seed, groups)
    if not len(held_out):
        return None
    for warning in caught:
        warnings.warn(warning.message, stacklevel=3)
    return rows, held_out


def folds(
    labels: LabelColumn,
    k: int,
    seed: int,
    groups: Rows | None = None,
    *,
    score_single: bool = False,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the training rows and the held-out rows of each cross-validation fold.

    The rows of a group are held out together.

    Args:
        labels: as for ``stratified_split``.
        k: number of folds.
        seed: fixes the rows of each fold.
        groups: the group of each row, which stays together.
        score_single: whether the rows with a label that occurs once are held out like the others,
            if two labels remain; otherwise they are training rows in every fold. When held out,
            they stand for the labels that the data does not have yet, which are about as frequent
            (Good-Turing estimate). For the same reason, labels with fewer than ``k`` rows are dealt
            at random, not evenly: in new data, some have more rows and some fewer.
    """
    if k < 2:
        raise DataError(f"folds ({k}) must be at least 2.")
    strata, rng = _strata(labels), np.random.default_rng(seed)
    units = _group_units(strata, groups)
    is_single = _single_units(strata, units, scored=score_single)
    if score_single:
        units = _merge_rare(units, k)
    order = _shuffled_by_label(units, rng)
    fold_of_unit = np.full(len(units.sizes), -1)
    dealt = order[~is_single[order]]
    fold_of_unit[dealt] = np.arange(len(dealt)) % k
    fold_of_row = fold_of_unit[units.unit_of_row]
    for fold in range(k):
        yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)


class _Units(NamedTuple):
    """Groups of rows that a split keeps together, such as duplicates or rows of one customer."""

    unit_of_row: Rows  # (n,)
    sizes: Rows  # number of rows of each unit
    codes: ClassIndices  # stratum of each unit

    def rows_of(self, units: Rows) -> Rows:
        """Return the row indices of the given groups in a split."""
        if len(self.sizes) == len(self.unit_of_row):
            return units  # each row is a unit
        return np.flatnonzero(np.isin(self.unit_of_row, units))


def _group_units(strata: "_Strata", groups: Rows | None) -> _Units:
    """Form the groups of rows that a split keeps together, each with its most frequent label."""
    rows = len(strata.codes)
    if groups is None:
        return _Units(np.arange(rows), np.ones(rows, np.int64), strata.codes)
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # units in the order of their first rows
    unit_of_row = rank[inverse]
    codes = most_frequent_labels(unit_of_row, strata.codes)
    return _Units(unit_of_row, np.bincount(unit_of_row), codes)


def most_frequent_labels(groups: Rows, labels: ClassIndices) -> ClassIndices:
    """Return the most frequent label of each group of rows that a split keeps together.

    ``groups`` has the number of each row's group, from 0 on without gaps.
    """
    label_count = labels.max(initial=0) + 1
    pairs, counts = np.unique(groups * label_count + labels, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    result = np.empty(groups.max(initial=-1) + 1, np.int64)
    result[pairs // label_count] = pairs % label_count  # later assignments win
    return result


def _merge_rare(units: _Units, k: int) -> _Units:
    """Merge labels with fewer than ``k`` groups of rows into one stratum, before splitting them."""
    counts = np.bincount(units.codes)
    return units._replace(codes=np.where(counts[units.codes] < k, len(counts), units.codes))


def _pick(pool: Rows, sizes: Rows, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Select groups that have about the given fraction of the rows, for one part of a split."""
    weights = sizes[pool]
    target = weights.sum() * fraction
    if len(pool) == weights.sum():
        return _evenly_spaced(len(pool), round(len(pool) * fraction), rng)
    fits = weights <= max(2 * target, weights.min(initial=0))
    fits &= 2 * weights <= weights.sum()
    candidates = np.flatnonzero(fits)
    picked = np.zeros(len(pool), bool)
    if len(candidates):
        count = max(1, round(len(candidates) * target / weights[candidates].sum()))
        picked[candidates[_evenly_spaced(len(candidates), count, rng)]] = True
    return picked


class _Strata(NamedTuple):
    """Strata of a split, one per label; a row with several labels belongs to its rarest label."""

    codes: ClassIndices  # (n,) stratum of each row
    names: list[str]  # of the labels
    label_rows: Rows  # row of each label: ``codes`` has one per row, this one per label of a row
    labels: ClassIndices  # code of each of these labels


def _strata(labels: LabelColumn) -> _Strata:
    """Return the stratum of each row to be split, numbered by first appearance of the label.

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


def _single_units(strata: _Strata, units: _Units, *, scored: bool = False) -> NDArray[np.bool_]:
    """Return a mask of the groups of rows that a split must keep in training.

    Each of them is the only group with one of its labels, or the only group of its stratum. Labels
    that occur in only one group are named in a warning. If ``scored`` is true and at least two
    other labels remain, the mask is all False.
    """
    pairs = np.unique(strata.labels * len(units.sizes) + units.unit_of_row[strata.label_rows])
    labels, unit_of_label = pairs // len(units.sizes), pairs % len(units.sizes)
    is_once = np.bincount(labels, minlength=len(strata.names)) == 1
    single = [strata.names[code] for code in np.flatnonzero(is_once)]
    scored &= len(strata.names) - len(single) >= 2
    if single:
        is_each_alone = len(units.sizes) == len(units.unit_of_row)
        grouped = "" if is_each_alone else ", or only in texts that must stay together,"
        is_one, more = len(single) == 1, len(single) - MAX_LISTED
        if scored:
            outcome = f"{'counts' if is_one else 'count'} as errors in the cross-validation"
        else:
            outcome = f"{'stays in training and is' if is_one else 'stay in training and are'}"
            outcome += " not scored"
        warnings.warn(
            f"{plural(len(single), 'label')} seen once{grouped} {outcome}: "
            f"{', '.join(single[:MAX_LISTED])}{f' and {more} more' if more > 0 else ''}.",
            stacklevel=3,
        )
    if scored:
        return np.zeros(len(units.sizes), bool)
    is_single: NDArray[np.bool_] = np.bincount(units.codes)[units.codes] == 1
    is_single[unit_of_label[is_once[labels]]] = True
    return is_single


def _shuffled_by_label(units: _Units, rng: np.random.Generator) -> Rows:
    """Sort the groups of a split by label and size, breaking ties at random."""
    shuffled = rng.permutation(len(units.codes))
    order: Rows = shuffled[np.lexsort((units.sizes[shuffled], units.codes[shuffled]))]
    return order


def _evenly_spaced(size: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Select evenly spaced rows from a random offset, which stratifies a split of sorted rows."""
    picked = np.zeros(size, dtype=bool)
    positions = ((np.arange(count) + rng.random()) * size / max(count, 1)).astype(np.int64)
    picked[np.minimum(positions, size - 1)] = True
    return picked


def _complete_training(
    train: Rows, held_out: list[Rows], strata: _Strata, units: _Units
) -> tuple[Rows, list[Rows]]:
    """Ensure that every label occurs in the training part of a split.

    For each label that does not, one held-out row is moved to training, with its group.
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
                moved = units.unit_of_row[part] == units.unit_of_row[part[at[0]]]
                train = np.append(train, part[moved])
                held_out[i] = part[~moved]
                break
    return train, held_out
