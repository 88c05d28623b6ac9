import numpy as np
import pytest

from lamatext.data.tokenizer import WordTokenizer
from lamatext.explain.character_groups import (
    FOLLOWING,
    MAX_CHARACTERS,
    group_characters,
)
from lamatext.explain.explanation import Explanation
from lamatext.ngrams.model import NgramModel
from tests.explain.unspaced_texts import fit_unspaced_ngrams, unspaced_reviews


@pytest.fixture(scope="module")
def ngrams() -> NgramModel:
    return fit_unspaced_ngrams(classes=3)


def explained(text: str) -> Explanation:
    """Explanation by characters, with contributions and attention weights at random."""
    spans = WordTokenizer().spans(text)
    draw = np.random.default_rng(0)
    network, ngram = draw.normal(size=(2, 3, len(spans))).astype(np.float32)
    return Explanation(
        text=text,
        spans=spans,
        labels=["a", "b", "c"],
        probabilities=np.full(3, 1 / 3, np.float32),
        contributions=network + ngram,
        base=np.zeros(3, np.float32),
        weights=draw.dirichlet(np.ones(len(spans)), 2).astype(np.float32),
        parts={"network": network, "n-grams": ngram},
    )


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("电影很好。", ["电影", "很好", "。"]),
        ("音乐一般，故事", ["音乐", "一般", "，", "故事"]),
        ("カメラとストーリー", ["カメラ", "と", "ストーリー"]),
        ("เพลงยอดเยี่ยม 2020", ["เพลง", "ยอด", "เยี่ยม", "2020"]),
        ("a plain text", ["a", "plain", "text"]),
    ],
)
def test_characters_that_occur_together_are_one_unit(
    text: str, units: list[str], ngrams: NgramModel
) -> None:
    assert group_characters(explained(text), ngrams).words == units


def test_no_unit_begins_with_a_following_vowel_or_a_final_consonant(ngrams: NgramModel) -> None:
    text = "พยายามทะเล ພາສາລາວ အသောက်အ"
    units = group_characters(explained(text), ngrams).words

    assert "".join(units) == text.replace(" ", "")
    assert not [unit for unit in units if unit[0] in FOLLOWING]
    assert not [unit for unit in units if unit.startswith("က်")]


@pytest.mark.parametrize(("letter", "last"), [("ก", "ะ"), ("ກ", "ະ"), ("က", "က်")])
def test_a_following_vowel_or_final_consonant_joins_even_a_unit_of_the_largest_size(
    letter: str, last: str, ngrams: NgramModel
) -> None:
    run = letter * MAX_CHARACTERS

    assert group_characters(explained(run + last), ngrams).words == [run + last]
    assert group_characters(explained(run + letter), ngrams).words == [run, letter]


def test_units_sum_their_characters_and_lose_nothing(ngrams: NgramModel) -> None:
    for text in unspaced_reviews(30, seed=3):
        by_character = explained(text)

        grouped = group_characters(by_character, ngrams)

        assert len(grouped.words) < len(by_character.words)
        assert "".join(grouped.words) == text
        np.testing.assert_allclose(grouped.logits, by_character.logits, atol=1e-5)
        assert grouped.weights is not None
        np.testing.assert_allclose(grouped.weights.sum(axis=1), 1, atol=1e-5)
        assert grouped.parts is not None
        np.testing.assert_allclose(sum(grouped.parts.values()), grouped.contributions, atol=1e-5)


def test_a_run_of_unknown_letters_is_cut_into_units_of_a_limited_length(
    ngrams: NgramModel,
) -> None:
    grouped = group_characters(explained("ឋ" * 20), ngrams)

    assert [len(word) for word in grouped.words] == [MAX_CHARACTERS, MAX_CHARACTERS, 4]
