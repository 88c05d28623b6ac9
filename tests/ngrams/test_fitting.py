from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from lamatext.data.tokenizer import WordTokenizer, tokenize
from lamatext.ngrams import fitting
from lamatext.ngrams.fitting import (
    CountedTexts,
    fit_ngrams,
    naive_bayes_ratio,
    ngram_features,
    weighted_frequencies,
)
from lamatext.ngrams.model import ClassMixture, NgramModel
from lamatext.ngrams.svm import SparseRows
from lamatext.settings import NgramSettings
from tests.corpora import reviews

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


def model_with_range_power(power: float = 0.5) -> tuple[NgramModel, list[list[str]]]:
    """Return a model of four classes, and texts of which one has no known n-gram."""
    texts, labels = corpus(4)
    ngrams = fit_ngrams(texts, labels, BOTH, classes=4)
    return replace(ngrams, range_power=power), [*texts[:10], [], ["?"], ["sign0"] * 5]


def test_a_range_power_divides_the_sums_of_each_text() -> None:
    ngrams, texts = model_with_range_power(0.25)

    found = ngrams.logits(texts)

    for words, logits in zip(texts, found, strict=True):
        sums = replace(ngrams, range_power=0.0).logits([words])[0] - ngrams.bias
        distance = max(float(sums.max() - sums.mean()), 1e-12)
        np.testing.assert_allclose(logits, sums / distance**0.25 + ngrams.bias, atol=1e-5)


def test_contributions_sum_to_the_logits_with_a_range_power() -> None:
    ngrams, texts = model_with_range_power()

    found = [ngrams.contributions(words).sum(axis=1) + ngrams.base for words in texts]

    np.testing.assert_allclose(np.stack(found), ngrams.logits(texts), atol=1e-4)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.75])
def test_scaling_multiplies_the_logits_whatever_the_range_power(power: float) -> None:
    ngrams, texts = model_with_range_power(power)
    shift = np.array([0.5, -1.0, 0.0, 2.0])

    scaled = ngrams.scaled(7.0, shift)

    np.testing.assert_allclose(
        scaled.logits(texts), 7 * ngrams.logits(texts) + shift, rtol=1e-5, atol=1e-5
    )


def test_tensors_restore_the_range_power() -> None:
    ngrams, texts = model_with_range_power()

    again = NgramModel.from_tensors(BOTH, ngrams.to_tensors(), rows=4)

    assert (again.logits(texts) == ngrams.logits(texts)).all()
    assert "range_power" not in replace(ngrams, range_power=0.0).to_tensors()


@pytest.mark.parametrize("power", [-0.25, 1.0, np.nan])
def test_a_range_power_out_of_bounds_is_refused(power: float) -> None:
    tensors = model_with_range_power()[0].to_tensors()
    tensors["range_power"] = np.array([power], np.float32)

    with pytest.raises(ValueError, match="range_power must"):
        NgramModel.from_tensors(BOTH, tensors, rows=4)


def test_two_classes_share_a_row_and_have_no_range_power() -> None:
    texts, labels = corpus(2)
    tensors = fit_ngrams(texts, labels, WORDS, classes=2).to_tensors()
    tensors["range_power"] = np.array([0.5], np.float32)

    with pytest.raises(ValueError, match="0 for two classes"):
        NgramModel.from_tensors(WORDS, tensors, rows=1)


@pytest.mark.parametrize("power", [0.0, 0.25])
def test_a_mixture_of_classes_becomes_part_of_the_weights(power: float) -> None:
    texts, labels = corpus(4)
    odd = [*texts[:10], [], ["?"], ["sign0"] * 5]
    matrix = (np.eye(4) + 0.2 * np.arange(4)[:, None]).astype(np.float32)
    mixture = ClassMixture(matrix, np.array([0.5, -1.0, 0.0, 2.0], np.float32))
    plain = fit_ngrams(texts, labels, BOTH, classes=4)

    mixed = replace(fit_ngrams(texts, labels, BOTH, classes=4, mixture=mixture), range_power=power)

    expected = plain.logits(odd) @ matrix.T + mixture.shift
    found = replace(mixed, range_power=0.0).logits(odd)
    np.testing.assert_allclose(found, expected, atol=0.1)  # both are rounded to int8
    np.testing.assert_allclose(mixed.base, matrix @ plain.base + mixture.shift, rtol=1e-5)
    sums = [mixed.contributions(words).sum(axis=1) + mixed.base for words in odd]
    np.testing.assert_allclose(np.stack(sums), mixed.logits(odd), atol=1e-4)


