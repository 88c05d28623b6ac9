"""Counting the n-grams of tokenized texts, compared with counting those of lists of words."""

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.tokenizer import TokenizedTexts, WordTokenizer, tokenize
from lamatext.ngrams.fitting import MAX_COUNT, count_tokens
from lamatext.ngrams.hashing import NgramSpec, count_ngrams


def tokenized(*texts: str) -> TokenizedTexts:
    return tokenize(pa.chunked_array([list(texts)], pa.string()), WordTokenizer())


@pytest.mark.parametrize(
    "spec", [NgramSpec(3, None), NgramSpec(2, (2, 5)), NgramSpec(0, (1, 3)), NgramSpec(1, None)]
)
def test_the_counts_are_those_of_the_words_of_each_text(spec: NgramSpec) -> None:
    texts = tokenized("good good good film", "", "a", "ein schöner Film 映画", "good film " * 40)
    words = texts.words(np.arange(5))

    counted, expected = count_tokens(texts, spec), count_ngrams(words, spec)

    np.testing.assert_array_equal(counted.keys, expected.keys)
    np.testing.assert_array_equal(counted.counts, expected.counts)
    np.testing.assert_array_equal(counted.offsets, expected.offsets)


def test_counts_end_at_the_largest_16_bit_number() -> None:
    counted = count_tokens(tokenized("a " * (MAX_COUNT + 10)), NgramSpec(1, None))

    assert counted.counts.tolist() == [MAX_COUNT]


def test_no_texts_have_no_n_grams() -> None:
    counted = count_tokens(tokenized(), NgramSpec(2, (2, 3)))

    assert len(counted.keys) == 0
    assert counted.offsets.tolist() == [0]
