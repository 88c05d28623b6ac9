"""Cross-fitting of the n-gram model: out-of-sample logits for calibration, and wrong labels.

Every text gets the logits of a model that was fitted to other texts. If they are evidence of wrong
labels (``training/calibration.py``), the n-gram model is fitted again, each text weighted by the
probability that its label is right, and with the strength of the fit that held-out texts prefer.
With more than ``DOUBTED_CLASSES`` classes all labels are trusted: a class has too few texts to tell
wrong labels from hard texts, and the many fits would take most of the training time.

If all texts are cross-fitted, the logits of three or more classes, with at least that many texts
each, are mixed by a matrix (``training/calibration.py``), which becomes part of the weights.

With many classes of few texts each, a single factor cannot calibrate the logits: texts with large
ones are classified right less often, and texts with small ones more often, than the softmax says.
If the held-out texts are clear evidence of that, the logits of each text are divided by a power of
their range (``ngrams/model.py``), the one under which those texts are most likely. The range grows
with the texts per class, so the factor is then fitted with more folds, which leave out fewer.

Shapes: n texts, C classes.
"""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.splits import Split, folds
from lamatext.data.token_ids import Indices
from lamatext.ngrams.model import ClassMixture, NgramModel, divide_by_range
from lamatext.progress import SILENT, Progress
from lamatext.settings import NgramSettings
from lamatext.training.batching import EncodedDataset
from lamatext.training.calibration import (
    MIN_NOISE,
    Combination,
    calibrate_ngrams,
    estimate_noise,
    held_out_loss,
    is_evidence_of_noise,
    label_trust,
    mix_classes,
)
from lamatext.training.loop import LoopSettings
from lamatext.training.preparation import PreparedRun, sample_rows
from lamatext.training.warm_start import start_ngrams

if TYPE_CHECKING:
    from lamatext.ngrams.fitting import CountedTexts

CROSS_FIT_BELOW = 500  # validation texts; with fewer, all texts are cross-fitted to calibrate
CROSS_FIT_FOLDS = 5
FOLDS_OF_RANGE = 10  # if the logits are divided by a power of their range
NGRAM_TEXTS = 500_000  # of texts on disk, that the n-gram model is fitted to
NOISE_TEXTS = 1000  # validation texts; with fewer, all are cross-fitted to find wrong labels
DOUBTED_CLASSES = 200  # with more, all labels are trusted: doubting them takes up to 20 fits
TRUST_FOLDS = 3  # of the texts whose labels are doubted
UNDOUBTED_TEXTS = 10  # classes with fewer are too rare to tell which of their labels are wrong
RANGE_POWERS = (0.2, 0.4, 0.6, 0.8)  # of the range of a text's logits, tried besides 0
RANGE_EVIDENCE = 3.0  # log-likelihood that held-out texts must gain by it, as by wrong labels
SVM_STRENGTHS = (1.0, 0.3, 0.1)  # times ``ngrams.svm_c``, tried if labels are wrong

Logits = NDArray[np.float32]  # (n, C)


class HeldOutNgrams(NamedTuple):
    """Held-out n-gram logits from cross-fitting: each text's model was fitted to other texts."""

    rows: Indices
    logits: Logits
    base: NDArray[np.float32]  # (C,) of a text without known n-grams


class CrossFit(NamedTuple):
    """Result of cross-fitting an n-gram model: its fitter, held-out logits and calibration."""

    fitter: "NgramFitter"
    held_out: HeldOutNgrams
    combination: Combination  # without a network, for the seen classes


