"""Variants of texts for a teacher to label."""

from lamatext.data.text_variants import make_text_variants

TEXTS = ["the film is a joy from start to end", "a dull and tired plot", "no"]


def test_the_same_seed_gives_the_same_variants() -> None:
    assert make_text_variants(TEXTS, 5, seed=1) == make_text_variants(TEXTS, 5, seed=1)
    assert make_text_variants(TEXTS, 5, seed=1) != make_text_variants(TEXTS, 5, seed=2)


def test_each_text_of_three_words_or_more_gets_its_number_of_variants() -> None:
    assert len(make_text_variants(TEXTS, 4, seed=0)) == 2 * 4


def test_variants_consist_of_words_of_the_texts() -> None:
    known = {word for text in TEXTS for word in text.split()}
    variants = make_text_variants(TEXTS, 50, seed=0)
    assert {word for variant in variants for word in variant.split()} <= known
    assert all(variant.strip() for variant in variants)


def test_variants_differ_from_each_other_and_from_their_texts() -> None:
    variants = make_text_variants(TEXTS, 50, seed=0)
    assert len(set(variants)) > 40
    assert len(set(variants) - set(TEXTS)) > 40


def test_texts_of_one_word_have_no_variants() -> None:
    assert make_text_variants(["yes", "no", ""], 8, seed=0) == []
