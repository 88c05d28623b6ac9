import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamatext.data.token_ids import CLOSE, OPEN
from lamatext.ngrams.hashing import PRECOMPUTED, NgramSpec, count_ngrams, hash_ngrams

MASK = 0xFFFFFFFF
BASE = 2654435761
SPECS = [NgramSpec(1, None), NgramSpec(3, None), NgramSpec(2, (2, 5)), NgramSpec(0, (1, 3))]
TEXTS = st.lists(st.lists(st.text(min_size=1, max_size=9), max_size=8), max_size=6)


def scatter(h: int) -> int:
    h = (h ^ (h >> 16)) * 0x85EBCA6B & MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & MASK
    return h ^ (h >> 16)


def roll(values: list[int], start: int = 0) -> int:
    total = 0
    for value in values:
        total = (total * BASE + value) & MASK
    return scatter((total + start) & MASK)


def ngrams_by_hand(words: list[str], spec: NgramSpec) -> list[tuple[int, int, int]]:
    """Every (key, first word, words covered), one n-gram at a time."""
    found = []
    framed = [[ord(c) for c in OPEN + word + CLOSE] for word in words]
    hashes = [scatter(sum(c * BASE**i for i, c in enumerate(points)) & MASK) for points in framed]
    for n in range(1, spec.words + 1):
        runs = [hashes[i : i + n] for i in range(len(words) - n + 1)]
        found += [(run[0] if n == 1 else roll(run), i, n) for i, run in enumerate(runs)]
    shortest, longest = spec.chars or (1, 0)
    for n in range(shortest, longest + 1):
        for i, points in enumerate(framed):
            runs = [points[at : at + n] for at in range(len(points) - n + 1)]
            found += [(roll(run, n * 0x9E3779B9), i, 1) for run in runs]
    return found


@pytest.mark.parametrize("spec", SPECS, ids=str)
@settings(max_examples=30, deadline=None)
@given(texts=TEXTS)
def test_every_ngram_is_the_one_found_by_a_plain_loop(
    spec: NgramSpec, texts: list[list[str]]
) -> None:
    for words in texts:
        found = hash_ngrams(words, spec)

        seen = list(zip(*(column.tolist() for column in found), strict=True))
        assert sorted(seen) == sorted(ngrams_by_hand(words, spec))


@pytest.mark.parametrize("spec", SPECS, ids=str)
@settings(max_examples=30, deadline=None)
@given(texts=TEXTS)
def test_counting_many_texts_is_counting_each_alone(
    spec: NgramSpec, texts: list[list[str]]
) -> None:
    together = count_ngrams(texts, spec)

    assert len(together.offsets) == len(texts) + 1
    for i, words in enumerate(texts):
        own = slice(together.offsets[i], together.offsets[i + 1])
        keys = [key for key, _, _ in ngrams_by_hand(words, spec)]
        assert together.keys[own].tolist() == sorted(set(keys))
        assert together.counts[own].tolist() == [keys.count(key) for key in sorted(set(keys))]


def test_the_chunks_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [["a", "fine", "film"], [], ["a", "fine", "fine", "day"], ["no"]]
    whole = count_ngrams(texts, NgramSpec(2, (2, 4)))

    monkeypatch.setattr("lamatext.ngrams.hashing.CHUNK", 1)
    pieces = count_ngrams(iter(texts), NgramSpec(2, (2, 4)))

    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("more", [-3, -2, -1, 4 * PRECOMPUTED])
def test_a_word_of_any_length_is_hashed_whole(more: int) -> None:
    words = ["a", "x" * (PRECOMPUTED + more - 1) + "y", "film"]

    found = hash_ngrams(words, NgramSpec(2, None))

    seen = list(zip(*(column.tolist() for column in found), strict=True))
    assert sorted(seen) == sorted(ngrams_by_hand(words, NgramSpec(2, None)))


def test_keys_stay_what_saved_models_hold() -> None:
    found = hash_ngrams(["the", "naïve", "🙂"], NgramSpec(2, (3, 3)))

    assert found.keys[:5].tolist() == [3263613692, 3619915500, 1241699042, 1152236881, 3458305350]


def test_no_two_words_of_a_large_vocabulary_share_a_key() -> None:
    words = [f"{stem}{ending}" for stem in range(1000) for ending in ("a", "b", "ab", "ba", "aa")]

    keys = hash_ngrams(words, NgramSpec(1, None)).keys

    assert len(np.unique(keys)) == len(words)
