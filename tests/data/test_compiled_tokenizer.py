import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lamatext.data import compiled_tokenizer as module
from lamatext.data.compiled_tokenizer import CompiledTokenizer, compiled_tokenizer
from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import EncodedTexts, FramedTexts
from lamatext.data.tokenizer import WordTokenizer
from lamatext.data.vocabulary import RareWords, Vocabulary

compiled = pytest.mark.skipif(
    compiled_tokenizer() is None, reason="word_tokenizer.c is not compiled here"
)
ASCII = "".join(map(chr, range(128)))
KNOWN = [
    "film",
    "a",
    "it's",
    "rock'n'roll",
    "'",
    "\x00",
    "_",
    "naïve",
    "東",
    "😀",
    "\ud800",
    "",
    "x1",
]
PIECES = [
    *KNOWN,
    "Film",
    "IT'S",
    "''",
    "a'",
    "'b",
    " ",
    "\n",
    "\x1c",
    "\x7f",
    "é",
    "ΣΑΣ",
    "İ",
    "ไทย",
]
TEXT = (
    st.text(alphabet=ASCII, max_size=60)
    | st.text(max_size=30)
    | st.lists(st.sampled_from(PIECES), max_size=20).map("".join)
)


def encoder(
    known: list[str] = KNOWN,
    rare_words: RareWords = "drop",
    max_words: int | None = None,
    last_words: int = 0,
    *,
    lower: bool = True,
    version: int = 2,
) -> TextEncoder:
    tokenizer = WordTokenizer(lower=lower, version=version)
    return TextEncoder(tokenizer, Vocabulary(known), rare_words, max_words, last_words)


def assert_equals_python(encoder: TextEncoder, texts: list[str]) -> None:
    result = encoder.encode_all(texts, framed=True)

    expected = encoder.encode_all(texts, framed=False)
    assert not isinstance(expected.words, FramedTexts)
    assert isinstance(result.words, FramedTexts)
    for array, other in zip(arrays_of(result), arrays_of(expected), strict=True):
        np.testing.assert_array_equal(array, other)
        assert array.dtype == other.dtype


def arrays_of(encoded: EncodedTexts) -> list[np.ndarray]:
    words = encoded.words
    framed = words if isinstance(words, FramedTexts) else FramedTexts.of(words)
    counts = (encoded.word_counts, encoded.known_counts)
    return [encoded.ids.ids, encoded.ids.offsets, *framed, *counts]


@compiled
@settings(max_examples=400, deadline=None)
@given(
    texts=st.lists(TEXT, max_size=5),
    rare_words=st.sampled_from(["drop", "unknown"]),
    limits=st.none() | st.tuples(st.integers(0, 3), st.integers(0, 4)),
    lower=st.booleans(),
    version=st.sampled_from([1, 2]),
)
@example(texts=[ASCII, "A'b'C 'd' e'' f"], rare_words="drop", limits=None, lower=True, version=2)
def test_compiled_ids_and_words_equal_those_of_python(
    texts: list[str],
    rare_words: RareWords,
    limits: tuple[int, int] | None,
    lower: bool,
    version: int,
) -> None:
    max_words, last_words = (None, 0) if limits is None else (sum(limits), limits[1])

    assert_equals_python(
        encoder(KNOWN, rare_words, max_words, last_words, lower=lower, version=version), texts
    )


@compiled
def test_every_pair_and_triple_of_kinds_of_characters_is_split_as_in_python() -> None:
    kinds = "aZ0_'. \t\x1f\x0b\x00é"
    pairs = [first + second for first in ASCII for second in ASCII]
    triples = [a + b + c + d for a in kinds for b in kinds for c in kinds for d in kinds]

    assert_equals_python(encoder(), pairs)
    assert_equals_python(encoder(), triples)


@compiled
@pytest.mark.parametrize("known", [0, 1, 2, 3, 4, 7, 8, 5000])
def test_every_word_of_a_vocabulary_is_found(known: int) -> None:
    words = [f"w{number}" for number in range(known)]

    result = encoder(words).encode_all([*words, "w", "w5001"], framed=True)

    assert result.ids.ids.tolist() == [*range(2, known + 2), 1, 1]
    assert result.known_counts.tolist() == [1] * known + [0, 0]
    assert_equals_python(encoder(words), [" ".join(words)])


@compiled
def test_words_that_begin_with_each_other_are_told_apart() -> None:
    words = ["a" * length for length in range(1, 300)]

    assert_equals_python(encoder(words), [" ".join(words), " ".join(reversed(words)), "a" * 301])


@compiled
def test_a_long_text_and_a_long_word_are_encoded() -> None:
    long = [("a film " * 40_000), "x" * 300_000, "é" * 100_000, "'" * 100_000, "a'" * 100_000]

    assert_equals_python(encoder(KNOWN, "unknown", 400, 300), long)


@compiled
def test_no_texts_are_no_rows() -> None:
    assert_equals_python(encoder(), [])


@compiled
def test_several_threads_may_use_one_tokenizer() -> None:
    shared = encoder()
    texts = [["a film", "naïve rock'n'roll " * number] for number in range(60)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda part: shared.encode_all(part, framed=True), texts))

    for part, result in zip(texts, results, strict=True):
        expected = arrays_of(shared.encode_all(part, framed=False))
        for array, other in zip(arrays_of(result), expected, strict=True):
            np.testing.assert_array_equal(array, other)


@compiled
def test_a_pickled_encoder_is_compiled_again() -> None:
    first = encoder()
    first.encode_all(["a film"], framed=True)

    again = pickle.loads(pickle.dumps(first))

    assert again.compiled is None
    assert_equals_python(again, ["a film"])


@compiled
def test_more_last_words_than_words_are_refused_and_left_to_python() -> None:
    code = compiled_tokenizer()
    assert code is not None
    with pytest.raises(ValueError, match="at most 3 last words, got 4"):
        CompiledTokenizer(
            code, WordTokenizer(), Vocabulary(["a"]), "drop", max_words=3, last_words=4
        )

    assert encoder(KNOWN, "drop", 3, 4)._compiled_tokenizer() is None


def test_without_compiled_code_python_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert compiled_tokenizer.__wrapped__() is None
    monkeypatch.setattr("lamatext.data.text_encoder.compiled_tokenizer", lambda: None)

    result = encoder().encode_all(["A film?", "naïve"], framed=True)

    assert result.words == [["a", "film", "?"], ["naïve"]]
    assert result.ids.ids.tolist() == [3, 2, 9]
    assert (result.word_counts.tolist(), result.known_counts.tolist()) == ([3, 1], [2, 1])
