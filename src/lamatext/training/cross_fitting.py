"""Cross-fitting of the n-gram model: out-of-sample logits to calibrate it and find wrong labels.

Every text gets the logits of a model that was fitted to other texts, none of which is a duplicate
of it or of the same group, such as a customer.

If the logits are evidence of wrong labels (``training/calibration.py``), the n-gram model is fitted
again, each text weighted by the probability that its label is right. Several strengths of the SVM
are tried, and the one with the smallest loss on held-out texts is kept. The probabilities come from
the models that found the evidence and are the same for all strengths. With more than
``MAX_CLASSES`` classes all labels are trusted: a class has too few texts to tell wrong labels from
hard texts.

A large validation set is predicted by one model, fitted to the training texts. For two classes,
that is enough to calibrate the logits. If the validation set is small, or lacks a class of the
training texts, all texts are cross-fitted. With three or more classes, they are also cross-fitted
if the validation set is of medium size: only some of its texts belong to classes that are confused
with each other.

The logits of three or more classes, with at least that many texts each, are mixed by a matrix
(``training/calibration.py``), which becomes part of the weights.

With many classes, a single factor cannot calibrate the logits: texts with large logits are
classified correctly less often, and texts with small logits more often, than the softmax says. If
the held-out texts are clear evidence of that, the logits of each text are divided by a power of
their range (``ngrams/model.py``), the power under which the held-out labels are most likely. The
range grows with the number of texts per class, so with a small validation set the factor is then
fitted with more folds, each of which leaves out fewer texts.

With many tiny classes, hardly any text of a class has a given n-gram, so its naive-Bayes ratio may
depend more on smoothing than on the class. The n-grams are then also fitted without these ratios,
and the model without them is kept if the held-out labels are clear evidence for it.

Shapes: n texts, C classes.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamatext.data.duplicates import TextGroups
from lamatext.data.labels import ClassIndices, Targets
from lamatext.data.splits import Split, folds, most_frequent_labels
from lamatext.data.token_ids import Indices
from lamatext.ngrams.model import ClassMixture, NgramModel, divide_by_range
from lamatext.progress import Progress
from lamatext.settings import NgramSettings
from lamatext.training.batching import EncodedDataset
from lamatext.training.calibration import (
    MIN_NOISE,
    Combination,
    calibrate_ngrams,
    correct_confidence,
    estimate_noise,
    held_out_loss,
    is_evidence_of_noise,
    label_trust,
    mix_classes,
    tells_classes_apart,
)
from lamatext.training.loop import LoopSettings
from lamatext.training.preparation import PreparedRun, sample_rows
from lamatext.training.warm_start import start_ngrams

if TYPE_CHECKING:
    from lamatext.ngrams.fitting import CountedTexts

CROSS_FIT_BELOW = 500  # distinct validation texts; with fewer, all texts calibrate by cross-fitting
CROSS_FIT_FOLDS = 5
# Distinct validation texts; with fewer, all texts calibrate three or more classes.
ALL_TEXTS_BELOW = 5_000
FOLDS_OF_ALL_TEXTS = 3  # if there are enough validation texts for everything else
FOLDS_OF_RANGE = 10  # if the logits are divided by a power of their range
MISSING = 0.1  # of its expected share of the validation texts; a class with less is missing
FEWEST_EXPECTED = 5  # validation texts of a class, below which it may be missing by chance
NGRAM_TEXTS = 500_000  # texts that the n-gram model is fitted to, at most, if they are on disk
NOISE_TEXTS = 1000  # distinct validation texts; with fewer, wrong labels need cross-fitting, too
MAX_CLASSES = 200  # with more, all labels are trusted, and a large validation set is all evidence
FEWEST_TEXTS = 10  # classes with fewer are too rare to tell which of their labels are wrong
RANGE_POWERS = (0.2, 0.4, 0.6, 0.8)  # of the range of a text's logits, tried besides 0
RANGE_EVIDENCE = 3.0  # log-likelihood of held-out texts that a power above 0 must gain
# Largest factor of the weights with a range power. Real data needs less than 1,000; the rest is
# room for later corrections within the limits of a saved model (ngrams/model.py).
MAX_FACTOR = 1e4
# With more classes and fewer texts per class, n-grams are also fitted without naive-Bayes ratios.
UNSCALED_CLASSES, UNSCALED_TEXTS = 60, 10
UNSCALED_EVIDENCE = 3.0  # log-likelihood of held-out texts that leaving the ratios out must gain
SVM_STRENGTHS = (1.0, 0.3, 0.1)  # times ``ngrams.svm_c``, tried if labels are wrong

Logits = NDArray[np.float32]  # (n, C)


class HeldOutNgrams(NamedTuple):
    """Out-of-sample n-gram logits, either of all cross-fitted texts or of the validation texts."""

    rows: Indices
    logits: Logits
    base: NDArray[np.float32]  # (C,) of a text without known n-grams
    duplicates: Indices | None = None  # group of each text; None: each copy is a text of its own

    def duplicates_of(self, places: Indices) -> Indices | None:
        """Return the duplicate groups of the cross-fitted texts at ``places``, or None."""
        return None if self.duplicates is None else self.duplicates[places]

    def mixed(self, mixture: ClassMixture | None) -> "HeldOutNgrams":
        """Return these held-out logits with the classes mixed."""
        if mixture is None:
            return self
        return self._replace(logits=mixture.apply(self.logits), base=mixture.apply(self.base))

    def divided(self, range_power: float) -> "HeldOutNgrams":
        """Return these held-out logits, those of each text divided by a power of their range."""
        logits = divide_by_range(self.logits - self.base, range_power) + self.base
        return self._replace(logits=logits)


class LabelNoise(NamedTuple):
    """Label noise found by cross-fitting: share of wrong labels and trust in each single label."""

    noise: float
    trust: NDArray[np.float32]  # (n,) probability that each label is right
    rows: Indices  # the texts that were cross-fitted to estimate both


class CrossFit(NamedTuple):
    """Result of cross-fitting an n-gram model: held-out logits and their calibration."""

    fitter: "NgramFitter"
    held_out: HeldOutNgrams  # on which the calibration is based
    combination: Combination  # without a network, for the seen classes


class FittedNgrams(NamedTuple):
    """Final n-gram model of a training run, with the cross-fitting results that calibrate it."""

    model: NgramModel
    held_out: HeldOutNgrams
    combination: Combination  # without a network, for the seen classes


@dataclass(frozen=True, slots=True)
class NgramFitter:
    """Data and settings for fitting n-gram models to subsets of the texts, as in cross-fitting."""

    prepared: PreparedRun
    data: EncodedDataset
    counted: "CountedTexts"
    sample: Indices | None  # rows of the counted texts; None if all are
    settings: NgramSettings
    class_weights: NDArray[np.float32] | None
    start: NgramModel | None
    is_known: NDArray[np.bool_] | None  # texts that ``start`` was fitted to; None: hardly any
    groups: TextGroups | None  # kept in one fold; None if each text is its own group
    validation_texts: int  # distinct ones; 0 if they are no evidence
    progress: Progress
    noise: float = 0.0  # share of wrong labels
    trust: NDArray[np.float32] | None = None  # (n,) probability that each label is right
    mixture: ClassMixture | None = None  # of the logits of all classes
    range_power: float = 0.0  # of the fitted models

    def fit(self, rows: Indices) -> NgramModel:
        """Fit an n-gram model to some rows of the data, such as all cross-fitting folds but one.

        If wrong labels have been found, each text is weighted by the probability that its label is
        right.
        """
        from lamatext.ngrams.fitting import fit_ngrams

        weights = self.data.sample_weight if self.trust is None else self.trust
        at = rows
        if self.sample is not None:
            at = np.flatnonzero(np.isin(self.sample, rows, assume_unique=True))
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

    def expect(self, fits: int) -> None:
        """Announce how many n-gram models are still to be fitted, including the final one."""
        self.progress.expect("fitting the n-grams", fits)

    def weaker(self, strength: float) -> "NgramFitter":
        """Return a copy of this n-gram fitter with the SVM's C multiplied by ``strength``."""
        svm_c = strength * self.settings.svm_c
        return replace(self, settings=self.settings.model_copy(update={"svm_c": svm_c}))

    def unscaled(self) -> "NgramFitter":
        """Return a copy of this n-gram fitter that does not use naive-Bayes ratios."""
        return replace(self, settings=self.settings.model_copy(update={"naive_bayes_power": 0.0}))

    def counted_rows(self, rows: Indices) -> Indices:
        """Return those of ``rows`` whose n-grams were counted, which cross-fitting requires."""
        return rows if self.sample is None else np.intersect1d(rows, self.sample)

    def is_evidence(self, rows: Indices) -> NDArray[np.bool_]:
        """Return which cross-fitted rows are evidence for the calibration.

        Texts that only a teacher has labelled are none, and neither are texts that the continued
        model was trained on.
        """
        is_evidence = np.ones(len(rows), np.bool_)
        if self.groups is not None:
            is_evidence &= rows < len(self.groups)  # texts without a label follow all others
        if self.is_known is not None:
            is_evidence &= ~self.is_known[rows]
        return is_evidence