@dataclass(frozen=True, slots=True)
class NgramFitter:
    """Fits n-gram models to subsets of the texts of a training run, for cross-fitting."""

    prepared: PreparedRun
    data: EncodedDataset
    counted: "CountedTexts"
    sample: Indices | None  # rows of the counted texts; None if all are
    settings: NgramSettings
    class_weights: NDArray[np.float32] | None
    start: NgramModel | None
    progress: Progress
    noise: float = 0.0  # share of wrong labels
    mixture: ClassMixture | None = None  # of the logits of all classes
    range_power: float = 0.0  # of the fitted models

    def fit(self, rows: Indices) -> NgramModel:
        """Fit an n-gram model to some rows of the data: in cross-fitting, all folds but one.

        If labels are wrong, each text is weighted by the probability that its label is right.
        """
        weights = self._trust(self.usable(rows)) if self.noise else self.data.sample_weight
        return self._fit(rows, weights)

    def _trust(self, rows: Indices) -> NDArray[np.float32]:
        """Estimate by cross-fitting the probability that each training label is correct.

        The shape is (n,): all texts, of which those outside of ``rows`` are not looked at.
        """
        trusting, trust = replace(self, noise=0.0), np.ones(len(self.data), np.float32)
        rows, logits, _ = _cross_fitted(trusting, rows, TRUST_FOLDS)
        seen, labels = np.unique(self.data.labels[rows], return_inverse=True)
        if len(seen) > 1:
            logits = logits[:, seen]
            calibration = calibrate_ngrams(logits, labels, noise=self.noise)
            is_doubted = np.bincount(labels)[labels] >= UNDOUBTED_TEXTS
            trust[rows] = np.where(is_doubted, label_trust(calibration, logits, labels), 1)
        return trust

    def weaker(self, strength: float) -> "NgramFitter":
        """Return a copy that fits SVMs whose parameter C is multiplied by ``strength``."""
        svm_c = strength * self.settings.svm_c
        return replace(self, settings=self.settings.model_copy(update={"svm_c": svm_c}))

    def usable(self, rows: Indices) -> Indices:
        """Return those of ``rows`` that can be cross-fitted because their n-grams were counted."""
        return rows if self.sample is None else np.intersect1d(rows, self.sample)

    def _fit(self, rows: Indices, weights: NDArray[np.float32] | None) -> NgramModel:
        from lamatext.ngrams.fitting import fit_ngrams

        at = rows
        if self.sample is not None:  # both are ascending
            near = rows[np.minimum(np.searchsorted(rows, self.sample), len(rows) - 1)]
            at = np.flatnonzero(near == self.sample)
            rows = self.sample[at]
        model = fit_ngrams(
            self.counted.take(at),
            self.data.labels[rows],
            self.settings,
            classes=self.prepared.classes,
            class_weights=self.class_weights,
            sample_weight=None if weights is None else weights[rows],
            start=self.start,
            mixture=self.mixture,
            progress=self.progress,
        )
        return replace(model, range_power=self.range_power)


def ngram_fitter(
    prepared: PreparedRun,
    data: EncodedDataset,
    split: Split,
    settings: LoopSettings,
    progress: Progress,
) -> NgramFitter | None:
    """Count a training run's n-grams for cross-fitting; return None if it has no n-gram model."""
    ngrams, tokens = prepared.recipe.ngrams, prepared.tokens
    if not ngrams.enabled or tokens is None or not tokens.rows.lengths[split.train].any():
        return None
    from lamatext.ngrams.fitting import CountedTexts

    model, by_class = prepared.start, settings.class_weights
    start = None if model is None else start_ngrams(model, classes=prepared.classes)
    sample = None
    progress.stage("counting n-grams")
    if tokens.rows.are_on_disk:
        data.token_ids.release_pages()
        sample = sample_rows(split.train, NGRAM_TEXTS, prepared.recipe.seed)
        sample = np.union1d(sample, split.validation)
        counted = CountedTexts.from_sample(tokens, sample, len(split.train), ngrams)
    else:
        counted = CountedTexts.from_tokens(tokens, ngrams)
    class_weights = None if by_class is None else by_class.cpu().numpy()
    return NgramFitter(prepared, data, counted, sample, ngrams, class_weights, start, progress)


def fit_ngrams_of_run(
    prepared: PreparedRun, data: EncodedDataset, split: Split, settings: LoopSettings
) -> NgramModel | None:
    """Fit the n-gram model of a training run to all training texts, without cross-fitting."""
    fitter = ngram_fitter(prepared, data, split, settings, SILENT)
    return None if fitter is None else fitter.fit(split.train)


