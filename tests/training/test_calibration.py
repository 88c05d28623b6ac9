import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from lamatext.data.token_ids import TokenIds
from lamatext.nn.network import build_network
from lamatext.settings import ModelSettings
from lamatext.training import calibration
from lamatext.training.batching import EncodedDataset
from lamatext.training.calibration import (
    CONFIDENCE_SPREAD,
    MIN_NOISE,
    PRIOR_NGRAM_FACTOR,
    Combination,
    _losses,
    add_network,
    calibrate_ngrams,
    correct_confidence,
    estimate_noise,
    evenly_spread_texts,
    fit_temperature,
    held_out_loss,
    is_evidence_of_noise,
    label_trust,
    mix_classes,
    scale_logits,
    tells_classes_apart,
)
from lamatext.training.loop import predict_logits


def test_texts_without_any_weight_leave_the_temperature_as_equal_weights_do() -> None:
    logits, labels = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 1])

    found = fit_temperature(logits, labels, np.zeros(3))

    assert found == fit_temperature(logits, labels)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_fitted_temperature_is_the_one_the_labels_were_drawn_with(temperature: float) -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(20_000, 3)) * 2
    powers = np.exp(logits)
    chances = powers / powers.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < draw.random(len(logits))[:, None]).sum(axis=1)

    fitted = fit_temperature((logits * temperature).astype(np.float32), labels)

    assert fitted == pytest.approx(temperature, rel=0.06)


@pytest.mark.parametrize("hidden", [0, 4])
def test_scaling_the_last_layer_scales_every_logit(hidden: int) -> None:
    torch.manual_seed(0)
    model = ModelSettings(name="avg", classifier_width=hidden)
    network = build_network(model, vocabulary=9, width=5, classes=3)
    rows = TokenIds.from_lists(np.random.default_rng(0).integers(2, 9, (30, 4)))
    dataset = EncodedDataset(rows, np.random.default_rng(1).integers(0, 3, 30))
    before = predict_logits(network, dataset, torch.device("cpu"))

    scale_logits(network, 0.4)
    after = predict_logits(network, dataset, torch.device("cpu"))

    np.testing.assert_allclose(after, before * 0.4, rtol=1e-5, atol=1e-7)


Logits = NDArray[np.float32]
Labels = NDArray[np.int64]
Arrays = tuple[Logits, Logits, Labels]


def drawn(texts: int, *, ngrams: float, network: float, seed: int = 0) -> Arrays:
    """Logits of two parts, and labels drawn from their sum with the given factors."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(texts, 3)).astype(np.float32)
    second = random.normal(size=(texts, 3)).astype(np.float32)
    noise = random.gumbel(size=(texts, 3))
    labels = (ngrams * first + network * second + noise).argmax(axis=1)
    return first, second, labels


def fit_both(first: Logits, second: Logits, labels: Labels) -> Combination:
    return add_network(calibrate_ngrams(first, labels), first, second, labels)


def test_the_fitted_factors_are_those_the_labels_were_drawn_with() -> None:
    a, b, bias, _ = fit_both(*drawn(20_000, ngrams=2.0, network=0.7))

    np.testing.assert_allclose([a, b], [2.0, 0.7], atol=0.1)
    np.testing.assert_allclose(bias, 0, atol=0.1)


def test_the_fitted_biases_are_those_the_labels_were_drawn_with() -> None:
    first, _, _ = drawn(20_000, ngrams=1.0, network=0.0)
    shift = np.array([0.5, -0.5, 0.0])
    noise = np.random.default_rng(1).gumbel(size=first.shape)

    a, _, bias, _ = calibrate_ngrams(first, (2 * first + shift + noise).argmax(axis=1))

    assert a == pytest.approx(2, rel=0.05)
    np.testing.assert_allclose(bias - bias.mean(), shift, atol=0.08)


@pytest.mark.parametrize("size", [0.01, 1, 100])
def test_the_size_of_the_networks_logits_makes_no_difference(size: float) -> None:
    first, second, labels = drawn(300, ngrams=2.0, network=0.7)
    expected = fit_both(first, second, labels)

    fitted = fit_both(first, second * np.float32(size), labels)

    assert fitted.network * size == pytest.approx(expected.network, rel=1e-3)
    assert fitted.ngrams == pytest.approx(expected.ngrams, rel=1e-3)


@pytest.mark.parametrize("network", [0.0, -1.0])
def test_a_network_that_adds_nothing_or_misleads_gets_the_factor_zero(network: float) -> None:
    combination = fit_both(*drawn(2_000, ngrams=2.0, network=network))

    assert combination.network == pytest.approx(0, abs=0.03)
    if network < 0:
        assert combination.network == 0


def test_texts_that_are_easy_by_chance_make_both_parts_together_no_surer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, labels = drawn(20_000, ngrams=2.0, network=1.0)
    ngrams = calibrate_ngrams(first, labels)
    right = np.flatnonzero(first.argmax(axis=1) == labels)[:700]
    wrong = np.flatnonzero(first.argmax(axis=1) != labels)[:100]
    easy = np.concatenate([right, wrong])

    def factor() -> float:
        parts = first[easy], second[easy], labels[easy]
        return add_network(ngrams, *parts).ngrams

    corrected = factor()
    monkeypatch.setattr(calibration, "_confidence_factor", lambda *_: 1.0)
    uncorrected = factor()

    expected = add_network(ngrams, first, second, labels).ngrams
    assert uncorrected > 1.3 * expected
    assert corrected == pytest.approx(expected, rel=0.15)


def unevenly_sure(texts: int, seed: int = 0) -> tuple[Logits, Labels]:
    """Logits of twelve classes, and labels drawn from them with one of two factors per text."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(texts, 12)).astype(np.float32)
    factors = random.choice([1.0, 4.0], (texts, 1))
    return first, (factors * first + random.gumbel(size=first.shape)).argmax(axis=1)


