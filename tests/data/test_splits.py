import warnings

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.duplicates import TextGroups
from lamatext.data.splits import (
    describe_groups,
    folds,
    hold_out,
    hold_out_validation,
    stratified_split,
)
from lamatext.errors import DataError

SHARES = (0.8, 0.1, 0.1)
LABELS = np.repeat(["a", "b", "c"], [700, 290, 10])


def apart(count: int) -> TextGroups:
    """Texts of which none is in a group with another: empty ones are no duplicates."""
    return TextGroups(pa.chunked_array([pa.array([""] * count, pa.large_string())]))


def test_parts_are_disjoint_and_cover_all_rows() -> None:
    parts = stratified_split(LABELS, SHARES, seed=0)

    assert [len(part) for part in parts] == [800, 100, 100]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


def test_each_part_gets_its_fraction_of_each_label() -> None:
    for part, share in zip(stratified_split(LABELS, SHARES, seed=3), SHARES, strict=True):
        for label, count in (("a", 700), ("b", 290), ("c", 10)):
            assert abs((LABELS[part] == label).sum() - share * count) <= 2


def test_a_seed_fixes_the_split_and_another_changes_it() -> None:
    one, same = (stratified_split(LABELS, SHARES, seed=1) for _ in range(2))
    other = stratified_split(LABELS, SHARES, seed=2)

    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert set(one[2].tolist()) != set(other[2].tolist())


def test_rows_are_in_ascending_order() -> None:
    for part in stratified_split(LABELS, SHARES, seed=0):
        assert (np.diff(part) > 0).all()


def test_arrow_columns_and_lists_give_the_same_split() -> None:
    column = pa.chunked_array([LABELS[:400].tolist(), LABELS[400:].tolist()])

    from_arrow, from_list = (stratified_split(x, SHARES, seed=0) for x in (column, LABELS.tolist()))

    assert np.array_equal(from_arrow[1], from_list[1])


def test_a_label_seen_once_stays_in_training_with_a_warning() -> None:
    labels = ["a"] * 10 + ["once"]

    with pytest.warns(UserWarning, match=r"1 label seen once stays in training.*: once\."):
        train, *_ = stratified_split(labels, SHARES, seed=0)

    assert 10 in train


@pytest.mark.parametrize("seed", range(20))
def test_every_label_is_in_training_and_no_row_is_lost(seed: int) -> None:
    labels = [f"label {number // 2}" for number in range(60)]

    parts = stratified_split(labels, (0.4, 0.3, 0.3), seed=seed)

    assert {labels[row] for row in parts[0]} == set(labels)
    assert sorted(np.concatenate(parts).tolist()) == list(range(60))


def test_tiny_data_can_be_split() -> None:
    train, test = stratified_split(["a", "a", "b", "b"], (0.5, 0.5), seed=0)

    assert len(train) + len(test) == 4


def test_folds_hold_out_every_row_once() -> None:
    held_out = []
    for train, held in folds(LABELS, 3, seed=0):
        assert not set(train) & set(held)
        assert len(train) + len(held) == 1000
        assert abs((LABELS[held] == "b").sum() - 290 / 3) < 1
        held_out.append(held)

    assert sorted(np.concatenate(held_out).tolist()) == list(range(1000))


def test_a_label_seen_once_is_a_training_row_in_every_fold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = list(folds(["a"] * 9 + ["once"], 3, seed=0))

    assert all(9 in train for train, _ in parts)


def test_a_scored_label_seen_once_is_held_out_like_the_others() -> None:
    several = pa.array([["a", "b"]] * 5 + [["a"]] * 4 + [["a", "once"]])

    for labels in (["a"] * 5 + ["b"] * 4 + ["once"], several):
        with pytest.warns(
            UserWarning, match=r"1 label seen once counts as errors in the cross.*: once\."
        ):
            parts = list(folds(labels, 3, seed=0, score_single=True))

        assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(10))
        assert sum(9 in test for _, test in parts) == 1


def test_labels_with_fewer_rows_than_folds_are_dealt_at_random_if_single_ones_are_scored() -> None:
    labels = [f"label {row // 2}" for row in range(200)]

    def lacking(*, score_single: bool) -> int:
        parts = folds(labels, 5, seed=0, score_single=score_single)
        return sum(len(set(labels)) - len({labels[row] for row in train}) for train, _ in parts)

    assert lacking(score_single=False) == 0
    assert 5 < lacking(score_single=True) < 40  # 20 expected


