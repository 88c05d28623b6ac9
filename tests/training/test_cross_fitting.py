"""Cross-fitting of the n-gram model: wrong labels, mixed classes and range powers."""

import warnings
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from lamatext import TextClassifier
from lamatext.data.duplicates import TextGroups
from lamatext.data.splits import Split
from lamatext.errors import percent
from lamatext.metrics import calibration_error, measure_reliability
from lamatext.progress import Progress
from lamatext.training import cross_fitting
from tests.corpora import TINY, reviews

WITH_NGRAMS = TINY | {"ngrams.enabled": True, "training.epochs": 1}
KINDS = ("apple", "banana", "cherry", "damson")
PARTS = ("leaf", "seed", "peel", "stem", "root")
OTHERS = ["".join(letters) for letters in product("bdfgklmn", "aeiou", "prst", "y")]


def fruit(count: int, *, wrong: float = 0.0, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts about one of four fruits, with a share of labels of another."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        kind = number % 4
        words = [*draw.choice(OTHERS, 8), KINDS[kind], f"{KINDS[kind]}{draw.choice(PARTS)}"]
        texts.append(" ".join(draw.permutation(words)))
        kind += int(draw.integers(1, 4)) if draw.random() < wrong else 0
        labels.append(KINDS[kind % 4])
    return texts, labels


def fitted(
    texts: list[str], labels: list[str], groups: Any = None, **parameters: object
) -> TextClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of labels seen once
        classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
        classifier.set_params(**parameters)
        return classifier.fit(texts, labels, groups=groups)


def accuracy(classifier: TextClassifier) -> float:
    texts, labels = fruit(400, seed=1)
    return float((classifier.predict(texts) == labels).mean())


@pytest.mark.parametrize("wrong", [0.2, 0.4])
def test_wrong_labels_are_found_and_hardly_harm(wrong: float) -> None:
    classifier = fitted(*fruit(300, wrong=wrong))

    assert classifier.facts_["label_noise"] == pytest.approx(wrong, abs=0.08)
    assert accuracy(classifier) > 0.97
    confidence = classifier.predict_proba(fruit(400, seed=1)[0]).max(axis=1)
    assert confidence.max() < 1 - wrong + 0.08
    assert confidence.mean() == pytest.approx(1 - wrong, abs=0.08)


def test_right_labels_leave_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels = fruit(200)
    found = fitted(texts, labels)

    monkeypatch.setattr(cross_fitting, "_find_label_noise", lambda *_: None)
    expected = fitted(texts, labels)

    assert "label_noise" not in found.facts_
    assert found.ngrams_ is not None
    assert found.ngrams_.range_power == 0
    assert found.facts_["training"]["scales"] == expected.facts_["training"]["scales"]
    np.testing.assert_array_equal(found.predict_proba(texts), expected.predict_proba(texts))


@pytest.mark.parametrize("each", [1, 3])
def test_a_few_texts_per_class_are_no_evidence_of_wrong_labels(each: int) -> None:
    texts, labels = fruit(4 * each)
    labels[0] = labels[1]

    classifier = fitted(texts, labels)

    assert "label_noise" not in classifier.facts_
    assert np.isfinite(classifier.predict_proba(texts)).all()


def test_the_words_of_a_class_with_a_single_text_are_learned_among_wrong_labels() -> None:
    texts, labels = fruit(400, wrong=0.3)

    classifier = fitted([*texts, "quince quince jelly"], [*labels, "quince"])

    assert classifier.facts_["label_noise"] > 0.2
    assert classifier.ngrams_ is not None
    change = classifier.ngrams_.logits([["quince", "jelly"]])[0] - classifier.ngrams_.base
    assert classifier.classes_[change.argmax()] == "quince"


@pytest.mark.parametrize("by", ["class_weight", "sample_weight"])
def test_labels_that_have_weights_are_trusted(by: str) -> None:
    texts, labels = fruit(200, wrong=0.3)
    if by == "class_weight":
        classifier = fitted(texts, labels, class_weight="balanced")
    else:
        classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
        classifier.fit(texts, labels, sample_weight=np.tile([0.9, 1.1], len(texts) // 2))

    assert "label_noise" not in classifier.facts_


def test_labels_of_very_many_classes_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels = fruit(300, wrong=0.3)
    assert fitted(texts, labels).facts_["label_noise"] > 0.2

    monkeypatch.setattr(cross_fitting, "MAX_CLASSES", 3)

    assert "label_noise" not in fitted(texts, labels).facts_


def test_many_validation_texts_are_evidence_without_cross_fitting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 30)
    monkeypatch.setattr(cross_fitting, "NOISE_TEXTS", 30)

    assert fitted(*fruit(600, wrong=0.3)).facts_["label_noise"] == pytest.approx(0.3, abs=0.15)


def test_few_validation_texts_are_supplemented_by_cross_fitting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 5)
    counts: list[int] = []
    cross_fitted = cross_fitting._cross_fitted

    def counted(fitter: cross_fitting.NgramFitter, rows: np.ndarray, count: int) -> object:
        counts.append(len(rows))
        return cross_fitted(fitter, rows, count)

    monkeypatch.setattr(cross_fitting, "_cross_fitted", counted)
    classifier = fitted(*fruit(120, wrong=0.2))

    assert counts[0] == 108  # nothing is learned from the 12 validation labels
    assert classifier.facts_["label_noise"] == pytest.approx(0.2, abs=0.12)


def confidence_and_accuracy(classifier: TextClassifier) -> tuple[float, float]:
    """Return mean confidence and accuracy on new texts with ratings."""
    texts, labels = ratings(1000, seed=1)
    right = classifier.predict(texts) == labels
    return float(classifier.predict_proba(texts).max(axis=1).mean()), float(right.mean())


def test_copies_of_the_texts_change_little(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels = ratings(200)
    confidence, right = confidence_and_accuracy(fitted(texts, labels))
    with_copies = confidence_and_accuracy(fitted(texts * 3, labels * 3))

    monkeypatch.setattr(cross_fitting, "_groups_of", lambda *_: None)
    _, right_apart = confidence_and_accuracy(fitted(texts * 3, labels * 3))

    assert with_copies == pytest.approx((confidence, right), abs=0.04)
    assert right_apart < right - 0.05


def test_customers_who_repeat_themselves_do_not_make_a_model_too_sure() -> None:
    texts, labels = ratings(200)
    other_words = np.random.default_rng(0).choice(OTHERS, (800, 40))
    texts = [
        f"{text} {' '.join(words)}" for text, words in zip(texts * 4, other_words, strict=True)
    ]
    customers = np.tile(np.arange(200), 4)

    confidence, right = confidence_and_accuracy(fitted(texts, labels * 4, groups=customers))
    confidence_apart, right_apart = confidence_and_accuracy(fitted(texts, labels * 4))

    assert right > right_apart
    assert confidence - right < (confidence_apart - right_apart) / 2


ANSWERS = {"y": ("yes", "yes!", "yep", "yeah"), "n": ("no", "nope", "nah"), "m": ("maybe", "dunno")}
ORDERS = {
    "late": ("order {} late", "shipment {} delayed"),
    "lost": ("parcel {} lost", "packet {} missing"),
    "ok": ("order {} fine", "thanks {} all good"),
}


@pytest.mark.parametrize("times", [40, 900])
@pytest.mark.parametrize("templates", [ANSWERS, ORDERS], ids=["answers", "orders"])
def test_a_few_texts_that_occur_many_times_are_learned(
    templates: dict[str, Any], times: int
) -> None:
    texts, labels = [], []
    for label, each in templates.items():
        texts += [text.format(number) for text in each for number in range(times)]
        labels += [label] * len(each) * times

    classifier = fitted(texts, labels)

    assert (classifier.predict(texts) == labels).all()
    assert "label_noise" not in classifier.facts_


def test_one_of_all_duplicates_with_the_same_label_stands_for_those_who_chose_it() -> None:
    labels = np.array([1, 0, 1, 1, 0, 1])
    duplicates = np.array([7, 7, 7, 2, 5, 2])

    places, weights = cross_fitting.deduplicate(labels, duplicates, np.ones(6))
    all_places, ones = cross_fitting.deduplicate(labels, None, np.ones(6))

    assert places.tolist() == [0, 1, 3, 4]
    # Shares 2/3, 1/3, 1 and 1 of their duplicates; class 0 has two texts in all, class 1 four.
    assert weights == pytest.approx([1.6, 0.5, 2.4, 1.5])
    assert all_places.tolist() == [*range(6)]
    assert ones.tolist() == [1] * 6


def test_weights_of_all_duplicates_count() -> None:
    labels, duplicates = np.array([0, 0, 0, 1]), np.array([4, 4, 5, 6])

    places, weights = cross_fitting.deduplicate(labels, duplicates, np.array([1.0, 3.0, 2.0, 7.0]))

    assert places.tolist() == [0, 2, 3]
    assert weights.tolist() == [3, 3, 7]  # means 2 and 2, times 6 / 4


def test_copies_make_a_rare_class_as_likely_as_the_others() -> None:
    texts, labels = ratings(400)
    rare = [row for row in range(400) if labels[row] == "5"][:8]
    others = [row for row in range(400) if labels[row] != "5"]
    new, _ = ratings(500, seed=1)

    once, often = (
        fitted([texts[row] for row in kept], [labels[row] for row in kept]).predict_proba(new)
        for kept in (others + rare, others + rare * 10)
    )

    assert once[:, 4].mean() < 0.1
    assert often[:, 4].mean() == pytest.approx(0.2, abs=0.05)


def test_a_few_groups_of_each_class_are_no_evidence_of_wrong_labels() -> None:
    texts, labels = ratings(400)
    groups = [f"{label} {number % 2}" for number, label in enumerate(labels)]

    alone, grouped = fitted(texts, labels), fitted(texts, labels, groups=groups)

    noise = [float(each.facts_.get("label_noise", 0)) for each in (alone, grouped)]
    assert noise[1] <= noise[0] + 0.03


@pytest.mark.parametrize("count", [60, 600])
def test_one_group_of_all_texts_is_no_group(count: int) -> None:
    texts, labels = fruit(count)

    alone, grouped = fitted(texts, labels), fitted(texts, labels, groups=["same"] * count)

    new, _ = fruit(40, seed=1)
    np.testing.assert_array_equal(alone.predict_proba(new), grouped.predict_proba(new))


@pytest.mark.parametrize("groups", ["of all texts", "of a class", "of each class"])
def test_groups_in_which_nothing_can_be_held_out_are_ignored(groups: str) -> None:
    texts, labels = fruit(60)
    own = {
        "of all texts": np.zeros(60),
        "of a class": np.where(np.array(labels) == "apple", -1, np.arange(60)),
        "of each class": labels,
    }[groups]

    classifier = fitted(texts, labels, groups=own)

    assert accuracy(classifier) > 0.97
    confidence = classifier.predict_proba(fruit(400, seed=1)[0])
    assert all(confidence[:, number].max() > 0.8 for number in range(4))


class Fits(Progress):
    """Progress that counts the fits of n-gram models since each announcement of fits."""

    def __init__(self) -> None:
        self.fits = 0
        self.announced: list[tuple[int, int]] = []  # how many follow, and those before

    def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002 - not counted
        self.fits += name == "fitting the n-grams"

    def expect(self, name: str, count: int) -> None:
        if name == "fitting the n-grams":
            self.announced.append((count, self.fits))


@pytest.mark.parametrize(("cross_fit_below", "most_fits"), [(500, 36), (10, 10)])
def test_wrong_labels_take_a_limited_number_of_fits_which_are_announced(
    monkeypatch: pytest.MonkeyPatch, cross_fit_below: int, most_fits: int
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", cross_fit_below)
    progress = Fits()

    classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
    classifier.fit(*fruit(300, wrong=0.3), progress=progress)

    assert "label_noise" in classifier.facts_
    assert progress.fits <= most_fits
    totals = [count + before for count, before in progress.announced]
    assert totals[0] == totals[1] == most_fits  # when labels are suspected, and when doubted
    assert totals[-1] == progress.fits


@pytest.mark.parametrize("validation", [50, 499, 500, 999, 1000])
def test_the_fits_of_right_labels_are_foreseen(
    monkeypatch: pytest.MonkeyPatch, validation: int
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 50)
    monkeypatch.setattr(cross_fitting, "NOISE_TEXTS", 100)
    texts, labels = fruit(200 + validation // 10)
    progress = Fits()

    classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
    held_out = texts[200:], labels[200:]
    classifier.fit(texts[:200], labels[:200], validation_data=held_out, progress=progress)

    assert progress.fits == cross_fitting.expected_fits(validation // 10, 4)


def test_validation_texts_with_wrong_labels_weigh_less_in_the_final_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 100)
    trusts = []
    original = cross_fitting._with_less_weight_on_noise

    def kept(*arguments: object) -> cross_fitting.CrossFit:
        fit = original(*arguments)  # type: ignore[arg-type]
        trusts.append(fit.fitter.trust)
        return fit

    monkeypatch.setattr(cross_fitting, "_with_less_weight_on_noise", kept)
    texts, labels = fruit(400, wrong=0.3)
    is_wrong = np.array([label != KINDS[number % 4] for number, label in enumerate(labels)])
    classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
    classifier.fit(texts[:250], labels[:250], validation_data=(texts[250:], labels[250:]))

    trust = trusts[0]
    assert trust is not None
    for rows in (slice(0, 250), slice(250, 400)):
        assert trust[rows][is_wrong[rows]].mean() < 0.3 < 0.8 < trust[rows][~is_wrong[rows]].mean()


def test_the_model_is_saved_with_the_share_of_wrong_labels(tmp_path: object) -> None:
    texts, labels = fruit(240, wrong=0.2)
    classifier = fitted(texts, labels)

    folder = classifier.save(str(tmp_path))
    again = TextClassifier.load(folder)

    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"About {percent(classifier.facts_['label_noise'], 0)} of the labels" in card
    assert "lamatext clean" in card


def test_training_on_wrong_labels_is_reproducible() -> None:
    texts, labels = fruit(160, wrong=0.3)

    one, other = fitted(texts, labels), fitted(texts, labels)

    np.testing.assert_array_equal(one.predict_proba(texts), other.predict_proba(texts))


RATINGS = ("1", "2", "3", "4", "5")


def ratings(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts rated 1 to 5, whose words are often those of the next lower or higher rating."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        rating = number % 5
        near = np.clip(rating + draw.choice([-1, 0, 1], 4, p=[0.3, 0.4, 0.3]), 0, 4)
        words = [f"{OTHERS[place]}{draw.choice(PARTS)}" for place in near]
        texts.append(" ".join(draw.permutation([*words, *draw.choice(OTHERS[20:], 6)])))
        labels.append(RATINGS[rating])
    return texts, labels


def scores(classifier: TextClassifier) -> tuple[float, float]:
    """Return accuracy and mean log-likelihood on new texts with ratings."""
    texts, labels = ratings(1000, seed=1)
    probabilities = classifier.predict_proba(texts)
    truth = np.searchsorted(classifier.classes_, labels)
    own = probabilities[np.arange(len(truth)), truth]
    return float((probabilities.argmax(axis=1) == truth).mean()), float(np.log(own).mean())


def without_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_fitting, "_with_mixed_classes", lambda fit, _: fit)


def test_mixed_classes_separate_neighbouring_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels = ratings(400)
    accuracy, likelihood = scores(fitted(texts, labels))

    without_mixture(monkeypatch)
    plain_accuracy, plain_likelihood = scores(fitted(texts, labels))

    assert accuracy > plain_accuracy + 0.02
    assert likelihood > plain_likelihood + 0.05


@pytest.mark.parametrize(("texts", "is_mixed"), [(20, False), (25, True)])
def test_classes_with_as_many_texts_as_there_are_classes_are_mixed(
    texts: int, is_mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = fitted(*ratings(texts)).predict_proba(["", "bapy"])

    without_mixture(monkeypatch)
    plain = fitted(*ratings(texts)).predict_proba(["", "bapy"])

    assert (mixed != plain).any() == is_mixed


def test_classes_are_not_mixed_if_they_have_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("classes were mixed")

    monkeypatch.setattr(cross_fitting, "mix_classes", fail)
    fitted(*ratings(60), class_weight="balanced")


@pytest.mark.parametrize("all_texts_below", [5, 5_000])
def test_more_validation_texts_do_not_make_ratings_worse(
    all_texts_below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, labels = ratings(400)
    few_accuracy, few_likelihood = scores(fitted(texts, labels))

    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 40)
    monkeypatch.setattr(cross_fitting, "ALL_TEXTS_BELOW", all_texts_below)
    accuracy, likelihood = scores(fitted(texts, labels))

    assert accuracy > few_accuracy - 0.03
    assert likelihood > few_likelihood - (0.05 if all_texts_below == 5_000 else 0.2)


def test_all_texts_calibrate_three_or_more_classes_unless_validation_texts_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 40)
    monkeypatch.setattr(cross_fitting, "NOISE_TEXTS", 40)
    original, fits = cross_fitting._cross_fitted, []

    def counted(fitter: cross_fitting.NgramFitter, rows: np.ndarray, count: int) -> object:
        fits.append((len(rows), count))
        return original(fitter, rows, count)

    monkeypatch.setattr(cross_fitting, "_cross_fitted", counted)
    fitted(*ratings(400))
    fitted(*fruit(400))
    assert fits == [(400, cross_fitting.FOLDS_OF_ALL_TEXTS)] * 2

    fits.clear()
    fitted(*reviews(400))  # two classes
    monkeypatch.setattr(cross_fitting, "ALL_TEXTS_BELOW", 40)
    fitted(*ratings(400))
    assert not fits


def test_mixed_classes_are_saved_explained_and_reproducible(tmp_path: object) -> None:
    texts, labels = ratings(100)
    classifier = fitted(texts, labels)

    again = TextClassifier.load(classifier.save(str(tmp_path)))

    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    other = fitted(texts, labels).predict_proba(texts)
    np.testing.assert_array_equal(other, classifier.predict_proba(texts))
    assert again.ngrams_ is not None
    words = texts[0].split()
    contributions = again.ngrams_.contributions(words).sum(axis=1)
    logits = again.ngrams_.logits([words])[0]
    np.testing.assert_allclose(contributions + again.ngrams_.base, logits, atol=1e-5)


def test_a_model_with_mixed_classes_can_be_continued_on_some_of_its_classes() -> None:
    classifier = fitted(*ratings(200))
    texts, labels = ratings(200, seed=2)
    rows = [row for row, label in enumerate(labels) if label in RATINGS[:3]]

    classifier.set_params(warm_start=True)
    classifier.fit([texts[row] for row in rows], [labels[row] for row in rows])

    new, truth = ratings(500, seed=1)
    assert classifier.classes_.tolist() == list(RATINGS)
    assert np.isfinite(classifier.predict_proba(new)).all()
    known = np.isin(truth, RATINGS[:3])
    assert (classifier.predict(new)[known] == np.array(truth)[known]).mean() > 0.5


def intents(each: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of 40 classes: some have four words of their class, some one, some those of another."""
    draw = np.random.default_rng(seed)
    names = [f"{a}{b}" for a, b in product("bdfgklmn", "aeiou")]
    texts, labels = [], []
    for label in names * each:
        kind = draw.choice(3, p=[0.45, 0.4, 0.15])
        name = draw.choice(names) if kind == 2 else label
        words = [f"{name}{part}" for part in draw.permutation(PARTS)[: 1 if kind == 1 else 4]]
        texts.append(" ".join([*words, *draw.choice(OTHERS, 8 if kind == 1 else 1)]))
        labels.append(label)
    return texts, labels


def error_on_intents(classifier: TextClassifier) -> float:
    texts, labels = intents(20, seed=1)
    probabilities = classifier.predict_proba(texts)
    truth = np.searchsorted(classifier.classes_, labels)
    return calibration_error(measure_reliability(truth, probabilities.astype(np.float64)))


def test_a_range_power_calibrates_many_classes_of_few_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, labels = intents(6)
    divided = fitted(texts, labels)

    monkeypatch.setattr(cross_fitting, "RANGE_POWERS", ())
    plain = fitted(texts, labels)

    assert divided.ngrams_ is not None
    assert plain.ngrams_ is not None
    assert divided.ngrams_.range_power > 0
    assert plain.ngrams_.range_power == 0
    assert error_on_intents(divided) < 0.6 * error_on_intents(plain)


def test_the_folds_that_calibrate_a_range_power_are_fitted_to_labels_that_occur_once_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, labels = intents(6)
    single = [f"once{number}" for number in range(30)]
    cross_fitted, rows = cross_fitting._cross_fitted, {}

    def count_rows(fitter: Any, fitted: Any, folds: int, *more: Any) -> Any:
        rows[folds] = len(fitted)
        return cross_fitted(fitter, fitted, folds, *more)

    monkeypatch.setattr(cross_fitting, "_cross_fitted", count_rows)
    divided = fitted([*texts, *(f"{name} film" for name in single)], [*labels, *single])

    assert divided.ngrams_ is not None
    assert divided.ngrams_.range_power > 0
    assert rows[cross_fitting.FOLDS_OF_RANGE] == rows[cross_fitting.CROSS_FIT_FOLDS] == 270


@pytest.mark.parametrize("all_texts_below", [500, 5_000])
def test_many_validation_texts_find_a_range_power_with_and_without_further_fits(
    all_texts_below: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, labels = intents(6)
    classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
    monkeypatch.setattr(cross_fitting, "ALL_TEXTS_BELOW", all_texts_below)
    if all_texts_below == 500:
        monkeypatch.setattr(cross_fitting, "_cross_fitted", None)

    divided = clone(classifier).fit(texts, labels, validation_data=intents(20, seed=2))
    monkeypatch.setattr(cross_fitting, "RANGE_POWERS", ())
    plain = clone(classifier).fit(texts, labels, validation_data=intents(20, seed=2))

    assert divided.ngrams_ is not None
    assert divided.ngrams_.range_power > 0
    assert error_on_intents(divided) < 0.6 * error_on_intents(plain)


@pytest.mark.parametrize(("largest", "power"), [(1.0, 0), (100.0, 0.6), (1e4, 0.8)])
def test_a_range_power_needs_weights_that_can_be_saved(
    largest: float, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_fitting, "MAX_FACTOR", largest)  # a factor of 4.8 is 4.8⁵ at 0.8

    classifier = fitted(*intents(6))

    assert classifier.ngrams_ is not None
    assert classifier.ngrams_.range_power == power


def test_the_confidence_of_the_final_model_is_corrected_with_the_weights_of_the_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, labels = intents(3)
    weights = np.random.default_rng(0).uniform(1, 2, len(texts))
    seen: list[np.ndarray] = []

    def corrected(factor: float) -> float:
        def correct(ngrams: Any, _: Any, __: Any, by_text: np.ndarray) -> Any:
            seen.append(by_text)
            return ngrams._replace(ngrams=factor * ngrams.ngrams)

        monkeypatch.setattr(cross_fitting, "correct_confidence", correct)
        classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
        classifier.fit(texts, labels, sample_weight=weights)
        scales: dict[str, float] = classifier.facts_["training"]["scales"]
        assert scales["network"] == 0
        return scales["ngrams"]

    assert corrected(2.0) == pytest.approx(2 * corrected(1.0))
    np.testing.assert_allclose(np.sort(seen[0]), np.sort(weights), rtol=1e-6)


def power_of_the_last_fit(monkeypatch: pytest.MonkeyPatch, *corpus: list[str]) -> float:
    powers: list[float] = []
    fit = cross_fitting.NgramFitter.fit

    def record(fitter: cross_fitting.NgramFitter, rows: Any) -> Any:
        powers.append(fitter.settings.naive_bayes_power)
        return fit(fitter, rows)

    monkeypatch.setattr(cross_fitting.NgramFitter, "fit", record)
    fitted(*corpus)
    return powers[-1]


@pytest.mark.parametrize(("evidence", "power"), [(-1e9, 0), (1e9, 0.5)])
def test_ngrams_of_many_tiny_classes_are_fitted_without_naive_bayes_ratios_if_that_is_likelier(
    evidence: float, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_fitting, "UNSCALED_CLASSES", 39)
    monkeypatch.setattr(cross_fitting, "UNSCALED_EVIDENCE", evidence)

    assert power_of_the_last_fit(monkeypatch, *intents(6)) == power


@pytest.mark.parametrize(("classes", "texts"), [(40, 10), (39, 6)])
def test_ngrams_of_few_classes_or_of_larger_ones_use_naive_bayes_ratios(
    classes: int, texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_fitting, "UNSCALED_CLASSES", classes)
    monkeypatch.setattr(cross_fitting, "UNSCALED_TEXTS", texts)
    monkeypatch.setattr(cross_fitting, "UNSCALED_EVIDENCE", -1e9)

    assert power_of_the_last_fit(monkeypatch, *intents(6)) == 0.5


def annotated(seed: int, *, annotators: int, count: int = 600) -> tuple[list[str], list[str]]:
    """Texts about fruits, each labelled by several people who are wrong once in seven times."""
    texts, _ = fruit(count, seed=seed)
    draw = np.random.default_rng(seed + 100)
    rows, labels = np.repeat(np.arange(count), annotators), []
    for row in rows:
        kind = row % 4 + (int(draw.integers(1, 4)) if draw.random() < 1 / 7 else 0)
        labels.append(KINDS[kind % 4])
    return [texts[row] for row in rows], labels


def test_several_labels_of_each_text_are_calibrated_and_doubted_like_one() -> None:
    new, new_labels = annotated(1, annotators=1)

    once, often = (fitted(*annotated(6, annotators=count)) for count in (1, 5))

    for classifier in (once, often):
        confidence = classifier.predict_proba(new).max(axis=1).mean()
        assert confidence == pytest.approx((classifier.predict(new) == new_labels).mean(), abs=0.06)
        assert classifier.facts_["label_noise"] == pytest.approx(1 / 7, abs=0.06)


def test_what_a_teacher_predicts_is_no_evidence_for_the_calibration() -> None:
    texts, labels = ratings(300)
    unlabelled, _ = ratings(1500, seed=2)
    first = fitted(texts, labels)

    taught = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0, teacher=first)
    taught.fit(texts, labels, unlabelled=unlabelled)

    confidence, right = confidence_and_accuracy(taught)
    assert confidence == pytest.approx(right, abs=0.06)


def test_a_large_validation_set_without_some_class_does_not_suppress_that_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CROSS_FIT_BELOW", "ALL_TEXTS_BELOW", "NOISE_TEXTS"):
        monkeypatch.setattr(cross_fitting, name, 60)
    texts, labels = ratings(400)
    held_out = [row for row, label in enumerate(labels) if label != "5"][:100]
    rest = [row for row in range(400) if row not in held_out]

    classifier = TextClassifier(settings=WITH_NGRAMS, device="cpu", random_state=0)
    classifier.fit(
        [texts[row] for row in rest],
        [labels[row] for row in rest],
        validation_data=([texts[row] for row in held_out], [labels[row] for row in held_out]),
    )

    new, _ = ratings(500, seed=1)
    assert classifier.predict_proba(new)[:, 4].mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("copies", [1, 10])
def test_copies_of_validation_texts_count_once(
    monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 20)
    texts, _ = ratings(60)
    column = pa.chunked_array([texts[:20] + texts[20:60] * copies], pa.large_string())
    rows, labels = np.arange(len(column)), np.zeros(len(column), np.int64)
    split = Split(rows[:20], rows[20:], groups=TextGroups(column))

    assert cross_fitting._count_validation_texts(split, labels) == 40


def test_validation_texts_that_are_trained_on_are_no_evidence() -> None:
    rows, labels = np.arange(1000), np.zeros(1000, np.int64)

    assert cross_fitting._count_validation_texts(Split(rows, rows[400:]), labels) == 0
    assert cross_fitting._count_validation_texts(Split(rows[:400], rows[400:]), labels) == 600


def test_only_texts_with_counted_ngrams_and_with_weight_are_cross_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "_cross_fitted", lambda _, rows, __: rows)
    fields = dict.fromkeys(cross_fitting.NgramFitter.__dataclass_fields__)
    sample = {"sample": np.arange(0, 60, 2), "validation_texts": 5}
    fitter = cross_fitting.NgramFitter(**fields | sample)  # type: ignore[arg-type]
    weights = np.ones(60)
    weights[:10] = 0

    held_out = cross_fitting._held_out_ngrams(
        fitter, Split(np.arange(20), np.arange(20, 25)), weights
    )

    assert list(held_out) == [10, 12, 14, 16, 18, 20, 22, 24]


def test_texts_that_the_continued_model_was_trained_on_are_no_evidence() -> None:
    fields = dict.fromkeys(cross_fitting.NgramFitter.__dataclass_fields__)
    is_known = np.array([True, False, False, True])
    fitter = cross_fitting.NgramFitter(**fields | {"is_known": is_known})

    assert fitter.is_evidence(np.array([3, 1, 0])).tolist() == [False, True, False]


@pytest.mark.parametrize("below", [500, 20])
@pytest.mark.parametrize(("old", "new"), [(300, 0), (300, 100), (80, 220)])
def test_a_model_continued_on_its_own_texts_does_not_become_too_sure(
    monkeypatch: pytest.MonkeyPatch, below: int, old: int, new: int
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", below)
    texts, labels = ratings(300)
    classifier = fitted(texts, labels, warm_start=True)
    confidence, right = confidence_and_accuracy(classifier)

    more, more_labels = ratings(new, seed=2)
    classifier.fit(texts[:old] + more, labels[:old] + more_labels)

    confidence_again, right_again = confidence_and_accuracy(classifier)
    assert confidence_again - right_again < max(0.0, confidence - right) + 0.06
    assert right_again > right - 0.04
    is_validated = "validation accuracy" in repr(classifier)
    assert is_validated == (new == 220)  # the others have fewer than 20 new validation texts


def test_the_network_is_added_to_the_logits_that_the_final_ngrams_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cross_fitting, "CROSS_FIT_BELOW", 30)
    monkeypatch.setattr(cross_fitting, "NOISE_TEXTS", 30)
    monkeypatch.setattr(cross_fitting, "RANGE_EVIDENCE", -np.inf)
    seen: list[tuple[Any, Any, Any]] = []
    calibrate = cross_fitting._calibrate_many_classes

    def remembered(first: Any, *given: Any) -> Any:
        best, validation = calibrate(first, *given)
        seen.append((first, best, validation))
        return best, validation

    monkeypatch.setattr(cross_fitting, "_calibrate_many_classes", remembered)
    classifier = fitted(*ratings(500))

    first, best, validation = seen[0]
    model = classifier.ngrams_
    assert model is not None
    assert model.range_power > 0
    expected = first.held_out.mixed(best.fitter.mixture).divided(model.range_power)
    np.testing.assert_allclose(validation.logits, expected.logits)
    assert np.abs(validation.logits - first.held_out.logits).max() > 0.1
