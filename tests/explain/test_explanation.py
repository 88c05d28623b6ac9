import json
from dataclasses import replace

import numpy as np
import pytest

from lamatext.errors import ModelError
from lamatext.explain.explanation import Explanation
from tests.explain.models import make_explanation


def test_words_are_what_the_spans_cut_from_the_text() -> None:
    explanation = make_explanation("Ça <b>va</b>,\nl’été?")

    assert explanation.words == ["Ça", "<", "b", ">", "va", "<", "/", "b", ">", ",", "l’été", "?"]


def test_pooled_is_the_mean_of_the_heads_and_adds_up_to_one() -> None:
    explanation = make_explanation("a fine film", heads=4)
    assert explanation.weights is not None
    assert explanation.pooled is not None

    np.testing.assert_allclose(explanation.pooled, explanation.weights.mean(0))
    assert explanation.pooled.sum() == pytest.approx(1)


def test_relative_contributions_leave_out_what_lifts_every_class_alike() -> None:
    explanation = make_explanation("a fine film", labels=("a", "b", "c"))
    raised = replace(explanation, contributions=explanation.contributions + np.float32(5))

    np.testing.assert_allclose(raised.relative, explanation.relative, atol=1e-5)
    np.testing.assert_allclose(explanation.relative.sum(axis=0), 0, atol=1e-6)


def test_top_words_are_ordered_by_contribution_to_the_label() -> None:
    explanation = make_explanation("a fine and quiet film")

    for label in ("bad", "good"):
        top = explanation.top(3, label)
        scores = explanation.relative[explanation.column(label)]
        assert [word.contribution for word in top] == sorted(scores.tolist(), reverse=True)[:3]
        assert all(explanation.text[word.start : word.end] == word.word for word in top)
    assert explanation.top(3) == explanation.top(3, explanation.predicted)


def test_an_unknown_label_is_refused_with_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"no class 'ugly'\. Its classes: bad, good"):
        make_explanation("a film").top(3, "ugly")


def test_json_holds_every_number() -> None:
    explanation = make_explanation('"quoted" \ud800 \u2028 👩‍👧 </script>')

    told = json.loads(explanation.to_json())

    assert explanation.weights is not None
    assert told["text"] == explanation.text
    assert told["words"] == explanation.words
    assert [tuple(span) for span in told["spans"]] == list(explanation.spans)
    assert told["predicted"] == explanation.predicted
    np.testing.assert_allclose(told["weights"], explanation.weights, rtol=1e-5)
    np.testing.assert_allclose(told["contributions"], explanation.contributions, rtol=1e-5)
    logits = np.sum(told["contributions"], axis=1) + told["base"]
    np.testing.assert_allclose(logits, explanation.logits, atol=1e-5)
    assert explanation.to_json().isascii()


def test_json_takes_numpys_labels_and_parts() -> None:
    shares = np.array([[1.0, 2.0], [0.0, -1.0]], np.float32)
    explanation = Explanation(
        text="so it",
        spans=[(0, 2), (3, 5)],
        labels=list(np.array([3, 5])),
        probabilities=np.array([0.9, 0.1], np.float32),
        contributions=shares,
        base=np.zeros(2, np.float32),
        parts={"attention": shares * np.float32(0.5), "ngrams": shares * np.float32(0.5)},
    )

    told = json.loads(explanation.to_json())

    assert told["predicted"] == 3
    assert told["labels"] == [3, 5]
    assert told["weights"] is None
    assert told["parts"]["ngrams"] == [[0.5, 1.0], [0.0, -0.5]]


def test_a_notebook_shows_it_escaped() -> None:
    explanation = make_explanation("<script>alert(1)</script> \x1b[31m", labels=("<i>", '"&'))

    shown = explanation._repr_html_()

    assert "<script" not in shown
    assert "<i>" not in shown
    assert "\x1b" not in shown
    assert "<" in explanation.text
    assert shown.count("<div") == shown.count("</div>")


def several_labels(probabilities: list[float], thresholds: list[float]) -> Explanation:
    return replace(
        make_explanation("a fine film", labels=("art", "film", "war")),
        probabilities=np.array(probabilities, np.float32),
        thresholds=np.array(thresholds, np.float32),
    )


@pytest.mark.parametrize(
    ("probabilities", "thresholds", "explained"),
    [
        ([0.8, 0.3, 0.2], [0.9, 0.1, 0.1], ["film", "war"]),  # the most probable is not predicted
        ([0.8, 0.3, 0.2], [0.9, 0.9, 0.9], ["art"]),  # none is
        ([1.0, 0.3, 0.2], [1.0, 0.1, 0.9], ["film"]),  # a threshold of 1 means never
    ],
)
def test_a_text_with_several_labels_is_explained_for_the_predicted_ones(
    probabilities: list[float], thresholds: list[float], explained: list[str]
) -> None:
    explanation = several_labels(probabilities, thresholds)

    assert explanation.as_dict()["explained"] == explained
    assert explanation.predicted == explained[0]
    assert explanation.top(1) == explanation.top(1, explained[0])


def test_an_explanation_names_the_label_that_was_asked_for() -> None:
    explanation = several_labels([0.8, 0.3, 0.2], [0.5, 0.5, 0.5])

    assert explanation.as_dict("war")["explained"] == ["war"]
    assert make_explanation("a film").as_dict("bad")["explained"] == ["bad"]