def test_classes_outside_of_a_mixture_keep_their_logits() -> None:
    matrix = np.array([[1.5, 0.5], [0.25, 2.0]], np.float32)
    mixture = ClassMixture(matrix, np.array([1.0, -1.0], np.float32))

    found = mixture.for_all_classes(np.array([0, 2]), 3).apply(np.array([1, 7, 2], np.float32))

    np.testing.assert_allclose(found, [1.5 + 1 + 1, 7, 0.25 + 4 - 1])


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

    again = NgramModel.from_tensors(BOTH, ngrams.to_tensors(), rows=4)

    assert (again.logits(texts) == ngrams.logits(texts)).all()


def test_the_naive_bayes_ratio_equals_the_formula_written_out() -> None:
    has = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=np.float32)
    starts = np.concatenate([[0], np.cumsum(has.sum(axis=1))]).astype(np.int64)
    features = SparseRows(starts, has.nonzero()[1].astype(np.int32), np.full(7, 0.3, np.float32), 3)
    positive, weight = np.array([True, True, False, False]), np.array([1.0, 1.0, 1.0, 2.0])
    p = np.array([3.0, 2.0, 2.0])  # one more than how many positive texts have each
    q = np.array([1.0, 2.0, 4.0])

    found = naive_bayes_ratio(features, positive, weighted_frequencies(features, weight), weight)

    np.testing.assert_allclose(found, np.log(p / 7) - np.log(q / 7))


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


def test_weighted_document_frequencies_sum_the_weights_of_the_texts_with_an_n_gram() -> None:
    texts, _ = corpus(2, 40)
    counted = CountedTexts.from_words(texts, BOTH)
    rows, random = np.arange(3, 37), np.random.default_rng(0)
    weights = random.random(len(rows)).astype(np.float32)

    for _, counts in counted.counts:
        known = np.unique(counts.keys)[::2]
        expected = np.zeros(len(known))
        for row, weight in zip(rows, weights, strict=True):
            keys = counts.keys[counts.offsets[row] : counts.offsets[row + 1]]
            expected[np.isin(known, keys)] += weight
        found = fitting._weighted_frequency(known, counts, rows, weights)
        np.testing.assert_array_equal(found, expected)
    nothing = fitting._weighted_frequency(known[:0], counts, rows, weights)
    assert len(nothing) == 0


def test_equal_sample_weights_give_the_unweighted_model() -> None:
    texts, labels = corpus(4)

    plain = fit_ngrams(texts, labels, BOTH, classes=4)
    weighted = fit_ngrams(
        texts, labels, BOTH, classes=4, sample_weight=np.ones(len(texts), np.float32)
    )

    np.testing.assert_array_equal(weighted.logits(texts), plain.logits(texts))


@pytest.mark.parametrize("settings", [WORDS, BOTH])
def test_tokenized_texts_and_lists_of_words_give_the_same_model(settings: NgramSettings) -> None:
    texts, labels = corpus(4)
    texts[3], texts[7] = [], ["w1"] * 70_000  # no word; more of one than the counts hold
    tokens = tokenize(pa.chunked_array([[" ".join(text) for text in texts]]), WordTokenizer())
    rows = np.random.default_rng(0).permutation(len(texts))[:150]

    counted = CountedTexts.from_tokens(tokens, settings).take(rows)
    from_tokens = fit_ngrams(counted, labels[rows], settings, classes=4)
    from_words = fit_ngrams([texts[row] for row in rows], labels[rows], settings, classes=4)

    np.testing.assert_array_equal(from_tokens.logits(texts), from_words.logits(texts))


