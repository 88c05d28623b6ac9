import numpy as np
import pytest

from lamatext.data.token_ids import PAD, TokenIds

ROWS = [[5, 6, 7], [8], [9, 4]]


def test_indexing_returns_the_ids_of_each_text() -> None:
    ragged = TokenIds.from_lists(ROWS)

    assert [ragged[i].tolist() for i in range(len(ragged))] == ROWS
    assert ragged.lengths.tolist() == [3, 1, 2]
    assert ragged.ids.dtype == np.int32
    assert ragged.offsets.dtype == np.int64


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 1], [0, 1, 2], []])
def test_take_returns_the_rows_in_the_requested_order(rows: list[int]) -> None:
    taken = TokenIds.from_lists(ROWS).take(np.array(rows, np.int64))

    assert [taken[i].tolist() for i in range(len(taken))] == [ROWS[row] for row in rows]


def test_pad_fills_on_the_right_up_to_the_longest_text() -> None:
    ids, lengths = TokenIds.from_lists(ROWS).pad(np.array([2, 0]))

    assert ids.tolist() == [[9, 4, PAD], [5, 6, 7]]
    assert lengths.tolist() == [2, 3]
    assert ids.dtype == lengths.dtype == np.int32


def test_token_ids_of_no_texts_are_empty() -> None:
    empty = TokenIds.from_lists([])

    assert len(empty) == 0
    assert empty.ids.dtype == np.int32


def test_filter_removes_token_ids_and_keeps_the_number_of_texts() -> None:
    rows = TokenIds.from_lists([[5, 6], [6], [7, 5]])

    assert [row.tolist() for row in map(rows.filter(rows.ids != 6).__getitem__, range(3))] == [
        [5],
        [],
        [7, 5],
    ]
