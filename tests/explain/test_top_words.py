from collections.abc import Iterator

import numpy as np
import pytest

from lamatext.explain.explanation import Explanation
from lamatext.explain.top_words import head_overlap, top_words
from tests.explain.models import Floats, softmax

CONTRIBUTIONS = {"good": 1.0, "bad": -1.0}


def explanation_of(text: str, *, weights: Floats | None) -> Explanation:
    """A text whose words contribute what they mean to the second of two classes."""
    words = text.split()
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    spans = [(int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True)]
    values = np.array([CONTRIBUTIONS.get(word.lower(), 0.0) for word in words], np.float32)
    return Explanation(
        text=text,
        spans=spans or [(0, 0)],
        labels=["neg", "pos"],
        probabilities=np.array([0.5, 0.5], np.float32),
        contributions=np.stack([-values, values]) if words else np.zeros((2, 1), np.float32),
        base=np.zeros(2, np.float32),
        weights=weights,
    )


def corpus(n: int = 60) -> Iterator[Explanation]:
    """Head 1 looks at the first word; head 2 at ``bank``, but only in texts with ``good``."""
    for row in range(n):
        first = "Good" if row % 2 else "bad"
        scores = np.array([[4, 0, 0, 0], [0, 0, 0, 4 * (first == "Good")]], np.float32)
        yield explanation_of(f"{first} the film bank", weights=softmax(scores))


def test_words_are_ranked_in_lower_case_for_the_class_they_speak_for() -> None:
    found = top_words(list(corpus()))

    assert found.texts == 60
    assert [word.word for word in found.classes["pos"]] == ["good"]
    assert [word.word for word in found.classes["neg"]] == ["bad"]
    best = found.classes["pos"][0]
    assert best.occurrences == 30
    assert best.score == pytest.approx(30 / 35)  # 30 times 1 and 5 times 0, the prior
    assert best.example == "Good the film bank"


def test_heads_rank_the_words_with_the_highest_weights() -> None:
    found = top_words(list(corpus()))

    assert {word.word for word in found.heads[0][:2]} == {"good", "bad"}
    assert found.heads[1][0].word == "bank"
    assert found.heads[1][0].score > 1  # more than a uniform weight


def test_a_word_is_contextual_if_its_weight_varies() -> None:
    found = top_words(list(corpus()))

    assert found.contextual[0].word == "bank"
    assert found.contextual[0].example


def test_rare_words_and_texts_without_words_are_not_ranked() -> None:
    empty = explanation_of("", weights=np.ones((2, 1), np.float32))

    found = top_words([*corpus(4), *[empty] * 9], min_count=3)

    assert not found.classes["pos"]
    assert {word.word for words in found.heads for word in words} <= {"the", "film", "bank"}


def test_the_overlap_of_heads_is_the_weight_that_pairs_of_heads_share() -> None:
    weights = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], np.float32)

    assert head_overlap(weights) == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert head_overlap(np.repeat(weights[:1], 3, axis=0)) == pytest.approx(1)
    found = top_words([explanation_of("a good film", weights=weights)])
    assert found.head_overlap == pytest.approx(1 / 3)


def test_a_model_without_attention_has_top_words_of_classes_only() -> None:
    found = top_words([explanation_of("good film", weights=None)] * 6)

    assert [word.word for word in found.classes["pos"]] == ["good"]
    assert not found.heads
    assert not found.contextual
    assert found.head_overlap is None


def test_an_example_is_shortened_around_its_word() -> None:
    text = "film " * 40 + "good" + " film" * 40

    found = top_words([explanation_of(text, weights=None)] * 6)

    example = found.classes["pos"][0].example
    assert "good" in example
    assert example[0] == example[-1] == "…"
    assert len(example) < 100