def ngram_fitter(
    prepared: PreparedRun,
    data: EncodedDataset,
    split: Split,
    settings: LoopSettings,
    progress: Progress,
) -> NgramFitter | None:
    """Count n-grams to prepare for cross-fitting; return None if the run has no n-gram model."""
    ngrams, tokens = prepared.recipe.ngrams, prepared.tokens
    if not ngrams.enabled or tokens is None or not tokens.rows.lengths[split.train].any():
        return None
    from lamatext.ngrams.fitting import CountedTexts

    model, by_class = prepared.start, settings.class_weights
    start = None
    if model is not None and not split.is_mostly_known:
        start = start_ngrams(model, classes=prepared.classes)
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
    return NgramFitter(
        prepared,
        data,
        counted,
        sample=sample,
        settings=ngrams,
        class_weights=class_weights,
        start=start,
        is_known=split.is_known,
        groups=split.groups,
        validation_texts=_count_validation_texts(split, data.labels),
        progress=progress,
    )


def fit_and_calibrate_ngrams(
    prepared: PreparedRun,
    data: EncodedDataset,
    split: Split,
    settings: LoopSettings,
    progress: Progress,
) -> FittedNgrams | None:
    """Fit the n-gram model of a training run and calibrate it by cross-fitting.

    The calibration is based on models fitted without the held-out texts; the final model is fitted
    to the training and validation texts. Return None if the run has no n-gram model. If a text may
    have several labels, the held-out texts are the validation texts, and nothing is calibrated yet.
    """
    fitter = ngram_fitter(prepared, data, split, settings, progress)
    if fitter is None:
        return None
    everything = np.union1d(split.train, split.validation)
    if settings.multi_label:
        model = fitter.fit(split.train)
        logits = model.logits(words_of(prepared, split.validation))
        held_out = HeldOutNgrams(split.validation, logits, model.base)
        return FittedNgrams(fitter.fit(everything), held_out, Combination(1, 0, np.zeros(0)))
    seen, _ = seen_classes(prepared, data.labels, split)
    weights = text_weights(data, settings)
    if fitter.validation_texts < CROSS_FIT_BELOW <= len(split.validation):
        fitter.expect(expected_fits(0, prepared.classes))  # all texts are cross-fitted after all
    fit, held_out = cross_fit(fitter, split, weights, seen)
    return FittedNgrams(fit.fitter.fit(everything), held_out, _corrected(fit, weights, seen))