def cross_fit(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64], seen: Indices
) -> CrossFit:
    """Cross-fit and calibrate the n-gram model; if many labels look wrong, lower their weights.

    Args:
        fitter: the n-gram model of the run.
        split: rows of the training and validation texts.
        weights: weight of each text in the calibration. If texts or classes have weights, all
            labels are trusted: the weights say already how much each label counts. They are
            also trusted with more than ``DOUBTED_CLASSES`` classes.
        seen: the classes to calibrate, ascending.
    """
    trusting = _calibrated(fitter, split, weights, seen)
    is_weighted = fitter.class_weights is not None or fitter.data.sample_weight is not None
    if is_weighted:
        return trusting
    are_doubted = fitter.prepared.classes <= DOUBTED_CLASSES
    noise = _find_noise(trusting, split) if are_doubted else 0.0
    if not noise:
        if len(split.validation) >= CROSS_FIT_BELOW or len(seen) < 3:
            return trusting
        return _with_range_power(_with_mixed_classes(trusting, seen), weights, seen)
    fitter.progress.note(
        f"about {100 * noise:.0f} % of the labels look wrong: fitting the n-grams again with less "
        "weight on those; `lamatext clean` lists them"
    )
    best, best_loss = trusting, np.inf
    for strength in SVM_STRENGTHS:  # weaker as long as that helps
        weighted = replace(fitter.weaker(strength), noise=noise)
        fit = _calibrated(weighted, split, weights, seen)
        loss = _loss(fit, seen)
        if loss >= best_loss:
            break
        best, best_loss = fit, loss
    return best


def _calibrated(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64], seen: Indices
) -> CrossFit:
    """Predict texts with n-gram models that were not fitted to them, and calibrate the logits."""
    return _calibrated_on(fitter, _held_out_ngrams(fitter, split, weights), weights, seen)


def _calibrated_on(
    fitter: NgramFitter, held_out: HeldOutNgrams, weights: NDArray[np.float64], seen: Indices
) -> CrossFit:
    """Calibrate cross-fitted n-gram logits on the labels of their texts."""
    logits, labels = _logits_of_classes(fitter, held_out, seen)
    combination = calibrate_ngrams(logits, labels, weights[held_out.rows], noise=fitter.noise)
    return CrossFit(fitter, held_out, combination)


def _loss(fit: CrossFit, seen: Indices) -> float:
    """Return the negative log-likelihood of the cross-fitted texts under their calibration."""
    return held_out_loss(fit.combination, *_logits_of_classes(fit.fitter, fit.held_out, seen))


def _with_mixed_classes(plain: CrossFit, seen: Indices) -> CrossFit:
    """Multiply cross-fitted logits by a fitted C × C matrix, if a class has enough texts."""
    fitter, held_out, _ = plain
    logits, labels = _logits_of_classes(fitter, held_out, seen)
    if np.bincount(labels).max(initial=0) < len(seen):
        return plain
    mixture, combination = mix_classes(logits, labels)
    mixture = mixture.for_all_classes(seen, fitter.prepared.classes)
    mixed = held_out._replace(
        logits=mixture.apply(held_out.logits), base=mixture.apply(held_out.base)
    )
    return CrossFit(replace(fitter, mixture=mixture), mixed, combination)


def _with_range_power(plain: CrossFit, weights: NDArray[np.float64], seen: Indices) -> CrossFit:
    """Divide cross-fitted logits by a power of their range if that clearly lowers the loss."""
    best, best_loss = plain, _loss(plain, seen) - RANGE_EVIDENCE
    for power in RANGE_POWERS:
        base = plain.held_out.base
        logits = divide_by_range(plain.held_out.logits - base, power) + base
        held_out = plain.held_out._replace(logits=logits)
        fitter = replace(plain.fitter, range_power=power)
        fit = _calibrated_on(fitter, held_out, weights, seen)
        if (loss := _loss(fit, seen)) < best_loss:
            best, best_loss = fit, loss
    if best is plain:
        return plain
    held_out = _cross_fitted(best.fitter, np.sort(plain.held_out.rows), FOLDS_OF_RANGE)
    return _calibrated_on(best.fitter, held_out, weights, seen)