def test_a_label_seen_once_stays_in_training_if_the_others_could_not_be_learned_alone() -> None:
    with pytest.warns(UserWarning, match="1 label seen once stays in training and is not scored"):
        parts = list(folds(["a"] * 9 + ["once"], 3, seed=0, score_single=True))

    assert all(9 in train for train, _ in parts)


@pytest.mark.parametrize("fractions", [(), (0.8, 0.1), (1.0, 0.0), (1.5, -0.5)])
def test_fractions_must_sum_to_one(fractions: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="must be above 0 and sum to 1"):
        stratified_split(LABELS, fractions, seed=0)


def test_at_least_two_folds_and_one_row_are_needed() -> None:
    with pytest.raises(DataError, match=r"folds \(1\) must be at least 2"):
        next(folds(LABELS, 1, seed=0))
    with pytest.raises(DataError, match="no rows to split"):
        stratified_split([], SHARES, seed=0)


def test_a_held_out_fraction_is_the_second_part_of_a_stratified_split() -> None:
    rows, held_out = hold_out(LABELS, 0.25, seed=3)
    split = hold_out_validation(LABELS, 0.25, 3, apart(len(LABELS)))
    expected = stratified_split(LABELS, (0.75, 0.25), seed=3)

    for part, same in zip(
        (rows, held_out, split.train, split.validation), expected * 2, strict=True
    ):
        np.testing.assert_array_equal(part, same)


def test_too_few_texts_to_hold_any_out_are_an_error_that_names_the_source() -> None:
    with pytest.raises(DataError, match=r"a.csv: 4 texts: too few to hold out 10 % .*--test"):
        hold_out(["x", "y"] * 2, 0.1, seed=0, source="a.csv")


def test_too_few_texts_for_a_validation_set_are_used_twice_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="4 texts are too few to hold out a validation set"):
        split = hold_out_validation(["x", "y"] * 2, 0.1, 0, apart(4))

    assert split.train.tolist() == split.validation.tolist() == [0, 1, 2, 3]


def test_rows_with_several_labels_are_stratified_by_their_rarest_label() -> None:
    lists = [["common"]] * 900 + [["common", "rare"]] * 90 + [[]] * 10
    column = pa.array(lists, pa.list_(pa.string()))

    train, held_out = stratified_split(column, (0.9, 0.1), seed=0)

    rare = [lists[row].count("rare") for row in held_out]
    assert sorted([*train, *held_out]) == list(range(1000))
    assert sum(rare) in (8, 9, 10)
    assert sum(not lists[row] for row in held_out) in (0, 1, 2)


@pytest.mark.parametrize("seed", range(10))
def test_every_label_of_a_list_is_in_training(seed: int) -> None:
    # "tied" is never the rarest label of a row, so no stratum is its own.
    lists = [["a"], ["a"], ["a", "tied"], ["b"], ["b"], ["b", "tied"], ["c", "tied"], ["c"]]

    train, _ = stratified_split(pa.array(lists), (0.5, 0.5), seed=seed)

    assert {label for row in train for label in lists[row]} == {"a", "b", "c", "tied"}


GROUPS = np.random.default_rng(0).integers(0, 300, 1000)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_is_in_one_part_only(seed: int) -> None:
    parts = stratified_split(LABELS, SHARES, seed, GROUPS)

    owners = [set(GROUPS[part].tolist()) for part in parts]
    assert not owners[0] & owners[1]
    assert not owners[0] & owners[2]
    assert not owners[1] & owners[2]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    for part, share in zip(parts, SHARES, strict=True):
        assert abs(len(part) - 1000 * share) < 40


def test_groups_of_one_row_change_nothing() -> None:
    for part, same in zip(
        stratified_split(LABELS, SHARES, 3, np.arange(1000)),
        stratified_split(LABELS, SHARES, 3),
        strict=True,
    ):
        np.testing.assert_array_equal(part, same)


def test_a_group_with_most_rows_stays_in_training() -> None:
    groups = np.where(np.arange(1000) < 600, -1, np.arange(1000))

    for seed in range(10):
        _, held_out = hold_out(LABELS, 0.1, seed, groups=groups)
        assert (groups[held_out] >= 0).all()
        assert 50 < len(held_out) < 150


def test_five_large_groups_can_be_split_and_one_cannot() -> None:
    rows, held_out = hold_out(LABELS, 0.1, 0, groups=np.arange(1000) % 5)

    assert (len(rows), len(held_out)) == (800, 200)
    with (
        pytest.warns(
            UserWarning, match="seen once, or only in texts that must stay together, stay"
        ),
        pytest.raises(DataError, match=r"1,000 texts, in one set of texts .*: too few to hold out"),
    ):
        hold_out(LABELS, 0.1, 0, groups=np.zeros(1000, np.int64))


