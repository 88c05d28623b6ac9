"""Training on extremes: few texts, rare classes, incomplete validation sets, imbalance."""

import warnings
from typing import Any

import numpy as np
import pytest

from lamatext import TextClassifier
from tests.corpora import TINY, reviews

WITH_NGRAMS = TINY | {"ngrams.enabled": True}
Texts = tuple[list[str], list[str]]  # and their labels
WORDS = ("apple", "banana", "cherry", "damson", "elder", "fig", "grape")


def fruit(classes: int, each: int) -> tuple[list[str], list[str]]:
    """Texts about one fruit each, with its name as the label."""
    draw = np.random.default_rng(0)
    rows = [(number % classes, draw.integers(100, 999, 4)) for number in range(classes * each)]
    texts = [f"{WORDS[c]} {WORDS[c]} pie {' '.join(map(str, extra))}" for c, extra in rows]
    return texts, [WORDS[c] for c, _ in rows]


def fitted(
    texts: list[str], labels: list[str], validation_data: Texts | None = None, **more: Any
) -> TextClassifier:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?!.* are also training texts)", UserWarning)
        classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
        return classifier.fit(texts, labels, validation_data=validation_data, **more)


def factors(classifier: TextClassifier) -> dict[str, float]:
    scales: dict[str, float] = classifier.facts_["training"]["scales"]
    return scales


@pytest.mark.parametrize("each", [1, 2, 3])
def test_with_up_to_three_texts_per_class_the_ngrams_decide_alone(each: int) -> None:
    texts, labels = fruit(7, each)

    classifier = fitted(texts, labels)

    assert factors(classifier)["network"] == 0
    probabilities = classifier.predict_proba(texts)
    assert np.isfinite(probabilities).all()
    if each > 1:
        assert (classifier.predict(texts) == labels).all()
        assert (classifier.predict(["banana", "the fig"]) == ["banana", "fig"]).all()


def test_three_classes_of_three_texts_are_mixed_without_harm() -> None:
    texts, labels = fruit(3, 3)

    classifier = fitted(texts, labels)

    assert (classifier.predict(texts) == labels).all()
    assert np.isfinite(classifier.predict_proba(["", "apple", "unknown"])).all()


@pytest.mark.parametrize("each", [2, 20])
def test_a_class_with_a_single_text_is_learned(each: int) -> None:
    texts, labels = fruit(3, each)

    classifier = fitted([*texts, "grape grape juice"], [*labels, "grape"])

    assert classifier.predict(["grape juice"]).tolist() == ["grape"]
    assert (classifier.predict(texts) == labels).mean() > 0.95


def test_a_validation_set_without_some_class_does_not_suppress_that_class() -> None:
    texts, labels = fruit(4, 12)
    held_out = [row for row, label in enumerate(labels) if label != "damson"][:20]
    validation = [texts[row] for row in held_out], [labels[row] for row in held_out]
    rest = [row for row in range(len(texts)) if row not in held_out]

    classifier = fitted(
        [texts[row] for row in rest], [labels[row] for row in rest], validation_data=validation
    )

    assert classifier.predict(["damson pie", "apple pie"]).tolist() == ["damson", "apple"]


def test_validation_texts_that_are_training_texts_are_not_used() -> None:
    texts, labels = reviews(80)
    half = slice(0, 40)

    with pytest.warns(UserWarning, match="40 of 80 validation texts are also .* not used"):
        some = fitted(texts[half], labels[half], validation_data=(texts, labels))
    with pytest.warns(UserWarning, match="all 40 .* so some training texts are held out"):
        none = fitted(texts[half], labels[half], validation_data=(texts[half], labels[half]))

    alone = fitted(texts[half], labels[half], validation_data=(texts[40:], labels[40:]))
    np.testing.assert_array_equal(some.predict_proba(texts), alone.predict_proba(texts))
    plain = fitted(texts[half], labels[half])
    np.testing.assert_array_equal(none.predict_proba(texts), plain.predict_proba(texts))


def test_a_few_validation_texts_that_are_training_texts_are_used() -> None:
    texts, labels = reviews(80)
    training = slice(0, 50)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = fitted(texts[training], labels[training], validation_data=(texts[49:], labels[49:]))
    with pytest.warns(UserWarning, match="10 of 40 validation texts are also training texts"):
        fitted(texts[training], labels[training], validation_data=(texts[40:], labels[40:]))

    assert few.facts_["validation"]["texts"] == 31


def test_weights_of_one_are_no_weights() -> None:
    texts, labels = reviews(120)

    weighted = fitted(texts, labels, sample_weight=np.ones(120))

    plain = fitted(texts, labels)
    np.testing.assert_array_equal(weighted.predict_proba(texts), plain.predict_proba(texts))


def test_weights_are_scaled_by_their_mean_over_the_texts_that_have_weight() -> None:
    texts, labels = reviews(160)
    weights = np.tile([0.0, 0.1, 0.3, 0.2], 40)
    positive = weights > 0

    scaled = fitted(texts, labels, sample_weight=weights)

    expected = fitted(texts, labels, sample_weight=weights / weights[positive].mean())
    np.testing.assert_allclose(
        scaled.predict_proba(texts), expected.predict_proba(texts), atol=1e-5
    )
    other = fitted(texts, labels, sample_weight=weights / weights.mean())
    assert np.abs(other.predict_proba(texts) - expected.predict_proba(texts)).max() > 1e-4


@pytest.mark.parametrize("weight", [1e-6, 0.01, 1.0])
def test_the_size_of_weights_below_one_does_not_matter(weight: float) -> None:
    texts, labels = reviews(120)

    weighted = fitted(texts, labels, sample_weight=np.full(120, weight))
    by_class = TextClassifier(
        settings=WITH_NGRAMS, device="cpu", random_state=0,
        class_weight={"pos": weight, "neg": weight},
    ).fit(texts, labels)  # fmt: skip

    expected = fitted(texts, labels, sample_weight=np.ones(120)).predict_proba(texts)
    np.testing.assert_allclose(weighted.predict_proba(texts), expected, atol=1e-5)
    np.testing.assert_allclose(by_class.predict_proba(texts), expected, atol=0.02)


def test_the_ngrams_alone_are_the_model_where_the_network_is_not_used() -> None:
    texts, labels = reviews(40)

    classifier = fitted(texts, labels)

    assert factors(classifier)["network"] == 0
    explanation = classifier.explain(texts[0])
    assert explanation.is_by_ngrams_alone
    assert (explanation.parts, explanation.weights) == (None, None)


@pytest.mark.parametrize("by", ["class_weight", "sample_weight"])
def test_weights_reach_the_probabilities(by: str) -> None:
    texts, labels = reviews(240)
    draw = np.random.default_rng(1)
    labels = [label if draw.random() < 0.7 else "neg" for label in labels]  # noisy and imbalanced
    settings = WITH_NGRAMS | ({"training.class_weight": "balanced"} if by == "class_weight" else {})
    counts = {name: labels.count(name) for name in ("neg", "pos")}
    weights = [len(labels) / counts[label] / 2 for label in labels]
    plain = fitted(texts, labels).predict_proba(texts)[:, 1].mean()

    balanced = TextClassifier(settings=settings, device="cpu", random_state=0).fit(
        texts, labels, sample_weight=weights if by == "sample_weight" else None
    )

    assert plain == pytest.approx(counts["pos"] / len(labels), abs=0.08)
    assert balanced.predict_proba(texts)[:, 1].mean() > plain + 0.02