def test_corrected_ngrams_are_about_as_sure_as_they_are_right() -> None:
    first, labels = unevenly_sure(20_000)
    plain = calibrate_ngrams(first, labels)

    corrected = correct_confidence(plain, first, labels)

    new, truth = unevenly_sure(20_000, seed=1)
    before, after = (
        softmax(c.logits(new, np.zeros_like(new)), axis=1).max(axis=1).mean()
        for c in (plain, corrected)
    )
    accuracy = (new.argmax(axis=1) == truth).mean()
    assert before < accuracy - 0.04
    assert after == pytest.approx(accuracy, abs=0.015)
    np.testing.assert_allclose(corrected.bias / corrected.ngrams, plain.bias / plain.ngrams)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_corrected_confidence_makes_right_and_wrong_predictions_most_likely(
    noise: float,
) -> None:
    first, labels = unevenly_sure(300)
    plain = Combination(1.2, 0.0, np.zeros(12), noise)

    factor = correct_confidence(plain, first, labels).ngrams / plain.ngrams

    def loss(logarithm: float) -> float:
        total = (logarithm / CONFIDENCE_SPREAD) ** 2 / 2
        for logits, label in zip(first, labels, strict=True):
            chances = softmax(np.exp(logarithm) * 1.2 * logits.astype(np.float64))
            predicted = (1 - noise) * chances.max() + noise * (1 - chances.max()) / 11
            total -= np.log(predicted if chances.argmax() == label else 1 - predicted)
        return total

    tried = np.arange(-0.8, 0.8, 0.02)
    best = tried[np.argmin([loss(value) for value in tried])]
    assert abs(best) > 0.05
    assert np.log(factor) == pytest.approx(best, abs=0.011)


def test_a_certain_but_wrong_prediction_leaves_the_correction_finite() -> None:
    logits = np.array([[900.0, 0, 0], [0, 1.0, 0], [0, 0, 2.0]], np.float32)
    plain = Combination(1.0, 0.0, np.zeros(3))

    corrected = correct_confidence(plain, logits, np.array([1, 1, 2]))

    assert corrected.ngrams == pytest.approx(1, abs=0.1)


def test_two_classes_need_no_correction_of_the_confidence() -> None:
    first, labels = unevenly_sure(300)
    ngrams = calibrate_ngrams(first[:, :2], labels % 2)

    assert correct_confidence(ngrams, first[:, :2], labels % 2) is ngrams


@pytest.mark.parametrize("texts", [2, 3, 4])
def test_a_handful_of_texts_is_no_evidence_for_a_network(texts: int) -> None:
    first, second, labels = drawn(texts, ngrams=2.0, network=0.0, seed=3)
    second = np.eye(3, dtype=np.float32)[labels] * 30  # right every time, and sure of it
    first, many = np.zeros_like(first), 40
    ngrams = Combination(2.0, 0.0, np.zeros(3))

    alone = add_network(ngrams, first, second, labels)
    repeated = add_network(
        ngrams, np.tile(first, (many, 1)), np.tile(second, (many, 1)), np.tile(labels, many)
    )

    assert alone.network == 0
    assert repeated.network > 0