@pytest.mark.parametrize(("groups", "phrase"), [([0, 0, 0], "one set"), ([0, 0, 2], "only 2 sets")])
def test_texts_that_a_split_keeps_together_are_described(groups: list[int], phrase: str) -> None:
    described = describe_groups(np.array(groups))

    assert described == (
        f", in {phrase} of texts that must stay together (near-duplicates or a group)"
    )


def test_texts_that_a_split_can_separate_need_no_description() -> None:
    assert describe_groups(np.arange(3)) == ""


def test_folds_keep_groups_together() -> None:
    for train, held in folds(LABELS, 4, 0, GROUPS):
        assert not set(GROUPS[train]) & set(GROUPS[held])
        assert abs(len(held) - 250) < 40


def test_a_label_of_a_single_group_is_never_held_out() -> None:
    labels = ["a", "b"] * 60
    labels[10] = labels[12] = "rare"  # a minority of a group that counts for another label
    groups = np.arange(120) // 10

    with pytest.warns(UserWarning, match="1 label seen once, or only in .* not scored: rare"):
        all_folds = list(folds(labels, 5, 0, groups))
    with pytest.warns(UserWarning, match="or only in texts that must .* not scored: rare"):
        parts = [stratified_split(labels, (0.8, 0.2), seed, groups)[1] for seed in range(20)]

    held_out = np.concatenate([*parts, *(test for _, test in all_folds)])
    assert not np.isin([10, 12], held_out).any()
    assert np.isin([20, 119], held_out).all()


def test_the_newest_rows_are_held_out() -> None:
    times = np.random.default_rng(1).permutation(1000).astype(float)

    rows, held_out = hold_out(LABELS, 0.1, 0, times=times)

    assert len(held_out) == 100
    assert times[held_out].min() > times[rows].max()


def test_a_group_is_as_old_as_its_oldest_row() -> None:
    times = np.arange(1000.0)
    groups = np.arange(1000)
    groups[999] = 0

    rows, _ = hold_out(LABELS, 0.1, 0, times=times, groups=groups)

    assert 999 in rows


def test_too_few_groups_to_hold_one_out_are_divided_with_a_warning() -> None:
    texts = [f"{chr(97 + row // 26)}{chr(97 + row % 26)}" for row in range(60)]
    customers = [("one", "two", "three")[row % 3] for row in range(60)]
    groups = TextGroups(pa.chunked_array([texts]), pa.chunked_array([customers]))

    with pytest.warns(UserWarning, match="3 groups are too few to hold one out"):
        split = hold_out_validation(["x", "y"] * 30, 0.1, 0, groups)

    assert len(split.validation) == 6
    assert not {*split.train} & {*split.validation}
    assert len(split.train) == 54


def test_many_copies_of_a_few_texts_are_too_few_to_hold_any_out() -> None:
    groups = TextGroups(pa.chunked_array([["one", "two", "three"] * 20]))

    with pytest.warns(
        UserWarning, match="^3 distinct texts are too few to hold out a validation set"
    ):
        split = hold_out_validation(["x", "y"] * 30, 0.1, 0, groups)

    assert split.train.tolist() == split.validation.tolist() == [*range(60)]


def test_labels_of_one_group_each_are_held_out_without_saying_that_they_are_not() -> None:
    groups = TextGroups(
        pa.chunked_array([[f"{chr(97 + row // 26)}{chr(97 + row % 26)}" for row in range(60)]]),
        pa.chunked_array([["one", "two"] * 30]),
    )

    with pytest.warns(UserWarning, match="2 groups are too few") as caught:
        split = hold_out_validation(["x", "y"] * 30, 0.1, 0, groups)

    assert len(split.validation) == 6
    assert len(caught) == 1


def test_labels_that_occur_once_are_named_when_texts_are_held_out() -> None:
    with pytest.warns(UserWarning, match="1 label seen once .*: z"):
        split = hold_out_validation(["x", "y"] * 10 + ["z"], 0.1, 0, apart(21))

    assert 20 in split.train


def test_many_labels_seen_once_are_counted_and_five_of_them_named() -> None:
    labels = [*("x", "y") * 20, *(f"rare{number}" for number in range(8))]

    named = r"(\w+, ){4}\w+ and 3 more"
    message = f"8 labels seen once count as errors in the cross-validation: {named}"
    with pytest.warns(UserWarning, match=message):
        list(folds(labels, 5, 0, score_single=True))
