import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamatext.data.token_ids import FramedTexts
from lamatext.ngrams import compiled_lookup as module
from lamatext.ngrams.compiled_lookup import CompiledTable, compiled_lookup
from lamatext.ngrams.hashing import STEP, NgramSpec, count_ngrams
from lamatext.ngrams.model import NgramModel, NgramTable

SPECS = [NgramSpec(1, None), NgramSpec(3, None), NgramSpec(0, (2, 5)), NgramSpec(2, (1, 3))]
WORDS = st.text(min_size=1, max_size=9) | st.sampled_from(
    ["a", "film", "é", "\ud800", "\U0001f600"]
)
TEXTS = st.lists(st.lists(WORDS, max_size=12), min_size=1, max_size=6)
compiled = pytest.mark.skipif(
    compiled_lookup() is None, reason="ngram_lookup.c is not compiled here"
)


def table_of(texts: list[list[str]], spec: NgramSpec, rows: int = 3) -> NgramTable:
    """Return a table of two thirds of the n-grams of the texts, with random weights."""
    random = np.random.default_rng(0)
    keys = np.unique(count_ngrams(texts, spec).keys)
    keys = keys[random.random(len(keys)) < 2 / 3]
    return NgramTable(
        spec,
        keys,
        random.integers(1, 256, len(keys)).astype(np.uint8),
        random.integers(-127, 128, (rows, len(keys))).astype(np.int8),
        np.array([0.03], np.float32),
        random.random(rows, np.float32),
    )


def compiled_logits(table: NgramTable, texts: list[list[str]]) -> np.ndarray:
    code = compiled_lookup()
    assert code is not None
    return table.compiled_logits(code, FramedTexts.of(texts))


@compiled
@pytest.mark.parametrize("spec", SPECS, ids=str)
@settings(max_examples=40, deadline=None)
@given(texts=TEXTS, others=TEXTS)
def test_compiled_logits_equal_those_of_numpy(
    spec: NgramSpec, texts: list[list[str]], others: list[list[str]]
) -> None:
    table = table_of(texts, spec)

    logits = compiled_logits(table, [*texts, *others, []])

    expected = table.logits([*texts, *others, []])  # summed in float64
    np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)


@compiled
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_text_has_the_same_logits_alone_and_in_a_batch_bit_for_bit(spec: NgramSpec) -> None:
    random = np.random.default_rng(1)
    words = [f"w{number}" for number in range(300)]
    texts = [random.choice(words, size).tolist() for size in (1, 2, 40, 0, 700)]
    table = table_of(texts, spec)

    together = compiled_logits(table, texts)

    assert together[[2, 4]].any(axis=1).all()
    for text, logits in zip(texts, together, strict=True):
        np.testing.assert_array_equal(compiled_logits(table, [text])[0], logits)


MASK = 2**32 - 1
KEYS = {
    "first and last": [0, MASK],
    "all but the last": [0, MASK - 1],
    "at the beginning": [*range(0, 3000, 2)],
    "at the end": [*range(MASK - 3000, MASK + 1, 2)],
    "in one place": [*range(1 << 31, (1 << 31) + 5000, 2)],
    "everywhere": np.unique(np.random.default_rng(0).integers(0, 1 << 32, 5000)).tolist(),
}


def unmix(key: int) -> int:
    """Return the number whose hash, as of ``hashing.mix``, is the key."""
    key ^= key >> 16
    key = key * pow(0xC2B2AE35, -1, 1 << 32) & MASK
    key ^= key >> 13 ^ key >> 26
    key = key * pow(0x85EBCA6B, -1, 1 << 32) & MASK
    return key ^ key >> 16


@compiled
@pytest.mark.parametrize("name", KEYS)
def test_keys_are_found_wherever_they_lie(name: str) -> None:
    random, known = np.random.default_rng(0), np.array(KEYS[name], np.uint32)
    rows = 6
    weights = random.integers(1, 128, (rows, len(known))).astype(np.int8)
    idf, steps = np.full(len(known), 255, np.uint8), np.ones(rows, np.float32)
    spec = NgramSpec(0, (1, 1))
    table = NgramTable(spec, known, idf, weights, np.ones(1, np.float32), steps)
    wanted = sorted({0, 1, MASK - 1, MASK, *KEYS[name], *((key + 1) & MASK for key in KEYS[name])})
    points = [(unmix(key) - STEP) & MASK for key in wanted]  # a text has one code point
    bounds = np.arange(len(points) + 1)
    framed = FramedTexts(np.array(points, np.uint32), np.ones(len(points), np.int64), bounds)
    code = compiled_lookup()
    assert code is not None

    logits = table.compiled_logits(code, framed)

    by_key = dict(zip(KEYS[name], weights.T.astype(np.float32), strict=True))
    expected = [by_key.get(key, np.zeros(rows, np.float32)) for key in wanted]
    np.testing.assert_array_equal(logits, np.stack(expected))


@compiled
def test_a_pickled_table_is_compiled_again() -> None:
    texts = [["a", "fine", "film"]]
    table = table_of(texts, NgramSpec(2, None))
    expected = compiled_logits(table, texts)

    again = pickle.loads(pickle.dumps(table))

    assert again.compiled is None
    np.testing.assert_array_equal(compiled_logits(again, texts), expected)


@compiled
def test_an_empty_table_adds_nothing() -> None:
    table = table_of([["a", "film"]], NgramSpec(2, None))
    empty = replace(table, keys=table.keys[:0], idf=table.idf[:0], weights=table.weights[:, :0])

    assert not compiled_logits(empty, [["a", "film"], []]).any()
    np.testing.assert_array_equal(empty.logits([["a", "film"], []]), np.zeros((2, 3)))
    np.testing.assert_array_equal(empty.contributions(["a", "film"]), np.zeros((3, 2)))


@compiled
def test_arrays_at_any_address_are_read() -> None:
    texts = [["a", "fine", "film"], ["film"]]
    table = table_of(texts, NgramSpec(2, (1, 3)))
    shifted = np.frombuffer(b"?" + table.keys.tobytes(), np.uint32, offset=1)
    assert not shifted.flags.aligned

    logits = compiled_logits(replace(table, keys=shifted), texts)

    np.testing.assert_array_equal(logits, compiled_logits(table, texts))


@compiled
def test_arrays_of_different_sizes_are_refused() -> None:
    table = table_of([["a", "fine", "film"]], NgramSpec(2, None))

    with pytest.raises(ValueError, match="differ in size"):
        compiled_logits(replace(table, idf=table.idf[1:]), [["a"]])


@compiled
def test_texts_with_other_lengths_than_given_are_refused() -> None:
    table, code = table_of([["a", "film"]], NgramSpec(2, None)), compiled_lookup()
    assert code is not None
    arrays = (table.keys, table.idf, table.weights, table.idf_step, table.steps)
    texts = FramedTexts.of([["a", "film"]])

    with pytest.raises(ValueError, match="other lengths than given"):
        CompiledTable(code, table.spec, arrays).logits(texts._replace(points=texts.points[1:]))


def test_without_compiled_code_numpy_computes_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [["a", "fine", "film"], ["film"], []]
    tables = (table_of(texts, NgramSpec(2, None)), table_of(texts, NgramSpec(0, (2, 5))))
    ngrams = NgramModel(tables, np.array([0.1, 0.2, 0.3], np.float32))
    expected = ngrams.logits(texts)

    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert compiled_lookup.__wrapped__() is None
    monkeypatch.setattr("lamatext.ngrams.model.compiled_lookup", lambda: None)

    np.testing.assert_allclose(ngrams.logits(texts), expected, rtol=1e-6, atol=1e-6)