def seen_classes(
    prepared: PreparedRun, labels: ClassIndices, split: Split
) -> tuple[Indices, Indices]:
    """Return the classes that n-grams are calibrated for, and all labels as indices into them.

    If the run continues a saved model, the new texts may lack some of its classes. These classes
    are left out, because the new texts cannot show how likely they are.
    """
    if prepared.start is None:
        return np.arange(prepared.classes), labels
    seen = np.unique(labels[np.union1d(split.train, split.validation)])
    return seen, np.searchsorted(seen, labels)


def text_weights(data: EncodedDataset, settings: LoopSettings) -> NDArray[np.float64]:
    """Return each text's weight (n,) in the calibration, equal to that in the training loss."""
    weights = np.ones(len(data))
    if data.sample_weight is not None:
        weights *= data.sample_weight
    if settings.class_weights is not None:
        weights *= settings.class_weights.cpu().numpy()[data.labels]
    return weights


def _count_validation_texts(split: Split, labels: Targets) -> int:
    """Count the distinct validation texts, to decide whether to cross-fit all texts.

    Many copies of a few texts are no better evidence than these few texts. If the validation set
    lacks a class, the count is 0: the calibration would conclude that the class never occurs. It is
    also 0 if the validation texts are trained on.
    """
    if len(split.validation) < CROSS_FIT_BELOW or labels.ndim == 2:
        return len(split.validation)
    if np.isin(split.validation, split.train).any():
        return 0
    classes = labels.max() + 1
    counts = np.bincount(labels[split.validation], minlength=classes)
    expected = np.bincount(labels[split.train], minlength=classes) / len(split.train)
    expected *= len(split.validation)
    if ((counts < MISSING * expected) & (expected >= FEWEST_EXPECTED)).any():
        return 0
    if split.groups is None:
        return len(split.validation)
    return split.groups.count_distinct(split.validation)