def test_features_are_the_tfidf_values_that_a_prediction_computes() -> None:
    texts, labels = corpus(4)
    model = fit_ngrams(texts, labels, BOTH, classes=4)

    features = ngram_features(model.tables, CountedTexts.from_words(texts, BOTH))

    weights = np.concatenate([t.weights * t.steps[:, None] for t in model.tables], axis=1)  # (C, K)
    dense = np.zeros((len(texts), features.width))
    for row, (start, end) in enumerate(pairwise(features.starts)):
        dense[row, features.columns[start:end]] = features.values[start:end]
    np.testing.assert_allclose(dense @ weights.T + model.bias, model.logits(texts), atol=1e-5)


def test_a_fit_that_starts_from_a_model_keeps_its_n_grams_and_adds_those_of_the_new_texts() -> None:
    texts, labels = corpus(3)
    start = fit_ngrams(texts, labels, WORDS, classes=3)
    new = [[*words, "later"] for words in texts[:30]]

    model = fit_ngrams(new, labels[:30], WORDS, classes=3, start=start)

    old, table = start.tables[0], model.tables[0]
    at = np.searchsorted(table.keys, old.keys)
    np.testing.assert_array_equal(table.keys[at], old.keys)
    np.testing.assert_allclose(table.idf[at] * table.idf_step, old.idf * old.idf_step, rtol=0.02)
    assert len(table.keys) > len(old.keys)
    assert (model.logits(texts).argmax(axis=1) == labels).mean() > 0.95


def test_texts_that_a_model_already_separates_hardly_change_it() -> None:
    texts, labels = corpus(2)
    start = fit_ngrams(texts, labels, WORDS, classes=2)

    model = fit_ngrams(texts[:40], labels[:40], WORDS, classes=2, start=start)
    anew = fit_ngrams(texts[:40], labels[:40], WORDS, classes=2)

    change, other = (np.abs(m.logits(texts) - start.logits(texts)).mean() for m in (model, anew))
    assert change < 0.3 * other


def test_merged_tables_stay_within_their_size_limit_and_keep_the_frequent_n_grams() -> None:
    texts, labels = corpus(2)
    small = WORDS.model_copy(update={"max_megabytes": 0.0006})  # 100 n-grams of 6 bytes
    start = fit_ngrams(texts, labels, small, classes=2)
    new = [[f"new{number}", "sign0", "sign1"] for number in range(60)]

    model = fit_ngrams(new, labels[:60], small, classes=2, start=start)

    assert 0 < len(model.tables[0].keys) <= 100
    assert np.isin(start.tables[0].keys, model.tables[0].keys).mean() > 0.5


def test_a_label_that_none_of_the_new_texts_has_keeps_its_weights() -> None:
    texts, classes = corpus(3)
    targets = np.eye(3, dtype=np.float32)[classes]
    start = fit_ngrams(texts, targets, WORDS, classes=3)
    rows = np.flatnonzero(classes != 2)[:40]

    model = fit_ngrams([texts[i] for i in rows], targets[rows], WORDS, classes=3, start=start)

    np.testing.assert_allclose(model.logits(texts)[:, 2], start.logits(texts)[:, 2], atol=0.02)


def test_document_frequencies_of_many_texts_are_counted_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "BLOCK", 7)
    texts = pa.chunked_array([reviews(60)[0]])
    tokens = tokenize(texts, WordTokenizer())
    settings = NgramSettings(characters=False, max_megabytes=1)
    whole = CountedTexts.from_tokens(tokens, settings)

    counted = CountedTexts.from_sample(tokens, np.arange(0, 60, 2), 50, settings)

    assert counted.frequencies is not None
    ((keys, found),) = counted.frequencies.tables
    (_, counts) = whole.counts[0]
    first = counts.keys[: counts.offsets[50]]
    assert found.tolist() == [int((first == key).sum()) for key in keys]
    assert len(keys) > 50
