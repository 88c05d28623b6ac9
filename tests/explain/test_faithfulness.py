from functools import partial

import numpy as np
import pytest
from torch import nn

from lamatext.data.token_ids import UNK, Ids
from lamatext.errors import DataError, MissingExtraError
from lamatext.explain import faithfulness
from lamatext.explain.faithfulness import (
    SHARES,
    compare_orders,
    first_words,
    keep_words,
    measure_faithfulness,
    sample_rows,
)
from lamatext.progress import Progress
from tests.corpora import reviews
from tests.explain.models import (
    Floats,
    make_network,
    probabilities_of,
    random_texts,
    softmax,
)
from tests.trained_model import predictor, trained

DECIDES = 2  # the id whose count is all that the made-up model looks at


def count_model(texts: list[Ids]) -> Floats:
    counts = np.array([(text == DECIDES).sum() for text in texts], np.float32)
    return softmax(np.stack([counts, 0.5 - counts], axis=1))


def sample_texts(n: int = 40) -> list[Ids]:
    texts = random_texts(*[20] * n)
    for text in texts:
        text[text == DECIDES] = 5
        text[:4] = DECIDES
    return texts


def test_the_true_ranking_beats_the_random_one_and_a_wrong_one_falls_behind() -> None:
    texts = sample_texts()
    right = [(text == DECIDES).astype(float) for text in texts]

    found = compare_orders(texts, {"attention": right, "wrong": [-s for s in right]}, count_model)

    good, wrong, chance = (found.orders[name] for name in ("attention", "wrong", "random"))
    assert good.comprehensiveness.value > chance.comprehensiveness.value
    assert good.sufficiency.value < chance.sufficiency.value < wrong.sufficiency.value
    assert wrong.drop.value == pytest.approx(0, abs=1e-6)
    assert good.lead.low > 0 > wrong.lead.high
    assert "attention finds the decisive words" in found.verdict()
    assert "wrong finds the decisive words no better than chance" in found.verdict("wrong")


def test_the_curves_are_probabilities_with_and_without_the_first_words() -> None:
    texts = sample_texts(1)
    scores = np.linspace(1, 0, 20)
    scores[3] = 2.0

    found = compare_orders(texts, {"attention": [scores]}, count_model).orders["attention"]

    order = np.argsort(-scores, kind="stable")
    for f, share in enumerate(SHARES):
        k = first_words(share, 20)
        rest = np.delete(texts[0], order[:k]) if k < 20 else np.array([UNK], np.int32)
        kept = np.delete(texts[0], order[k:]) if k else np.array([UNK], np.int32)
        assert found.deletion[f].value == pytest.approx(count_model([rest])[0, 0])
        assert found.insertion[f].value == pytest.approx(count_model([kept])[0, 0])


def test_the_verdict_has_the_numbers_and_is_saved() -> None:
    texts = sample_texts()
    right = [(text == DECIDES).astype(float) for text in texts]
    blurred = [score * (np.arange(20) < 2) for score in right]

    found = compare_orders(texts, {"attention": blurred, "contribution": right}, count_model)

    drop = found.orders["attention"].drop
    shown = (
        f"by {drop.value:.2f} (95 % interval {drop.low:.2f} to {drop.high:.2f}), removing random"
    )
    assert shown in found.verdict()
    assert "the 20 % most attended words" in found.verdict()
    assert found.verdict().endswith(".")
    assert found.as_dict()["verdict"] == found.verdict()


def test_of_two_good_rankings_the_verdict_recommends_the_contributions() -> None:
    texts = sample_texts()
    right = [(text == DECIDES).astype(float) for text in texts]
    weak = [score * (np.arange(20) < 1) for score in right]

    found = compare_orders(
        texts,
        {"attention": weak, "integrated gradients": right, "contribution": right},
        count_model,
    )

    assert "contribution" in found.verdict()
    assert "integrated gradients" not in found.verdict()