def test_texts_of_one_class_are_no_evidence_for_a_network() -> None:
    first, second, labels = drawn(300, ngrams=2.0, network=1.0)
    ngrams, is_first = calibrate_ngrams(first, labels), labels == 0

    factor = add_network(ngrams, first[is_first], second[is_first], labels[is_first]).network

    assert factor == 0


def test_a_single_text_with_a_large_weight_does_not_decide_about_a_network() -> None:
    labels = np.append(np.zeros(99, np.int64), 1)
    weights = np.where(labels == 1, 99.0, 1.0)
    first, second = np.zeros((100, 2), np.float32), np.zeros((100, 2), np.float32)
    second[-1] = (-30, 30)  # it is right about the rare text and knows nothing of the others
    ngrams = Combination(2.0, 0.0, np.zeros(2))

    rare = add_network(ngrams, first, second, labels, weights).network
    repeated = add_network(
        ngrams,
        *(np.concatenate([part[:99], *[part[99:]] * 99]) for part in (first, second, labels)),
    ).network

    assert rare == 0
    assert repeated > 0


def test_a_network_with_many_training_texts_needs_less_evidence() -> None:
    first, second, labels = drawn(300, ngrams=2.0, network=0.1)
    ngrams = calibrate_ngrams(first, labels)

    factors = [
        add_network(ngrams, first, second, labels, training_texts=texts).network
        for texts in (0, 2_000, 4_000, 100_000)
    ]

    assert factors[0] == factors[1] < factors[2] < factors[3]


def test_training_texts_count_less_the_less_evenly_they_are_spread_over_the_classes() -> None:
    even, rare = np.arange(1_000) % 4, (np.arange(1_000) % 50 == 0).astype(np.int64)

    assert evenly_spread_texts(even, 4) == pytest.approx(1_000)
    assert evenly_spread_texts(rare, 2) == pytest.approx(1_000 * 4 * 0.98 * 0.02)
    assert evenly_spread_texts(np.zeros(9, np.int64), 1) == 0
    assert evenly_spread_texts(np.zeros(0, np.int64), 3) == 0


def test_without_texts_the_factors_are_the_prior() -> None:
    combination = fit_both(*drawn(0, ngrams=1.0, network=1.0))

    assert (combination.ngrams, combination.network) == (PRIOR_NGRAM_FACTOR, 0)
    np.testing.assert_array_equal(combination.bias, 0)


def test_a_class_without_any_calibration_text_keeps_a_finite_bias() -> None:
    first, second, labels = drawn(200, ngrams=2.0, network=1.0)
    labels[labels == 2] = 1

    combination = fit_both(first, second, labels)

    assert np.isfinite(combination.bias).all()
    assert combination.bias[2] < combination.bias[:2].min()


def test_weights_count_like_repetitions() -> None:
    first, _, labels = drawn(400, ngrams=2.0, network=0.7)
    weights = np.where(labels == 0, 3.0, 1.0)
    rows = np.repeat(np.arange(400), weights.astype(int))

    weighted = calibrate_ngrams(first, labels, weights)
    repeated = calibrate_ngrams(first[rows], labels[rows])

    assert weighted.ngrams == pytest.approx(repeated.ngrams, rel=0.02)
    np.testing.assert_allclose(weighted.bias, repeated.bias, atol=0.02)
    assert weighted.bias[0] > calibrate_ngrams(first, labels).bias[0] + 0.5


def test_weights_count_like_repetitions_for_mixed_classes_wrong_labels_and_the_loss() -> None:
    first, _, labels = drawn(400, ngrams=2.0, network=0.0)
    labels = flipped(labels, 0.2)
    weights = np.where(labels == 0, 3.0, 1.0)
    rows = np.repeat(np.arange(400), weights.astype(int))
    scale = len(rows) / len(labels)

    mixture, weighted = mix_classes(first, labels, weights)
    expected, repeated = mix_classes(first[rows], labels[rows])
    noisy, expected_noisy = (
        estimate_noise(first, labels, weights),
        estimate_noise(first[rows], labels[rows]),
    )

    np.testing.assert_allclose(mixture.matrix, expected.matrix, atol=0.1)
    np.testing.assert_allclose(weighted.bias, repeated.bias, atol=0.1)
    assert noisy.noise == pytest.approx(expected_noisy.noise, abs=0.02)
    loss = held_out_loss(weighted, first, labels, weights)
    assert scale * loss == pytest.approx(held_out_loss(weighted, first[rows], labels[rows]))