def expected_fits(validation_texts: int, classes: int) -> int:
    """Return how many n-gram models a run fits, with cross-fitting, if no labels look wrong."""
    are_few = CROSS_FIT_BELOW <= validation_texts < NOISE_TEXTS  # to find wrong labels with them
    fits = _held_out_fits(validation_texts) + (CROSS_FIT_FOLDS if are_few else 0) + 1
    return fits + (FOLDS_OF_ALL_TEXTS if _need_all_texts(validation_texts, classes) else 0)


def _need_all_texts(validation_texts: int, classes: int) -> bool:
    """Return whether all texts are cross-fitted in addition to using a validation set."""
    return 3 <= classes <= MAX_CLASSES and CROSS_FIT_BELOW <= validation_texts < ALL_TEXTS_BELOW


def _held_out_fits(validation_texts: int) -> int:
    """Return how many models predict the held-out texts: one, or one per cross-fitting fold."""
    return 1 if validation_texts >= CROSS_FIT_BELOW else CROSS_FIT_FOLDS


def _fits_with_noise(validation_texts: int) -> int:
    """Return the maximum number of further n-gram fits after cross-fitting finds wrong labels."""
    pairs = 0 if validation_texts >= CROSS_FIT_BELOW else math.comb(CROSS_FIT_FOLDS, 2)
    return pairs + len(SVM_STRENGTHS) * _held_out_fits(validation_texts)


def cross_fit(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64], seen: Indices
) -> tuple[CrossFit, HeldOutNgrams]:
    """Cross-fit and calibrate the n-gram model, giving less weight to labels that look wrong.

    Args:
        fitter: the n-gram model of the run.
        split: rows of the training and validation texts.
        weights: weight of each text in the calibration. If texts or classes have weights, all
            labels are trusted: the weights already say how much each label counts. All labels
            are also trusted with more than ``MAX_CLASSES`` classes.
        seen: the classes to calibrate, ascending.

    Returns:
        The calibration, and the held-out logits to which a network's logits can be added. They
        differ if all texts are evidence for the calibration, but the network has logits of the
        validation texts only.
    """
    first = _calibrated(fitter, split, weights, seen)
    if _has_tiny_classes(fitter, split):
        fitter.expect(expected_fits(fitter.validation_texts, fitter.prepared.classes))
        unscaled = _calibrated(fitter.unscaled(), split, weights, seen)
        if _loss(unscaled, weights, seen) < _loss(first, weights, seen) - UNSCALED_EVIDENCE:
            first = unscaled
    is_weighted = fitter.class_weights is not None or fitter.data.sample_weight is not None
    if not is_weighted and fitter.prepared.classes <= MAX_CLASSES:
        label_noise = _find_label_noise(first, split)
        if label_noise is not None:
            fit = _with_less_weight_on_noise(first.fitter, split, weights, seen, label_noise)
            return fit, fit.held_out
    if is_weighted or len(seen) < 3:
        fitter.expect(1)
        return first, first.held_out
    return _calibrate_many_classes(first, split, weights, seen)


