import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lamatext.data import duplicates
from lamatext.data.duplicates import TextGroups, are_shared, group_rows, text_keys

WORDS = [f"w{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst"]


def column(texts: list[str], chunk: int = 7) -> pa.ChunkedArray:
    parts = [texts[start : start + chunk] for start in range(0, len(texts), chunk)]
    return pa.chunked_array([pa.array(part, pa.large_string()) for part in parts])


def groups_of(texts: list[str]) -> list[int]:
    return [int(group) for group in group_rows(column(texts))]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Hello, World 12!", "hello world"),
        ("Great film.", "GREAT FILM"),
        ("order 4711 is late", "order 4712 is late"),
        ("ticket AB4711 is late", "ticket AB4712 is late"),
        ("w17 w4, w9", "W17 w4 w9!"),
        ("e-mail", "email"),
        ("Größe: 5 €", "größe €"),
        ("我的订单,还没有到", "我的订单还没有到！"),
        ("😀 nice", "nice 😀".replace("nice 😀", "😀  NICE")),
    ],
)
def test_texts_that_are_equal_without_case_punctuation_and_digits_are_duplicates(
    first: str, second: str
) -> None:
    assert groups_of(["something else", first, "another one", second]) == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("12345", "67890"),
        ("w1 w2 w3", "w4 w5 w6"),
        ("covid19", "covid20"),
        ("!!!", "???"),
        ("😀", "😡"),
        ("a b", "a c"),
        ("", "a"),
        ("", ""),
    ],
)
def test_other_texts_are_not_duplicates(first: str, second: str) -> None:
    assert groups_of([first, second]) == [0, 1]


def jaccard(first: str, second: str) -> float:
    sets = []
    for text in (first, second):
        words = text.split()
        sets.append({tuple(words[i : i + 3]) for i in range(len(words) - 2)})
    return len(sets[0] & sets[1]) / max(len(sets[0] | sets[1]), 1)


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_grouped_like_all_pairs_with_a_jaccard_index_of_at_least_0_9(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    for _ in range(60):
        words = rng.choice(WORDS, rng.integers(5, 80)).tolist()
        texts.append(" ".join(words))
        for _ in range(rng.integers(0, 4)):
            changed = list(words)
            for at in rng.integers(0, len(words), rng.integers(0, 3)):
                changed[at] = rng.choice(WORDS)
            texts.append(" ".join([*changed, *rng.choice(WORDS, rng.integers(0, 3))]))
    expected = list(range(len(texts)))
    for i, first in enumerate(texts):
        for j in range(i):
            if jaccard(first, texts[j]) >= 0.9:
                old, new = expected[i], expected[j]
                low, high = min(old, new), max(old, new)
                expected = [low if group == high else group for group in expected]

    assert groups_of(texts) == expected
    assert len(set(expected)) < len(texts) - 20


def test_rows_with_the_same_value_are_grouped_together_with_duplicates() -> None:
    texts = column(["one text", "two words", "Two words!", "other", "last"])
    values = pa.chunked_array([["x", "y", "", "x", ""]])

    assert group_rows(texts, values).tolist() == [0, 1, 1, 0, 4]


def test_groups_do_not_depend_on_how_the_column_is_divided_into_chunks() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[:9], 12)) for _ in range(200)] * 2

    assert group_rows(column(texts, 3)).tolist() == group_rows(column(texts, 400)).tolist()


def test_test_texts_with_duplicates_in_training_are_found() -> None:
    shared = are_shared(column(["A film.", "b"]), column(["a film", "c", "B!"]))

    assert shared.tolist() == [True, False, True]


def test_time_does_not_explode_with_texts_from_one_template() -> None:
    rng = np.random.default_rng(0)
    common = " ".join(rng.choice(WORDS, 60))
    texts = [f"dear {a} {b} {common}" for a, b in rng.choice(WORDS, (4000, 2))]

    started = time.process_time()
    groups = group_rows(column(texts, 1000))

    assert len(set(groups.tolist())) == 1
    assert time.process_time() - started < 10


def random_texts(alphabet: str, count: int = 300) -> pa.Array:
    draw = np.random.default_rng(0)
    letters = list(alphabet)
    texts = ["".join(draw.choice(letters, draw.integers(0, 12))) for _ in range(count)]
    return pa.array(texts, pa.string())


ASCII = "".join(map(chr, range(128)))


@pytest.mark.parametrize("alphabet", [ASCII, ASCII + "äÉß–…東京٣" * 4])
@pytest.mark.parametrize("removed", [duplicates._REMOVED, duplicates._REMOVED_FROM_CODES])
def test_ascii_texts_are_normalized_like_texts_in_unicode(alphabet: str, removed: str) -> None:
    texts = random_texts(alphabet)

    found = duplicates._normalize(texts, removed).to_pylist()
    expected = duplicates._normalize_unicode(texts, removed).to_pylist()

    assert [text.split() for text in found] == [text.split() for text in expected]


@pytest.mark.parametrize("alphabet", ["a1", "a1 -", "aé1٣"])
def test_letters_before_digits_are_counted_like_a_regular_expression_counts_them(
    alphabet: str,
) -> None:
    texts = random_texts(alphabet).slice(7, 250)

    found = duplicates._count_codes(texts)

    expected = pc.count_substring_regex(texts, pattern=duplicates._CODE).to_pylist()
    assert found.tolist() == expected
    assert max(expected) > 1


def test_text_keys_are_polynomials_of_the_bytes_modulo_2_to_the_64() -> None:
    texts = [*random_texts("abC ").to_pylist()[:40], "", "  ", "x" * 300]
    multiplier = int(duplicates._MULTIPLIERS[3])

    def by_the_book(text: str) -> int:
        letters = text.lower().replace(" ", "").encode()
        codes = [int(duplicates._BYTE_CODES[byte]) for byte in letters]
        total = sum(code * multiplier ** (i + 1) for i, code in enumerate(codes)) % 2**64
        return int(duplicates._mix(np.array([total], np.uint64))[0]) if letters else 0

    assert text_keys(pa.array(texts)).tolist() == [by_the_book(text) for text in texts]


def test_duplicates_count_once_among_the_given_texts() -> None:
    texts = TextGroups(
        pa.chunked_array([["one film", "two films", "One film!", "", "", "two films"]])
    )

    assert texts.count_distinct(np.array([0, 2])) == 1
    assert texts.count_distinct(np.array([0, 1, 3, 4])) == 4  # empty texts are no duplicates
    assert texts.count_distinct(np.arange(6)) == 4