def test_a_model_tells_classes_apart_if_it_is_better_than_their_frequencies() -> None:
    first, _, labels = drawn(400, ngrams=2.0, network=0.0)
    weights = np.where(labels == 0, 3.0, 1.0)

    for given in (None, weights):
        fit = calibrate_ngrams(first, labels, given)
        assert tells_classes_apart(fit, first, labels, given)
        wrong = calibrate_ngrams(-first, labels, given)
        assert not tells_classes_apart(wrong, -first, labels, given)


def flipped(labels: Labels, share: float, classes: int = 3) -> Labels:
    draw = np.random.default_rng(9)
    wrong = draw.random(len(labels)) < share
    return np.where(wrong, (labels + draw.integers(1, classes, len(labels))) % classes, labels)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_the_share_of_flipped_labels_is_found(share: float) -> None:
    first, _, labels = drawn(20_000, ngrams=4.0, network=0.0)

    noisy = estimate_noise(first, flipped(labels, share))
    plain = calibrate_ngrams(first, flipped(labels, share))

    assert noisy.noise == pytest.approx(share, abs=0.02)
    assert noisy.ngrams == pytest.approx(4, rel=0.1)
    assert is_evidence_of_noise(noisy, plain, first, flipped(labels, share))


@pytest.mark.parametrize("texts", [3, 30, 300, 3_000])
def test_hard_texts_are_no_evidence_of_wrong_labels(texts: int) -> None:
    """The labels are drawn from the probabilities: most errors are those of an unsure model."""
    first, _, labels = drawn(texts, ngrams=1.0, network=0.0)

    noisy, plain = estimate_noise(first, labels), calibrate_ngrams(first, labels)

    assert not is_evidence_of_noise(noisy, plain, first, labels)


def test_a_few_wrong_labels_are_no_evidence() -> None:
    first, _, labels = drawn(300, ngrams=30.0, network=0.0)
    labels[:3] = (labels[:3] + 1) % 3

    noisy, plain = estimate_noise(first, labels), calibrate_ngrams(first, labels)

    assert noisy.noise < MIN_NOISE
    assert not is_evidence_of_noise(noisy, plain, first, labels)


def test_the_derivatives_with_noise_are_those_of_the_loss() -> None:
    draw = np.random.default_rng(0)
    logits, labels = draw.normal(size=(5, 4)), draw.integers(0, 4, 5)
    weights, step = draw.random(5), 1e-6

    _, errors = _losses(logits, labels, weights, 0.3)

    for place in np.ndindex(*logits.shape):
        moved = logits.copy()
        moved[place] += step
        change = _losses(moved, labels, weights, 0.3)[0] - _losses(logits, labels, weights, 0.3)[0]
        assert errors[place] == pytest.approx(change / step, abs=1e-4)


def test_wrong_labels_are_trusted_less_than_right_ones() -> None:
    first, _, labels = drawn(2_000, ngrams=20.0, network=0.0)
    given = flipped(labels, 0.2)

    trust = label_trust(calibrate_ngrams(first, given, noise=0.2), first, given)

    assert trust[given == labels].mean() > 0.9
    assert trust[given != labels].mean() < 0.3
    assert trust.mean() == pytest.approx(0.8, abs=0.03)


def test_a_network_is_added_under_the_same_share_of_wrong_labels() -> None:
    first, second, labels = drawn(20_000, ngrams=2.0, network=0.7)
    given = flipped(labels, 0.2)

    ngrams = calibrate_ngrams(first, given, noise=0.2)
    a, b, _, noise = add_network(ngrams, first, second, given)

    np.testing.assert_allclose([a, b], [2.0, 0.7], atol=0.15)
    assert noise == 0.2


NEIGHBOURS = np.array([[3.0, 1.5, -0.5], [1.0, 2.0, 1.0], [-0.5, 1.5, 4.0]])  # matrix of logits