def _calibrate_many_classes(
    first: CrossFit, split: Split, weights: NDArray[np.float64], seen: Indices
) -> tuple[CrossFit, HeldOutNgrams]:
    """Calibrate three or more classes, of which some are confused more often than others.

    That takes more held-out texts than a first calibration, so validation texts are complemented by
    cross-fitting all texts. A network is still added to the logits of the validation texts.
    """
    fitter, has_validation = first.fitter, first.fitter.validation_texts >= CROSS_FIT_BELOW
    rows = fitter.counted_rows(np.union1d(split.train, split.validation))
    evidence = first
    if _need_all_texts(fitter.validation_texts, fitter.prepared.classes):
        fitter.expect(FOLDS_OF_ALL_TEXTS + 1)
        held_out = _cross_fitted(fitter, rows, FOLDS_OF_ALL_TEXTS)
        evidence = _calibrated_on(fitter, held_out, weights, seen)
    best = _with_range_power(_with_mixed_classes(evidence, seen), weights, seen)
    if best.fitter.range_power and not has_validation:
        fitter.expect(FOLDS_OF_RANGE + 1)
        held_out = _cross_fitted(best.fitter, rows, FOLDS_OF_RANGE)
        best = _calibrated_on(best.fitter, held_out, weights, seen)
    fitter.expect(1)
    if not has_validation:
        return best, best.held_out
    range_power, mixture = best.fitter.range_power, best.fitter.mixture
    return best, first.held_out.mixed(mixture).divided(range_power)


def _has_tiny_classes(fitter: NgramFitter, split: Split) -> bool:
    """Return whether classes are so tiny that n-grams without naive-Bayes ratios are also tried."""
    classes, texts = fitter.prepared.classes, len(np.union1d(split.train, split.validation))
    are_tiny = classes > UNSCALED_CLASSES and texts < UNSCALED_TEXTS * classes
    return are_tiny and fitter.settings.naive_bayes_power > 0


def _with_less_weight_on_noise(
    fitter: NgramFitter,
    split: Split,
    weights: NDArray[np.float64],
    seen: Indices,
    label_noise: LabelNoise,
) -> CrossFit:
    """Cross-fit with less weight on labels that look wrong, choosing the SVM by held-out loss.

    In the final fit, validation labels that look wrong have less weight, too.
    """
    fitter.progress.note(
        f"about {100 * label_noise.noise:.0f} % of the labels look wrong: fitting the n-grams "
        "again with less weight on those; `lamatext clean` lists the most suspect ones"
    )
    validation = fitter.validation_texts
    fitter.expect(_fits_with_noise(validation) + 1)
    less_trusting = replace(fitter, noise=label_noise.noise, trust=label_noise.trust)
    if validation < CROSS_FIT_BELOW:
        trust_by_fold = _trust_without_each_fold(fitter, label_noise)
    else:
        trust_by_fold = None

    def cross_fitted(strength: float) -> CrossFit:
        weaker = less_trusting.weaker(strength)
        if trust_by_fold is None:
            return _calibrated(weaker, split, weights, seen)
        held_out = _cross_fitted(weaker, label_noise.rows, CROSS_FIT_FOLDS, trust_by_fold)
        return _calibrated_on(weaker, held_out, weights, seen)

    best = cross_fitted(SVM_STRENGTHS[0])
    for strength in SVM_STRENGTHS[1:]:  # weaken the SVM as long as this helps
        fit = cross_fitted(strength)
        if _loss(fit, weights, seen) >= _loss(best, weights, seen):
            break
        best = fit
    fitter.expect(1)
    if validation < CROSS_FIT_BELOW:
        return best
    trust = _trust(best.fitter, best.held_out, label_noise.noise)  # of the validation labels
    return best._replace(fitter=replace(best.fitter, trust=label_noise.trust * trust))


def _trust_without_each_fold(
    fitter: NgramFitter, label_noise: LabelNoise
) -> list[NDArray[np.float32]]:
    """Compute, for each cross-fitting fold, the trust (n,) in all labels outside that fold.

    The labels of the fold itself are not used. Otherwise the model for this fold would be
    influenced by the very labels that are held out to calibrate it. For each pair of folds, one
    model that is fitted to the other three folds predicts the texts of both.
    """
    weakest = fitter.weaker(SVM_STRENGTHS[-1])
    parts = _folds(fitter, label_noise.rows, CROSS_FIT_FOLDS)
    predictions: list[list[HeldOutNgrams]] = [[] for _ in parts]  # without each fold
    for (one, (_, left)), (other, (_, right)) in combinations(enumerate(parts), 2):
        pair = np.sort(np.concatenate([left, right]))
        model = weakest.fit(np.delete(label_noise.rows, pair))
        for fold, held_out in ((one, right), (other, left)):
            rows = label_noise.rows[held_out]
            logits = model.logits(words_of(fitter.prepared, rows))
            predictions[fold].append(HeldOutNgrams(rows, logits, model.base))
    trust = []
    for others in predictions:
        rows, logits = (np.concatenate([part[field] for part in others]) for field in range(2))
        trust.append(_trust(fitter, HeldOutNgrams(rows, logits, others[0].base), label_noise.noise))
    return trust


