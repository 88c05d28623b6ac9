from functools import partial

import numpy as np
import pytest

from lamatext.data.token_ids import UNK, Ids
from lamatext.errors import DataError
from lamatext.explain.contributions import contributions
from lamatext.explain.faithfulness import SHARES, first_words, measure
from lamatext.explain.integrated_gradients import integrated_gradients
from tests.explain.models import (
    Floats,
    head_of,
    logits_of,
    make_network,
    probabilities_of,
    random_texts,
    run,
    softmax,
)

DECIDES = 2  # the id whose count is all that the made-up model looks at


def count_model(texts: list[Ids]) -> Floats:
    counts = np.array([(text == DECIDES).sum() for text in texts], np.float32)
    return softmax(np.stack([counts, 0.5 - counts], axis=1))


def sample(n: int = 40) -> list[Ids]:
    texts = random_texts(*[20] * n)
    for text in texts:
        text[text == DECIDES] = 5
        text[:4] = DECIDES
    return texts


def test_the_true_reason_beats_a_random_one_and_a_wrong_one_falls_behind() -> None:
    texts = sample()
    right = [(text == DECIDES).astype(float) for text in texts]

    found = measure(texts, {"attention": right, "wrong": [-s for s in right]}, count_model)

    good, wrong, chance = (found.orders[name] for name in ("attention", "wrong", "random"))
    assert good.comprehensiveness.value > chance.comprehensiveness.value
    assert good.sufficiency.value < chance.sufficiency.value < wrong.sufficiency.value
    assert wrong.drop.value == pytest.approx(0, abs=1e-6)
    assert good.lead.low > 0 > wrong.lead.high
    assert "attention points at the words that decide" in found.verdict()
    assert "wrong tells no more than chance" in found.verdict("wrong")


def test_the_curves_are_probabilities_with_and_without_the_first_words() -> None:
    texts = sample(1)
    scores = np.linspace(1, 0, 20)
    scores[3] = 2.0

    found = measure(texts, {"attention": [scores]}, count_model).orders["attention"]

    order = np.argsort(-scores, kind="stable")
    for f, share in enumerate(SHARES):
        k = first_words(share, 20)
        rest = np.delete(texts[0], order[:k]) if k < 20 else np.array([UNK], np.int32)
        kept = np.delete(texts[0], order[k:]) if k else np.array([UNK], np.int32)
        assert found.deletion[f].value == pytest.approx(count_model([rest])[0, 0])
        assert found.insertion[f].value == pytest.approx(count_model([kept])[0, 0])


def test_the_verdict_has_the_figures_and_names_the_better_guide() -> None:
    texts = sample()
    right = [(text == DECIDES).astype(float) for text in texts]
    blurred = [score * (np.arange(20) < 2) for score in right]

    found = measure(texts, {"attention": blurred, "contribution": right}, count_model)

    order = found.orders["attention"]
    assert f"by {order.drop}, random words by" in found.verdict()
    assert "the 20% most attended words" in found.verdict()
    assert found.verdict().endswith(".")
    assert found.as_dict()["verdict"] == found.verdict()


def test_of_two_good_guides_the_verdict_names_the_one_that_every_view_shows() -> None:
    texts = sample()
    right = [(text == DECIDES).astype(float) for text in texts]
    weak = [score * (np.arange(20) < 1) for score in right]

    found = measure(
        texts,
        {"attention": weak, "integrated gradients": right, "contribution": right},
        count_model,
    )

    assert "contribution" in found.verdict()
    assert "integrated gradients" not in found.verdict()


def test_the_same_seed_gives_the_same_numbers_and_intervals_hold_the_mean() -> None:
    network = make_network("lama-encoder")
    texts = random_texts(*range(1, 12))
    model = partial(probabilities_of, network)
    scores = {"attention": [np.arange(len(text), dtype=float) for text in texts]}

    first = measure(texts, scores, model, seed=3)

    assert measure(texts, scores, model, seed=3).as_dict() == first.as_dict()
    assert measure(texts, scores, model, seed=4).as_dict() != first.as_dict()
    for order in first.orders.values():
        for point in [*order.deletion, *order.insertion, order.comprehensiveness]:
            assert point.low <= point.value + 1e-9
            assert point.value <= point.high + 1e-9


def test_no_texts_are_refused() -> None:
    with pytest.raises(DataError, match="at least one text"):
        measure([], {}, count_model)


def test_integrated_gradients_add_up_to_what_the_words_change() -> None:
    pytest.importorskip("captum")
    network, texts = make_network("lama-encoder"), random_texts(3, 6, 9)

    found = integrated_gradients(network, texts, steps=200, batch=2)

    assert [len(row) for row in found] == [3, 6, 9]
    for text, row in zip(texts, found, strict=True):
        logits = logits_of(network, [text, np.zeros_like(text)])
        change = (logits[0] - logits[1])[logits[0].argmax()]
        assert row.sum() == pytest.approx(change, abs=0.02)


def test_real_contributions_are_measured_end_to_end() -> None:
    network = make_network("lama-ctx")
    texts = random_texts(*range(5, 25))
    result, lengths = run(network, texts)
    shares = contributions(result, lengths, head_of(network))
    best = result.logits.argmax(axis=1)
    scores = [(s - s.mean(axis=0))[c] for (s, _), c in zip(shares, best, strict=True)]

    found = measure(texts, {"contribution": scores}, partial(probabilities_of, network))

    assert found.texts == 20
    assert found.verdict().startswith("For this model, removing the 20% most contributing words")
