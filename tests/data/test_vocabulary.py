import numpy as np

from lamatext.data.token_ids import FIRST_WORD
from lamatext.data.vocabulary import Vocabulary


def test_words_are_sorted_by_count_then_alphabetically() -> None:
    types, counts = ["rare", "the", "b", "a"], np.array([1, 9, 3, 3])

    vocabulary = Vocabulary.from_counts(types, counts, min_count=2)

    assert vocabulary.words == ("<pad>", "<unk>", "the", "a", "b")
    assert vocabulary.ids == {"the": FIRST_WORD, "a": FIRST_WORD + 1, "b": FIRST_WORD + 2}
    assert len(vocabulary) == 5


def test_the_word_unk_in_a_text_is_not_the_reserved_id() -> None:
    assert "<unk>" not in Vocabulary(["a"]).ids


def test_a_vocabulary_survives_writing_and_reading() -> None:
    for words in ([], ["a"], ["’", "\x00", "👩‍👧", "a\u0301", "#", "<pad>"]):
        vocabulary = Vocabulary(words)

        again = Vocabulary.from_text(vocabulary.to_text())

        assert again.words == vocabulary.words
        assert again.ids == vocabulary.ids