def _calibrated(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64], seen: Indices
) -> CrossFit:
    """Predict held-out texts with cross-fitted n-gram models and calibrate the logits."""
    return _calibrated_on(fitter, _held_out_ngrams(fitter, split, weights), weights, seen)


def _calibrated_on(
    fitter: NgramFitter, held_out: HeldOutNgrams, weights: NDArray[np.float64], seen: Indices
) -> CrossFit:
    """Calibrate cross-fitted n-gram logits on the labels of the held-out texts."""
    evidence = _evidence(fitter, held_out, seen, weights)
    combination = calibrate_ngrams(*evidence, noise=fitter.noise)
    return CrossFit(fitter, held_out, combination)


def _corrected(fit: CrossFit, weights: NDArray[np.float64], seen: Indices) -> Combination:
    """Correct the confidence of a cross-fitted calibration so that it matches held-out accuracy."""
    evidence = _evidence(fit.fitter, fit.held_out, seen, weights)
    return correct_confidence(fit.combination, *evidence)


def _loss(fit: CrossFit, weights: NDArray[np.float64], seen: Indices) -> float:
    """Compute the negative log-likelihood of the calibrated cross-fitted logits."""
    return held_out_loss(fit.combination, *_evidence(fit.fitter, fit.held_out, seen, weights))


def _with_mixed_classes(plain: CrossFit, seen: Indices) -> CrossFit:
    """Fit a class-mixing matrix on cross-fitted logits if any class has enough texts.

    Logits that predict the labels no better than class frequencies are left unchanged: their matrix
    would permute the classes.
    """
    fitter, held_out, combination = plain
    evidence = _evidence(fitter, held_out, seen)
    if np.bincount(evidence.labels).max(initial=0) < len(seen):
        return plain
    if not tells_classes_apart(combination, *evidence):
        return plain
    mixture, combination = mix_classes(*evidence)
    mixture = mixture.for_all_classes(seen, fitter.prepared.classes)
    return CrossFit(replace(fitter, mixture=mixture), held_out.mixed(mixture), combination)


def _with_range_power(plain: CrossFit, weights: NDArray[np.float64], seen: Indices) -> CrossFit:
    """Divide cross-fitted logits by a power of their range if this clearly lowers the loss.

    A factor on the divided logits corresponds to a power of that factor on the weights, which must
    not exceed ``MAX_FACTOR``.
    """
    best, best_loss = plain, _loss(plain, weights, seen) - RANGE_EVIDENCE
    for power in RANGE_POWERS:
        fitter = replace(plain.fitter, range_power=power)
        fit = _calibrated_on(fitter, plain.held_out.divided(power), weights, seen)
        factor = fit.combination.ngrams ** (1 / (1 - power))
        if factor <= MAX_FACTOR and (loss := _loss(fit, weights, seen)) < best_loss:
            best, best_loss = fit, loss
    return best


def _find_label_noise(trusting: CrossFit, split: Split) -> LabelNoise | None:
    """Estimate by cross-fitting which labels are wrong, or return None without clear evidence.

    The texts are cross-fitted with the weakest SVM, which wrong labels mislead least. This is done
    only if the held-out texts suggest wrong labels, or if they are validation texts that are too
    few to show them. A validation set that is large enough for calibration is left out: nothing
    may be learned from its labels.
    """
    fitter, held_out, _ = trusting
    validation = fitter.validation_texts
    is_split = validation >= CROSS_FIT_BELOW
    rows = fitter.counted_rows(
        split.train if is_split else np.union1d(split.train, split.validation)
    )
    labels = fitter.data.labels[rows[fitter.is_evidence(rows)]]
    counts = np.bincount(labels, minlength=fitter.prepared.classes)
    common = np.flatnonzero(counts >= FEWEST_TEXTS)
    if len(common) < 2:
        return None
    are_few = is_split and validation < NOISE_TEXTS
    evidence = _evidence(fitter, held_out, common)
    is_suspected = estimate_noise(*evidence).noise >= MIN_NOISE
    if not are_few and not is_suspected:
        return None
    further = _fits_with_noise(validation) if is_suspected else 0
    fitter.expect(CROSS_FIT_FOLDS + further + 1)
    held_out = _cross_fitted(fitter.weaker(SVM_STRENGTHS[-1]), rows, CROSS_FIT_FOLDS)
    evidence = _evidence(fitter, held_out, common)
    noisy, plain = estimate_noise(*evidence), calibrate_ngrams(*evidence)
    if not is_evidence_of_noise(noisy, plain, *evidence):
        return None
    return LabelNoise(noisy.noise, _trust(fitter, held_out, noisy.noise), rows)


