import numpy as np
import pytest

from lamatext.ngrams.fitting import fit_ngrams, naive_bayes_ratio
from lamatext.ngrams.model import NgramModel
from lamatext.settings import NgramSettings

WORDS = NgramSettings(enabled=True, max_words=2, characters=False)
BOTH = NgramSettings(enabled=True, max_words=2, characters=True)


def corpus(classes: int, texts: int = 240) -> tuple[list[list[str]], np.ndarray]:
    """Texts with one word that reveals the class, among random words."""
    random = np.random.default_rng(0)
    labels = np.arange(texts) % classes
    noise = [f"w{i}" for i in range(30)]
    return [
        [*random.choice(noise, 6), f"sign{label}", *random.choice(noise, 3)] for label in labels
    ], labels


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("settings", [WORDS, BOTH])
def test_the_model_learns_and_one_text_gets_the_logits_it_gets_in_a_batch(
    classes: int, settings: NgramSettings
) -> None:
    texts, labels = corpus(classes)

    ngrams = fit_ngrams(texts, labels, settings, classes=classes)
    together = ngrams.logits(texts)

    assert (together.argmax(axis=1) == labels).mean() > 0.99
    odd = [*texts[:20], [], ["never", "seen"], ["sign0"] * 5]
    alone = np.concatenate([ngrams.logits([text]) for text in odd])
    np.testing.assert_allclose(alone, ngrams.logits(odd), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("settings", [WORDS, BOTH])
def test_word_contributions_and_base_sum_to_the_logits(
    classes: int, settings: NgramSettings
) -> None:
    texts, labels = corpus(classes)
    ngrams = fit_ngrams(texts, labels, settings, classes=classes)
    odd = [*texts[:10], [], ["never", "seen"], ["sign0"] * 5]

    found = [ngrams.contributions(words).sum(axis=1) + ngrams.base for words in odd]

    np.testing.assert_allclose(np.stack(found), ngrams.logits(odd), atol=1e-4)


def test_the_decisive_word_has_the_largest_contribution() -> None:
    texts, labels = corpus(4)
    ngrams = fit_ngrams(texts, labels, WORDS, classes=4)

    shares = ngrams.contributions(texts[1])[labels[1]]

    assert texts[1][int(shares.argmax())] == f"sign{labels[1]}"


def test_rare_ngrams_are_dropped_until_the_table_fits_its_size() -> None:
    texts, labels = corpus(2)
    limit = WORDS.model_copy(update={"max_megabytes": 0.0006})

    small = fit_ngrams(texts, labels, limit, classes=2).tables[0]

    assert 0 < len(small.keys) * 6 <= 600
    assert (small.keys[:-1] < small.keys[1:]).all()


def test_tensors_restore_the_same_model_bit_for_bit() -> None:
    texts, labels = corpus(4)
    ngrams = fit_ngrams(texts, labels, BOTH, classes=4).scaled(1.7)

    again = NgramModel.from_tensors(BOTH, ngrams.to_tensors(), classes=4)

    assert (again.logits(texts) == ngrams.logits(texts)).all()


def test_the_naive_bayes_ratio_equals_the_formula_written_out() -> None:
    from scipy.sparse import csr_matrix

    has = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=np.float64)
    positive = np.array([True, True, False, False])
    p = np.array([3.0, 2.0, 2.0])  # one more than how many positive texts have each
    q = np.array([1.0, 2.0, 3.0])

    found = naive_bayes_ratio(csr_matrix(has * 0.3), positive)

    np.testing.assert_allclose(found, np.log(p / 7) - np.log(q / 6))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("class_weights", [None, np.array([2.0, 0.5, 1.0, 1.0], np.float32)])
def test_integer_sample_weights_equal_repeated_texts(
    classes: int, class_weights: np.ndarray | None
) -> None:
    texts, labels = corpus(classes, 60)
    weights = np.random.default_rng(1).integers(0, 4, len(texts))
    rows = np.repeat(np.arange(len(texts)), weights)
    assert (weights == 0).any()

    weighted = fit_ngrams(
        texts,
        labels,
        BOTH,
        classes=classes,
        class_weights=class_weights,
        sample_weight=weights.astype(np.float32),
    )
    repeated = fit_ngrams(
        [texts[row] for row in rows],
        labels[rows],
        BOTH,
        classes=classes,
        class_weights=class_weights,
    )

    for one, other in zip(weighted.tables, repeated.tables, strict=True):
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_array_equal(one.idf, other.idf)
    np.testing.assert_allclose(weighted.logits(texts), repeated.logits(texts), atol=0.03)


def test_equal_sample_weights_give_the_unweighted_model() -> None:
    texts, labels = corpus(4)

    plain = fit_ngrams(texts, labels, BOTH, classes=4)
    weighted = fit_ngrams(
        texts, labels, BOTH, classes=4, sample_weight=np.ones(len(texts), np.float32)
    )

    np.testing.assert_array_equal(weighted.logits(texts), plain.logits(texts))