def drawn_by_matrix(texts: int, seed: int = 0) -> tuple[Logits, Labels]:
    """Logits of three classes, and labels drawn from their product with ``NEIGHBOURS``."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(texts, 3)).astype(np.float32) - 1
    return first, (first @ NEIGHBOURS.T + random.gumbel(size=(texts, 3))).argmax(axis=1)


def mixed_logits(fitted: Logits, labels: Labels, logits: Logits) -> NDArray[np.float64]:
    mixture, combination = mix_classes(fitted, labels)
    return combination.logits(mixture.apply(logits), np.zeros_like(logits))


def test_the_mixture_of_classes_is_the_one_the_labels_were_drawn_with() -> None:
    first, labels = drawn_by_matrix(40_000)

    found = mixed_logits(first, labels, first)

    expected = first @ NEIGHBOURS.T
    np.testing.assert_allclose(
        softmax(found, axis=1), softmax(expected, axis=1), atol=0.03
    )  # the same constant may be added to all logits


def test_a_mixture_fits_new_texts_better_than_one_factor() -> None:
    first, labels = drawn_by_matrix(500)
    new, truth = drawn_by_matrix(5_000, seed=1)
    plain = calibrate_ngrams(first, labels).logits(new, np.zeros_like(new))

    mixed = mixed_logits(first, labels, new)

    ones = np.ones(len(truth))
    assert _losses(mixed, truth, ones)[0] < 0.9 * _losses(plain, truth, ones)[0]
    assert (mixed.argmax(axis=1) == truth).mean() > (plain.argmax(axis=1) == truth).mean() + 0.02


def test_classes_that_need_no_mixture_are_hardly_mixed() -> None:
    first, _, labels = drawn(20_000, ngrams=5.0, network=0.0)

    mixture, combination = mix_classes(first, labels)

    np.testing.assert_allclose(
        mixture.matrix - mixture.matrix.mean(axis=0), np.eye(3) - 1 / 3, atol=0.05
    )
    np.testing.assert_allclose(combination.bias, 0, atol=0.1)


def test_three_texts_per_class_hardly_mix_the_classes() -> None:
    labels = np.repeat(np.arange(3), 3)
    first = np.where(labels[:, None] == np.arange(3), 1, -1).astype(np.float32)
    plain = calibrate_ngrams(first, labels).logits(first, np.zeros_like(first))

    found = mixed_logits(first, labels, first)

    np.testing.assert_allclose(softmax(found, axis=1), softmax(plain, axis=1), atol=0.02)


def test_a_class_with_fewer_texts_than_classes_is_not_mixed() -> None:
    first, labels = drawn_by_matrix(400)
    labels[labels == 2] = 1
    labels[:2] = 2

    mixture, combination = mix_classes(first, labels)

    np.testing.assert_array_equal(mixture.matrix[2], [0, 0, 1])
    np.testing.assert_array_equal(mixture.matrix[:2, 2], 0)
    assert mixture.shift[2] == 0
    assert np.abs(mixture.matrix[:2, :2] - np.eye(2)).max() > 0.1
    assert np.isfinite(combination.bias).all()


def test_the_number_of_threads_makes_no_difference_to_a_mixture() -> None:
    first, labels = drawn_by_matrix(3_000)

    with threadpool_limits(1):
        one = mix_classes(first, labels)[0]
    with threadpool_limits(2):
        two = mix_classes(first, labels)[0]

    np.testing.assert_array_equal(one.matrix, two.matrix)
    np.testing.assert_array_equal(one.shift, two.shift)


def test_mixing_a_few_of_many_classes_is_the_same_as_mixing_them_alone() -> None:
    draw = np.random.default_rng(0)
    labels = np.append(draw.integers(0, 3, 900), np.arange(3, 280))
    logits = draw.normal(size=(len(labels), 280)).astype(np.float32)
    logits[np.arange(900), (labels[:900] + 1) % 3] += 2  # often taken for the next class
    logits[np.arange(len(labels)), labels] += 2

    mixture, combination = mix_classes(logits, labels)

    others = np.arange(3, 280)
    np.testing.assert_array_equal(mixture.matrix[others], np.eye(280, dtype=np.float32)[others])
    assert (mixture.matrix[:3, 3:] == 0).all()
    assert np.abs(mixture.matrix[:3, :3] - np.eye(3)).max() > 0.05
    plain = calibrate_ngrams(logits, labels)
    assert held_out_loss(combination, mixture.apply(logits), labels) < held_out_loss(
        plain, logits, labels
    )
