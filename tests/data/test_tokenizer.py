import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lamatext.data.tokenizer import (
    SpacyTokenizer,
    TokenizedTexts,
    Tokenizer,
    WordTokenizer,
    is_unspaced,
    make_tokenizer,
    tokenize,
)

CASES = [
    ("A fine film.", ["a", "fine", "film", "."]),
    ("don't rock'n'roll 'quoted'", ["don't", "rock'n'roll", "'", "quoted", "'"]),
    ("it’s l’été", ["it’s", "l’été"]),
    ("<b>so-so</b> &amp;", ["<", "b", ">", "so", "-", "so", "<", "/", "b", ">", "&", "amp", ";"]),
    ("one\r\ntwo\n\n\tthree\u2028four", ["one", "two", "three", "four"]),
    ("caf\u00e9 cafe\u0301", ["caf\u00e9", "cafe\u0301"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("می\u200cخواهم خوب", ["می\u200cخواهم", "خوب"]),
    ("电影 很好", ["电", "影", "很", "好"]),
    ("か\u3099き", ["か\u3099", "き"]),
    ("ภาษาไทย น้ำดีๆ ๒๕๖๓", [*"ภาษาไทย", "น้ำ", "ดี", "ๆ", "๒๕๖๓"]),
    ("ກ\u0eceຂ", ["ກ\u0ece", "ຂ"]),  # with a mark that is new in Unicode 15
    ("ພາສາລາວ ນ້ຳ", [*"ພາສາລາວ", "ນ້ຳ"]),
    ("ភាសាខ្មែរ ស្រី", ["ភា", "សា", "ខ្មែ", "រ", "ស្រី"]),
    ("မြန်မာ မန္တလေး ၁၂", ["မြ", "န်", "မာ", "မ", "န္တ", "လေး", "၁၂"]),
    ("ന്\u200d अ क्\u200dष", ["ന്\u200d", "अ", "क्\u200dष"]),
    ("葛\U000e0100城 𑀓𑀼", ["葛\U000e0100", "城", "𑀓𑀼"]),
    ("ΟΔΥΣΣΕΥΣ Σ", ["οδυσσευς", "σ"]),
    ("İstanbul", ["i\u0307stanbul"]),
    ("👍 👍🏽 ❤️!", ["👍", "👍🏽", "❤️", "!"]),
    ("👩‍👩‍👧‍👦👨‍🚀", ["👩‍👩‍👧‍👦", "👨‍🚀"]),
    ("🇩🇪🇫🇷 1️⃣", ["🇩🇪", "🇫🇷", "1️⃣"]),
    ("\x00\ud800", ["\x00", "\ud800"]),
    (" \n", []),
]


@pytest.mark.parametrize(("text", "words"), CASES)
def test_words_are_runs_of_letters_and_single_other_characters(text: str, words: list[str]) -> None:
    assert WordTokenizer().words(text) == words


@settings(deadline=None)
@given(st.text(st.sampled_from("กนเำ้าຳນខរ្ែြမတ္ာ葛अ्ि👩😀\u200c\u200d\u0301\ufe0f\U000e0100a'")))
def test_marks_and_joiners_begin_a_word_only_at_the_beginning_or_after_white_space(
    text: str,
) -> None:
    for start, _ in WordTokenizer().spans(text):
        is_mark = unicodedata.category(text[start])[0] == "M" or text[start] in "\u200c\u200d"

        assert not is_mark or start == 0


def test_version_1_reads_the_scripts_of_southeast_asia_as_before() -> None:
    old = WordTokenizer(version=1)

    assert old.words("ภาษาไทย ខ្មែរ 电影 ന്\u200d") == ["ภาษาไทย", "ខ្មែរ", "电", "影", "ന്", "\u200d"]


@pytest.mark.parametrize(
    ("text", "unspaced"),
    [
        ("ภาษาไทย 2020 a", True),
        ("电影很好 good", False),
        ("好きです", True),
        ("हिन्दी", False),
        ("", False),
    ],
)
def test_most_letters_decide_whether_a_text_is_written_without_spaces(
    text: str, unspaced: bool
) -> None:
    assert is_unspaced(text) is unspaced


@settings(deadline=None)  # the pattern is compiled in the first call
@given(st.text())
@example("İİ Σ ΑΣ’Σ ﬀ ẞ")
@example("👩\u200d \u200d👩 a\u200d \u200cb")
def test_spans_cut_the_same_words_from_the_original_text(text: str) -> None:
    for lower in (True, False):
        tokenizer = WordTokenizer(lower=lower)
        cut = [text[start:end] for start, end in tokenizer.spans(text)]
        assert tokenizer.words(text) == [word.lower() if lower else word for word in cut]


@settings(deadline=None)
@given(st.text())
def test_only_whitespace_is_outside_the_spans(text: str) -> None:
    at, left = 0, ""
    for start, end in WordTokenizer().spans(text):
        assert at <= start < end
        left, at = left + text[at:start], end
    assert not (left + text[at:]).strip()


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_words_are_the_same_next_to_other_characters(text: str) -> None:
    beside = WordTokenizer().words(text + " é")

    assert beside[:-1] == WordTokenizer().words(text)


def test_an_accent_written_as_two_characters_is_one_word_with_a_longer_span() -> None:
    tokenizer, word = WordTokenizer(), "déjà"

    assert tokenizer.spans(word) == [(0, 4)]
    assert tokenizer.spans(unicodedata.normalize("NFD", word)) == [(0, 6)]


@pytest.mark.parametrize("name", ["words", "spacy"])
def test_each_tokenizer_returns_as_many_spans_as_words(name: str) -> None:
    if name == "spacy":
        pytest.importorskip("spacy")
    tokenizer: Tokenizer = make_tokenizer(name, lower=True)
    text = "Mr. O'Neil paid  $5.99 —\n really? 👍🏽"

    spans = tokenizer.spans(text)

    assert [text[start:end].lower() for start, end in spans] == tokenizer.words(text)
    assert isinstance(tokenizer, SpacyTokenizer if name == "spacy" else WordTokenizer)


@pytest.mark.parametrize("name", ["words", "spacy"])
def test_each_tokenizer_accepts_lone_surrogates(name: str) -> None:
    if name == "spacy":
        pytest.importorskip("spacy")
    tokenizer = make_tokenizer(name, lower=True)
    text = "half \ud83d emoji"

    assert tokenizer.words(text)[-1] == "emoji"
    assert tokenizer.spans(text)[-1] == (7, 12)


@pytest.mark.parametrize("texts", [["a film", "", "film 👍🏽!"], [""]])
def test_tokenized_texts_are_restored_from_their_arrays(texts: list[str]) -> None:
    tokens = tokenize(pa.chunked_array([texts], pa.large_string()), WordTokenizer())

    restored = TokenizedTexts.from_arrays(tokens.to_arrays())

    assert restored.types == tokens.types
    np.testing.assert_array_equal(restored.rows.ids, tokens.rows.ids)
    np.testing.assert_array_equal(restored.rows.offsets, tokens.rows.offsets)
