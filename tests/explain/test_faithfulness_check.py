import numpy as np
import pytest

from lamatext.errors import DataError, MissingExtraError
from lamatext.explain import faithfulness_check
from lamatext.explain.faithfulness import SHARES, first_words
from lamatext.explain.faithfulness_check import check_reasons, sample, without_words
from lamatext.progress import Progress
from tests.corpora import reviews
from tests.fused import predictor, trained


class Notes(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done = 0

    def advance(self, steps: int = 1, detail: str = "") -> None:
        del detail
        self.done += steps

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_words_are_taken_from_the_text_and_neighbours_keep_what_stood_between() -> None:
    text = "It's <b>good</b>, not bad."
    spans = [(0, 4), (5, 6), (6, 7), (7, 8), (8, 12), (16, 17), (18, 21), (22, 25), (25, 26)]

    assert without_words(text, spans, range(9)) == text
    assert without_words(text, spans, [0, 4, 7, 8]) == "It's good bad."
    assert without_words(text, spans, []) == ""


def test_the_probabilities_are_the_whole_models() -> None:
    model = predictor()
    text = reviews(2)[0][1]
    explanation = model.explain(text)
    order = np.argsort(-explanation.relative[explanation.best], kind="stable")

    found = check_reasons(model, [text])

    for place, share in enumerate(SHARES):
        cut = first_words(share, len(order))
        rest = " ".join(explanation.words[t] for t in sorted(order[cut:]))
        expected = model.predict_proba([rest])[0, explanation.best]
        told = found.orders["contribution"].deletion[place].value
        assert told == pytest.approx(expected, abs=1e-5)


def test_a_fused_models_reasons_are_checked_with_gradients_beside_them() -> None:
    pytest.importorskip("captum")
    texts, _ = reviews(40, seed=1)
    progress = Notes()

    found = check_reasons(
        predictor(), texts, network=trained().network_, most=25, progress=progress
    )

    assert found.texts == 25
    assert list(found.orders) == ["attention", "contribution", "integrated gradients", "random"]
    assert found.orders["contribution"].lead.low > 0
    assert found.orders["integrated gradients"].lead.low > 0
    assert progress.done == 25 + 25 * 18 * 4
    assert found.verdict().startswith("For this model, removing the 20% most attended words")


def test_without_captum_gradients_are_left_out_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise MissingExtraError("integrated gradients needs the package captum. Install it.")

    monkeypatch.setattr(faithfulness_check, "integrated_gradients", absent)
    progress = Notes()

    found = check_reasons(predictor(), reviews(4)[0], network=trained().network_, progress=progress)

    assert "integrated gradients" not in found.orders
    assert progress.notes == [
        "left out: integrated gradients needs the package captum. Install it."
    ]


def test_a_sample_is_the_same_for_a_seed_and_never_larger_than_asked() -> None:
    assert sample(10, 20, 0).tolist() == list(range(10))
    assert sample(1000, 5, 1).tolist() == sample(1000, 5, 1).tolist()
    assert sample(1000, 5, 1).tolist() != sample(1000, 5, 2).tolist()


def test_empty_texts_are_measured_and_no_texts_are_refused() -> None:
    assert check_reasons(predictor(), ["", "dull"]).texts == 2
    with pytest.raises(DataError, match="at least one text"):
        check_reasons(predictor(), [])