def _trust(fitter: NgramFitter, held_out: HeldOutNgrams, noise: float) -> NDArray[np.float32]:
    """Compute the probability (n,) that each label is right, based on cross-fitted logits.

    The probability is set to 1 for texts that were not cross-fitted or are no evidence, and for
    rare classes.
    """
    is_evidence = fitter.is_evidence(held_out.rows)
    trust, rows = np.ones(len(fitter.data), np.float32), held_out.rows[is_evidence]
    seen, labels = np.unique(fitter.data.labels[rows], return_inverse=True)
    if len(seen) < 2:
        return trust
    logits = held_out.logits[is_evidence][:, seen]
    calibration = calibrate_ngrams(logits, labels, noise=noise)
    is_common = np.bincount(labels)[labels] >= FEWEST_TEXTS
    trust[rows] = np.where(is_common, label_trust(calibration, logits, labels), 1)
    return trust


class _Evidence(NamedTuple):
    """Cross-fitted logits and labels that are the evidence for calibrating some classes."""

    logits: Logits  # of these classes
    labels: Indices  # indices into these classes
    weights: NDArray[np.float64]


def _evidence(
    fitter: NgramFitter,
    held_out: HeldOutNgrams,
    classes: Indices,
    weights: NDArray[np.float64] | None = None,
) -> _Evidence:
    """Select the cross-fitted texts of the given classes for calibration, without duplicates.

    Of all cross-fitted duplicates with the same label, one is selected. In a large validation set,
    duplicates are kept. ``weights`` has one weight per text of the data; None weights all equally.
    """
    labels = fitter.data.labels[held_out.rows]
    places = np.flatnonzero(np.isin(labels, classes) & fitter.is_evidence(held_out.rows))
    labels = np.searchsorted(classes, labels[places])
    logits, rows = held_out.logits[places][:, classes], held_out.rows[places]
    own = np.ones(len(rows)) if weights is None else weights[rows]
    selected, own = deduplicate(labels, held_out.duplicates_of(places), own)
    return _Evidence(logits[selected], labels[selected], own)


def deduplicate(
    labels: Indices, duplicates: Indices | None, weights: NDArray[np.float64]
) -> tuple[Indices, NDArray[np.float64]]:
    """Select one text per set of duplicates and label, because copies add no evidence.

    All duplicates of a text weigh as much as one text. If several people have labelled it
    differently, each of its labels weighs as much as the share of them who chose it.

    Args:
        labels: label of each text.
        duplicates: the group of duplicates of each text; None selects all texts.
        weights: weight of each text.

    Returns:
        The positions of the selected texts, ascending, and their weights: the mean weight of the
        copies with this label times their share of the duplicates, multiplied by a factor per class
        so that the total weight of the class is unchanged.
    """
    if duplicates is None:
        return np.arange(len(labels)), weights
    keys = labels * (duplicates.max(initial=0) + 1) + duplicates
    _, first, inverse, copies = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    selected = first[order]
    shares = copies[order] / np.bincount(duplicates)[duplicates[selected]]
    means = (np.bincount(inverse, weights) / copies)[order] * shares
    before, after = np.bincount(labels, weights), np.bincount(labels[selected], means)
    return selected, means * (before / np.where(after > 0, after, 1))[labels[selected]]


