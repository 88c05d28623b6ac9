"""Lists of the strongest words."""

from dataclasses import replace

import numpy as np

from lamatext.views.word_shading import StrongWord, strongest_words
from tests.explain.models import make_explanation


def test_repeated_words_are_added_up_and_weak_ones_left_out() -> None:
    explanation = make_explanation("Good film good plot dull end")
    values = np.zeros_like(explanation.contributions)
    values[1] = [1.0, 0.01, 0.5, 0.2, -0.8, 0.0]
    explanation = replace(explanation, contributions=values)
    scale = 1 - 1 / len(values)  # contributions are shown minus their mean over classes

    supporting, opposing = strongest_words(explanation, 1, limit=2)

    assert [(one.word, one.occurrences) for one in supporting] == [("Good", 2), ("plot", 1)]
    np.testing.assert_allclose([one.contribution for one in supporting], [1.5 * scale, 0.2 * scale])
    assert opposing == [StrongWord("dull", 1, opposing[0].contribution)]
    assert strongest_words(explanation, 1, limit=1)[0] == supporting[:1]


def test_a_text_without_words_has_no_strongest_words() -> None:
    explanation = replace(make_explanation("x"), spans=[(0, 0)])

    assert strongest_words(explanation, 0, limit=5) == ([], [])