def _find_noise(trusting: CrossFit, split: Split) -> float:
    """Estimate the share of wrong labels from cross-fitted logits, 0 unless it is significant.

    They are cross-fitted with the weakest SVM, which wrong labels mislead least, if the held-out
    texts suggest wrong labels or if these are validation texts, too few to do so.
    """
    fitter, held_out, _ = trusting
    rows = fitter.usable(np.union1d(split.train, split.validation))
    counts = np.bincount(fitter.data.labels[rows], minlength=fitter.prepared.classes)
    common = np.flatnonzero(counts >= UNDOUBTED_TEXTS)
    if len(common) < 2:
        return 0.0
    are_few = CROSS_FIT_BELOW <= len(split.validation) < NOISE_TEXTS
    logits, labels = _logits_of_classes(fitter, held_out, common)
    if not are_few and estimate_noise(logits, labels).noise < MIN_NOISE:
        return 0.0
    held_out = _cross_fitted(fitter.weaker(SVM_STRENGTHS[-1]), rows, CROSS_FIT_FOLDS)
    logits, labels = _logits_of_classes(fitter, held_out, common)
    noisy, plain = estimate_noise(logits, labels), calibrate_ngrams(logits, labels)
    return noisy.noise if is_evidence_of_noise(noisy, plain, logits, labels) else 0.0


def _logits_of_classes(
    fitter: NgramFitter, held_out: HeldOutNgrams, classes: Indices
) -> tuple[Logits, Indices]:
    """Return the cross-fitted logits of texts in the given classes, and each text's class index."""
    labels = fitter.data.labels[held_out.rows]
    kept = np.isin(labels, classes)
    return held_out.logits[kept][:, classes], np.searchsorted(classes, labels[kept])


def _held_out_ngrams(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64]
) -> HeldOutNgrams:
    """Predict texts with n-gram models that were not fitted to them; return their logits.

    With a large validation set, these are its texts, predicted by a model fitted to the training
    texts. A small one has too few texts to calibrate with, so all texts are cross-fitted: divided
    into folds, each of which is predicted by a model fitted to the others.
    """
    if len(split.validation) >= CROSS_FIT_BELOW:
        model = fitter.fit(split.train)
        words = words_of(fitter.prepared, split.validation)
        return HeldOutNgrams(split.validation, model.logits(words), model.base)
    rows = np.union1d(split.train, split.validation)
    return _cross_fitted(fitter, rows[weights[rows] > 0], CROSS_FIT_FOLDS)


def _cross_fitted(fitter: NgramFitter, rows: Indices, count: int) -> HeldOutNgrams:
    """Divide texts into folds; return each text's logits by a model fitted to the other folds."""
    classes, labels = fitter.prepared.classes, fitter.data.labels[rows].tolist()
    with warnings.catch_warnings():  # of labels seen once, which the first split has named
        warnings.simplefilter("ignore", UserWarning)
        parts = list(folds(labels, count, fitter.prepared.recipe.seed))
    order = [np.zeros(0, np.int64)]
    logits = [np.zeros((0, classes), np.float32)]
    base = np.zeros(classes, np.float32)
    for fitted, held_out in parts:
        if len(held_out):
            model = fitter.fit(rows[fitted])
            order.append(rows[held_out])
            logits.append(model.logits(words_of(fitter.prepared, rows[held_out])))
            base += model.base / np.float32(len(parts))
    return HeldOutNgrams(np.concatenate(order), np.concatenate(logits), base)


def words_of(prepared: PreparedRun, rows: Indices) -> list[list[str]]:
    """Return the words of the given texts, as the cross-fitted n-gram models read them."""
    assert prepared.tokens is not None  # an n-gram model reads words
    return list(prepared.tokens.words(rows))