def test_the_same_seed_gives_the_same_numbers_and_intervals_contain_the_mean() -> None:
    network = make_network("lama-encoder")
    texts = random_texts(*range(1, 12))
    model = partial(probabilities_of, network)
    scores = {"attention": [np.arange(len(text), dtype=float) for text in texts]}

    first = compare_orders(texts, scores, model, seed=3)

    assert compare_orders(texts, scores, model, seed=3).as_dict() == first.as_dict()
    assert compare_orders(texts, scores, model, seed=4).as_dict() != first.as_dict()
    for order in first.orders.values():
        for point in [*order.deletion, *order.insertion, order.comprehensiveness]:
            assert point.low <= point.value + 1e-9
            assert point.value <= point.high + 1e-9


class Notes(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done = 0

    def advance(self, steps: int = 1, detail: str = "") -> None:
        del detail
        self.done += steps

    def note(self, text: str) -> None:
        self.notes.append(text)


def network() -> nn.Module:
    return trained().network_


def test_kept_words_that_are_neighbours_keep_the_characters_between_them() -> None:
    text = "It's <b>good</b>, not bad."
    spans = [(0, 4), (5, 6), (6, 7), (7, 8), (8, 12), (16, 17), (18, 21), (22, 25), (25, 26)]

    assert keep_words(text, spans, range(9)) == text
    assert keep_words(text, spans, [0, 4, 7, 8]) == "It's good bad."
    assert keep_words(text, spans, []) == ""


def test_the_probabilities_are_those_of_the_whole_model() -> None:
    model = predictor()
    text = reviews(2)[0][1]
    explanation = model.explain(text)
    order = np.argsort(-explanation.relative[explanation.best], kind="stable")

    found = measure_faithfulness(model, [text])

    for place, share in enumerate(SHARES):
        cut = first_words(share, len(order))
        rest = " ".join(explanation.words[t] for t in sorted(order[cut:]))
        expected = model.predict_proba([rest])[0, explanation.best]
        measured = found.orders["contribution"].deletion[place].value
        assert measured == pytest.approx(expected, abs=1e-5)


def test_a_model_with_ngrams_is_measured_with_integrated_gradients_too() -> None:
    pytest.importorskip("captum")
    texts, _ = reviews(40, seed=1)
    progress = Notes()

    found = measure_faithfulness(
        predictor(), texts, load_network=network, max_texts=25, progress=progress
    )

    assert found.texts == 25
    assert list(found.orders) == ["attention", "contribution", "integrated gradients", "random"]
    assert found.orders["contribution"].lead.low > 0
    assert found.orders["integrated gradients"].lead.low > 0
    assert progress.done == 25 + 25 * 18 * 4
    assert found.verdict().startswith("For this model, removing the 20 % most attended words")


def test_without_captum_integrated_gradients_are_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise MissingExtraError("integrated gradients needs the package captum. Install it.")

    monkeypatch.setattr(faithfulness, "integrated_gradients", absent)
    progress = Notes()

    found = measure_faithfulness(
        predictor(), reviews(4)[0], load_network=network, progress=progress
    )

    assert "integrated gradients" not in found.orders
    assert progress.notes == [
        "left out: integrated gradients needs the package captum. Install it."
    ]


def test_a_sample_depends_on_the_seed_alone_and_has_at_most_the_given_size() -> None:
    assert sample_rows(10, 20, 0).tolist() == list(range(10))
    assert sample_rows(1000, 5, 1).tolist() == sample_rows(1000, 5, 1).tolist()
    assert sample_rows(1000, 5, 1).tolist() != sample_rows(1000, 5, 2).tolist()


def test_empty_texts_are_measured_and_no_texts_are_refused() -> None:
    assert measure_faithfulness(predictor(), ["", "dull"]).texts == 2
    with pytest.raises(DataError, match="at least one text"):
        measure_faithfulness(predictor(), [])
