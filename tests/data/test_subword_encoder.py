"""The subwords of a pretrained encoder."""

import json

import numpy as np
import pytest

from lamatext.data.text_encoder import CHUNK, SubwordEncoder
from lamatext.errors import ModelError

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra bert")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "film", "##s"]


@pytest.fixture
def tokenizer_json() -> str:
    """A BERT tokenizer that pads and cuts to 128, as some published ones do."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer({word: place for place, word in enumerate(WORDS)})
    tokenizer.enable_padding(length=128)
    tokenizer.enable_truncation(128)
    text: str = tokenizer.to_str()
    return text


def test_a_text_is_its_subwords_between_two_special_tokens(tokenizer_json: str) -> None:
    encoder = SubwordEncoder.from_json(tokenizer_json)

    rows = encoder.encode(["A good film", "films"])

    assert rows[0].tolist() == [2, 4, 5, 6, 3]
    assert rows[1].tolist() == [2, 6, 7, 3]
    assert rows.ids.dtype == np.int32


def test_spans_refer_to_the_original_text(tokenizer_json: str) -> None:
    encoder, text = SubwordEncoder.from_json(tokenizer_json), "  Göod  FILMS, a"

    ids, spans = encoder.encode_with_spans(text)

    assert ids.tolist() == [2, 5, 6, 7, 1, 4, 3]
    assert [text[start:end] for start, end in spans] == ["", "Göod", "FILM", "S", ",", "a", ""]


def test_both_ways_of_encoding_give_the_same_ids(tokenizer_json: str) -> None:
    encoder = SubwordEncoder.from_json(tokenizer_json, max_words=4)

    for text in ("a good film", "", "🙂 film 🙂", "\ud800 good"):
        assert encoder.encode([text])[0].tolist() == encoder.encode_with_spans(text)[0].tolist()


def test_an_empty_text_has_its_special_tokens(tokenizer_json: str) -> None:
    assert SubwordEncoder.from_json(tokenizer_json).encode([""])[0].tolist() == [2, 3]


def test_a_lone_surrogate_does_not_shift_the_spans(tokenizer_json: str) -> None:
    ids, spans = SubwordEncoder.from_json(tokenizer_json).encode_with_spans("\ud800 good")

    assert ids.tolist() == [2, 1, 5, 3]
    assert spans[1:3] == [(0, 1), (2, 6)]


def test_the_length_limit_includes_special_tokens_and_survives_saving(tokenizer_json: str) -> None:
    encoder = SubwordEncoder.from_json(tokenizer_json, max_words=4)
    again = SubwordEncoder.from_json(encoder.to_json())

    assert SubwordEncoder.from_json(tokenizer_json).max_words == 128
    for one in (encoder, again):
        assert one.max_words == 4
        assert one.encode(["a good film film"])[0].tolist() == [2, 4, 5, 3]
    assert json.loads(encoder.to_json())["padding"] is None


def test_the_order_is_kept_for_more_texts_than_a_chunk(tokenizer_json: str) -> None:
    texts = ["good" if number % 3 else "film" for number in range(CHUNK + 5)]

    rows = SubwordEncoder.from_json(tokenizer_json).encode(iter(texts))

    assert len(rows) == len(texts)
    assert [int(rows[i][1]) for i in range(len(rows))] == [
        5 if i % 3 else 6 for i in range(len(rows))
    ]


def test_its_length_is_the_number_of_subwords(tokenizer_json: str) -> None:
    assert len(SubwordEncoder.from_json(tokenizer_json)) == len(WORDS)


def test_a_damaged_tokenizer_is_a_named_error(tokenizer_json: str) -> None:
    damaged = json.loads(tokenizer_json)
    damaged["model"]["unk_token"] = "[NO]"
    encoder = SubwordEncoder.from_json(json.dumps(damaged))

    for encode in (lambda: encoder.encode(["strange"]), lambda: encoder.encode_with_spans("no")):
        with pytest.raises(ModelError, match=r"tokenizer\.json: damaged, a text cannot be split"):
            encode()
