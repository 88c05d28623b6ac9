import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.text_encoder import TextEncoder
from lamatext.data.token_ids import FIRST_WORD, UNK
from lamatext.data.tokenizer import WordTokenizer, tokenize
from lamatext.data.vocabulary import RareWords, Vocabulary

TEXTS = [
    "The film, the film!",
    "",
    "unknown words only",
    "Ça va? cafe\u0301 caf\u00e9 👍🏽 <b>the</b>\r\nfilm",
    "the " * 7,
]
VOCABULARY = Vocabulary(["the", "film", "cafe\u0301", "👍🏽", "<"])


@pytest.mark.parametrize("rare", ["drop", "unknown"])
@pytest.mark.parametrize("max_words", [None, 3])
def test_all_ways_of_encoding_give_the_same_ids(rare: RareWords, max_words: int | None) -> None:
    encoder = TextEncoder(WordTokenizer(), VOCABULARY, rare, max_words)
    column = pa.chunked_array([TEXTS[:2], TEXTS[2:]], pa.large_string())

    one_by_one = [encoder.encode_with_spans(text)[0].tolist() for text in TEXTS]
    together = encoder.encode(TEXTS)
    by_types = tokenize(column, WordTokenizer()).encode(
        VOCABULARY, rare_words=rare, max_words=max_words
    )

    for row, ids in enumerate(one_by_one):
        assert together[row].tolist() == by_types[row].tolist() == ids
        assert 1 <= len(ids) <= (max_words or len(ids))


def test_spans_point_to_the_word_of_each_id_in_the_original_text() -> None:
    encoder = TextEncoder(WordTokenizer(), VOCABULARY)

    for text in TEXTS:
        ids, spans = encoder.encode_with_spans(text)
        for number, (start, end) in zip(ids, spans, strict=True):
            if number != UNK:
                assert text[start:end].lower() == VOCABULARY.words[number]


def test_a_text_without_known_words_is_one_unknown_word_with_an_empty_span() -> None:
    ids, spans = TextEncoder(WordTokenizer(), VOCABULARY).encode_with_spans("quite unheard of")

    assert ids.tolist() == [UNK]
    assert spans == [(0, 0)]


def test_spans_are_right_for_ten_thousand_words_of_many_scripts() -> None:
    words = ["The", "cafe\u0301", "👍🏽", "<", "zzz"]
    chosen = np.random.default_rng(0).integers(0, 5, 10_000)
    text = "".join(words[i] + " \n"[n % 7 == 0] for n, i in enumerate(chosen))

    ids, spans = TextEncoder(WordTokenizer(), VOCABULARY, "unknown").encode_with_spans(text)

    assert [text[start:end] for start, end in spans] == [words[i] for i in chosen]
    expected = np.array([FIRST_WORD, FIRST_WORD + 2, FIRST_WORD + 3, FIRST_WORD + 4, UNK])
    np.testing.assert_array_equal(ids, expected[chosen])


def test_words_are_counted_in_the_requested_rows_only() -> None:
    tokens = tokenize(pa.chunked_array([TEXTS], pa.large_string()), WordTokenizer())

    counts = dict(zip(tokens.types, tokens.counts(np.array([0, 4])), strict=True))

    assert counts["the"] == 9
    assert counts["film"] == 2
    assert counts["unknown"] == 0
