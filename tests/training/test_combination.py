import numpy as np

from lamatext.training.combination import USUAL, fuse


def made(texts: int, *, ngrams: float, deep: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of two parts, of which the labels follow by the given factors."""
    random = np.random.default_rng(0)
    first = random.normal(size=(texts, 3)).astype(np.float32)
    second = random.normal(size=(texts, 3)).astype(np.float32)
    noise = random.gumbel(size=(texts, 3))
    labels = (ngrams * first + deep * second + noise).argmax(axis=1)
    return first, second, labels


def test_factors_are_those_that_the_labels_were_made_with() -> None:
    first, second, labels = made(20_000, ngrams=2.0, deep=0.7)

    a, b = fuse(first, second, labels)

    np.testing.assert_allclose([a, b], [2.0, 0.7], atol=0.1)


def test_a_part_that_misleads_counts_for_nothing() -> None:
    first, second, labels = made(2_000, ngrams=2.0, deep=-1.0)

    _, b = fuse(first, second, labels)

    assert b == 0


def test_without_texts_the_factors_are_the_usual_ones() -> None:
    first, second, labels = made(0, ngrams=1.0, deep=1.0)

    assert fuse(first, second, labels) == USUAL