def _held_out_ngrams(
    fitter: NgramFitter, split: Split, weights: NDArray[np.float64]
) -> HeldOutNgrams:
    """Compute n-gram logits of held-out texts, by cross-fitting if the validation set is small.

    If the validation set is large, its texts are the held-out texts, predicted by a model fitted to
    the training texts. A small one has too few texts for calibration, so all texts are
    cross-fitted: divided into folds, each of which is predicted by a model fitted to the others.
    """
    if fitter.validation_texts >= CROSS_FIT_BELOW:
        model = fitter.fit(split.train)
        words = words_of(fitter.prepared, split.validation)
        return HeldOutNgrams(split.validation, model.logits(words), model.base)
    rows = fitter.counted_rows(np.union1d(split.train, split.validation))
    return _cross_fitted(fitter, rows[weights[rows] > 0], CROSS_FIT_FOLDS)


def _cross_fitted(
    fitter: NgramFitter,
    rows: Indices,
    count: int,
    trust_by_fold: Sequence[NDArray[np.float32]] | None = None,
) -> HeldOutNgrams:
    """Cross-fit: predict the logits of each fold with a model fitted to the other folds.

    ``trust_by_fold`` holds the trust (n,) in the labels for the model of each fold.
    """
    classes, parts = fitter.prepared.classes, _folds(fitter, rows, count)
    order = [np.zeros(0, np.int64)]
    logits = [np.zeros((0, classes), np.float32)]
    base = np.zeros(classes, np.float32)
    models = sum(len(fitted) > 0 and len(held_out) > 0 for fitted, held_out in parts)
    for number, (fitted, held_out) in enumerate(parts):
        if len(fitted) and len(held_out):
            if trust_by_fold is not None:
                fitter = replace(fitter, trust=trust_by_fold[number])
            model = fitter.fit(rows[fitted])
            order.append(rows[held_out])
            logits.append(model.logits(words_of(fitter.prepared, rows[held_out])))
            base += model.base / np.float32(models)
    predicted = np.concatenate(order)
    duplicates = None if fitter.groups is None else _extended(fitter.groups.duplicates, predicted)
    return HeldOutNgrams(predicted, np.concatenate(logits), base, duplicates)


def _folds(fitter: NgramFitter, rows: Indices, count: int) -> list[tuple[Indices, Indices]]:
    """Split texts into cross-fitting folds: pairs of indices to fit to and indices to predict.

    A group of texts, such as copies of one text, is kept in one fold. Otherwise the copies would
    show how well the model memorizes, not how well it predicts.
    """
    labels = fitter.data.labels[rows]
    groups = None if fitter.groups is None else _groups_of(fitter.groups, labels, rows)
    with warnings.catch_warnings():  # about labels seen once, as the first split has warned of them
        warnings.simplefilter("ignore", UserWarning)
        return list(folds(labels.tolist(), count, fitter.prepared.recipe.seed, groups))


def _groups_of(groups: TextGroups, labels: ClassIndices, rows: Indices) -> Indices:
    """Return the group of each text, which cross-fitting keeps in one fold.

    If a class has fewer groups than there are folds, holding out one of them would remove most of
    the class, so only duplicates stay together. If all texts of a class are duplicates, they are
    separated, too: a single group would never be held out, and the calibration would conclude that
    the class never occurs.
    """
    together = _extended(groups.of_rows, rows)
    duplicates = _extended(groups.duplicates, rows)
    group = np.where(_group_counts(labels, together) < CROSS_FIT_FOLDS, duplicates, together)
    return np.where(_group_counts(labels, duplicates) < 2, rows, group)


def _extended(groups: Indices, rows: Indices) -> Indices:
    """Return the group of each given text for cross-fitting; texts without one get a new group.

    Only texts that a teacher has labelled have no group. They follow all others.
    """
    return np.append(groups, np.arange(len(groups), rows.max(initial=-1) + 1))[rows]


def _group_counts(labels: ClassIndices, groups: Indices) -> Indices:
    """Count the groups in the class of each text, to choose groups for cross-fitting folds.

    The shape is (n,). A group belongs to the class that is most frequent in it.
    """
    _, numbers = np.unique(groups, return_inverse=True)
    classes = most_frequent_labels(numbers, labels)
    return np.bincount(classes, minlength=labels.max(initial=0) + 1)[labels]


def words_of(prepared: PreparedRun, rows: Indices) -> list[list[str]]:
    """Return the tokenized words of the given texts for cross-fitting the n-gram model."""
    assert prepared.tokens is not None  # an n-gram model reads words
    return list(prepared.tokens.words(rows))
