"""Calibration: combine the logits of network and n-gram model into reliable probabilities.

Without an n-gram model, the network's logits are divided by a temperature. With one, the
probabilities are

    softmax(a·ngrams + bias + b·network)

and a, b and the class biases are fitted to the logits of texts that the two models were not trained
on. The n-grams come first: a and the biases need no network, and cross-fitting gives out-of-sample
logits of all texts.
The network contributes only if the validation texts support it: its factor b has an L1 penalty of
one standard error of the derivative of the loss at b = 0, and more where few texts estimate that
error. So b is exactly 0 unless the validation texts are evidence of at least that strength for the
network, whatever the size of its logits, and the pull towards 0 vanishes as their number grows.
Unevenly weighted texts count as fewer texts, because a few heavy ones could decide the result.
Texts of a single class are no evidence, because they do not show whether the network can
distinguish classes.
From about 2,000 training texts on, a network usually helps, so the penalty falls as their number
grows.

Users expect a share p of the predictions with the probability p to be right. Maximum likelihood
does not ensure that, especially with many classes, whose scores a softmax does not fit well. So the
n-gram logits are finally multiplied by the factor that best explains which predictions are right:
it maximizes Σ ln p over the right ones plus Σ ln (1 − p) over the wrong ones. With two classes that
is the likelihood itself. If the network is added, both models are multiplied by a ratio of two such
factors: that of their joint predictions and that of the n-grams' predictions for the same
validation texts, because these few texts may be easier or harder than all the texts that the
n-grams are calibrated on.

Each n-gram score separates one class from all others, so one factor for all of them is too large
for classes that are often confused with each other, such as neighbouring ratings, and too small for
the others. With three or more classes, a matrix D is added to the factor, unless texts or classes
have weights or labels look wrong:

    softmax(a·ngrams + D·(ngrams − mean) + bias)

A score at the margin of its SVM has the size 1, so an entry of D changes a logit as much as a bias
does, and has the same prior. A row of D has C entries, so it is fitted for classes with at
least C texts; other classes have neither a row nor a column in it.

Some labels may be wrong. If a share ε of them has been replaced by another label at random, a label
with the probability p of being right is observed with the probability
(1 − ε)·p + ε·(1 − p) / (C − 1). ε is fitted together with a and the biases, and is 0 unless the
labels are evidence of it.

Shapes: n texts, C classes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import nn

from lamatext.ngrams.model import ClassMixture
from lamatext.probabilities import softmax

Logits = NDArray[np.float32]  # (n, C)
Labels = NDArray[np.int64]  # (n,)
Floats = NDArray[np.float64]

TEMPERATURES = np.geomspace(0.25, 4.0, 161)
PRIOR_NGRAM_FACTOR = 5.0  # a without any text
NGRAM_FACTOR_SPREAD = 1.0  # standard deviation of ln a in its prior
BIAS_SPREAD = 0.8  # standard deviation of a class's bias in its prior
# Standard deviation of ln of a factor in its prior, for the factor that
CONFIDENCE_SPREAD = 0.05  # corrects the n-grams' confidence
CORRECTION_SPREAD = 0.5  # changes a when the network is added
EVIDENCE = 1.0  # standard errors of evidence that the network needs
FEW_TEXTS = 5  # with n evenly weighted validation texts it needs EVIDENCE * FEW_TEXTS / n more
NETWORK_TEXTS = 2_000  # evenly spread training texts above which less evidence is needed
CERTAIN = 1e-9  # probabilities are clipped to [CERTAIN, 1 - CERTAIN] when confidence is corrected
MIN_NOISE = 0.05  # share of wrong labels below which all labels are trusted
MAX_NOISE = 0.45  # the share from which labels say too little to tell which are wrong
NOISE_EVIDENCE = 3.0  # log-likelihood that wrong labels must explain


class Combination(NamedTuple):
    """Calibration parameters for n-gram and network logits: two factors and the class biases."""

    ngrams: float  # a
    network: float  # b
    bias: Floats  # (C,)
    noise: float = 0.0  # ε

    def logits(self, ngram_logits: Logits, network_logits: Logits) -> Floats:
        """Combine n-gram and network logits into calibrated logits (n, C)."""
        combined: Floats = self.ngrams * ngram_logits + self.bias + self.network * network_logits
        return combined

    def ngram_logits(self, ngram_logits: Logits) -> Floats:
        """Return the calibrated logits (n, C) of the n-gram model alone."""
        alone: Floats = self.ngrams * ngram_logits + self.bias
        return alone

    def for_all_classes(self, seen: NDArray[np.int64], classes: int) -> "Combination":
        """Extend the calibration to all classes, with a bias of 0 for unseen classes."""
        bias = np.zeros(classes)
        bias[seen] = self.bias
        return self._replace(bias=bias)


def fit_temperature(logits: Logits, labels: Labels, weights: Floats | None = None) -> float:
    """Fit the calibration temperature of a network by maximum likelihood on the validation set.

    The calibrated probabilities are softmax(logits / τ).
    """
    weights = _normalized(weights, len(labels))

    def loss(temperature: float) -> float:
        return _losses(logits.astype(np.float64) / temperature, labels, weights)[0]

    return float(min(TEMPERATURES, key=loss))


def calibrate_ngrams(
    ngram_logits: Logits, labels: Labels, weights: Floats | None = None, *, noise: float = 0.0
) -> Combination:
    """Fit the calibration factor and class biases of the n-gram model alone, without the network.

    Args:
        ngram_logits: out-of-sample logits.
        labels: class index of each text.
        weights: weight of each text in the likelihood; None weights all equally.
        noise: share of wrong labels.
    """
    first, classes = ngram_logits.astype(np.float64), ngram_logits.shape[1]
    weights = _normalized(weights, len(labels))
    start = np.zeros(1 + classes)  # ln a relative to its prior, and the biases
    precision = np.array([NGRAM_FACTOR_SPREAD**-2] + [BIAS_SPREAD**-2] * classes)

    def objective(values: Floats) -> tuple[float, Floats]:
        a = PRIOR_NGRAM_FACTOR * np.exp(values[0])
        loss, errors = _losses(a * first + values[1:], labels, weights, noise)
        gradient = np.append((errors * first).sum() * a, errors.sum(axis=0))
        return loss + (precision * values**2).sum() / 2, gradient + precision * values

    values = _minimize(objective, start, [(None, None)] * len(start))
    return Combination(float(PRIOR_NGRAM_FACTOR * np.exp(values[0])), 0.0, values[1:], noise)


def correct_confidence(
    ngrams: Combination, ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> Combination:
    """Scale the logits of a calibrated n-gram model so that its confidence matches its accuracy.

    With two classes the calibration already takes that into account, and nothing changes.

    Args:
        ngrams: the calibration of the n-gram model alone.
        ngram_logits: out-of-sample logits.
        labels: class index of each text.
        weights: weight of each text in the likelihood; None weights all equally.
    """
    if len(ngrams.bias) < 3:
        return ngrams
    weights = _normalized(weights, len(labels))
    logits = ngrams.ngram_logits(ngram_logits)
    factor = _confidence_factor(logits, labels, weights, ngrams.noise, CONFIDENCE_SPREAD)
    return ngrams._replace(ngrams=ngrams.ngrams * factor, bias=ngrams.bias * factor)


def mix_classes(
    ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> tuple[ClassMixture, Combination]:
    """Calibrate n-gram logits with a matrix that mixes the logits of different classes.

    The entries of D are 0 for classes that have fewer texts than there are classes.

    Args:
        ngram_logits: out-of-sample logits.
        labels: class index of each text.
        weights: weight of each text in the likelihood; None weights all equally.

    Returns:
        The class-mixing matrix with its shift, and the calibration of the mixed logits.
    """
    first, classes = ngram_logits.astype(np.float64), ngram_logits.shape[1]
    mean, weights = first.mean(axis=0), _normalized(weights, len(labels))
    mixed = np.flatnonzero(np.bincount(labels, minlength=classes) >= classes)
    centred = (first - mean)[:, mixed]  # (n, K) of the K mixed classes
    entries = classes + len(mixed) ** 2
    precision = np.array([NGRAM_FACTOR_SPREAD**-2] + [BIAS_SPREAD**-2] * entries)

    def objective(values: Floats) -> tuple[float, Floats]:
        a, bias = PRIOR_NGRAM_FACTOR * np.exp(values[0]), values[1 : 1 + classes]
        matrix = values[1 + classes :].reshape(len(mixed), len(mixed))
        logits = a * first + bias
        logits[:, mixed] += centred @ matrix.T
        loss, errors = _losses(logits, labels, weights)
        by_entry = (errors[:, mixed].T @ centred).ravel()
        gradient = np.concatenate([[(errors * first).sum() * a], errors.sum(axis=0), by_entry])
        return loss + (precision * values**2).sum() / 2, gradient + precision * values

    with threadpool_limits(1):  # the result must not depend on the number of threads
        values = _minimize(objective, np.zeros(1 + entries), [(None, None)] * (1 + entries))
    a = float(PRIOR_NGRAM_FACTOR * np.exp(values[0]))
    relative = np.zeros((classes, classes))
    relative[np.ix_(mixed, mixed)] = values[1 + classes :].reshape(len(mixed), len(mixed)) / a
    matrix, shift = np.eye(classes) + relative, -(relative * mean).sum(axis=1)
    mixture = ClassMixture(matrix.astype(np.float32), shift.astype(np.float32))
    return mixture, Combination(a, 0.0, values[1 : 1 + classes])


def estimate_noise(
    ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> Combination:
    """Jointly calibrate n-gram logits and estimate the share of wrong labels.

    ``ngram_logits`` are out-of-sample logits, ``labels`` the class index of each text.
    """
    first, classes = ngram_logits.astype(np.float64), ngram_logits.shape[1]
    weights = _normalized(weights, len(labels))
    start = np.append(np.zeros(1 + classes), MIN_NOISE)
    precision = np.array([NGRAM_FACTOR_SPREAD**-2] + [BIAS_SPREAD**-2] * classes + [0.0])

    def objective(values: Floats) -> tuple[float, Floats]:
        a, noise = PRIOR_NGRAM_FACTOR * np.exp(values[0]), float(values[-1])
        logits = a * first + values[1:-1]
        loss, errors = _losses(logits, labels, weights, noise)
        right = _own_probabilities(logits, labels)
        slopes = (right - (1 - right) / (classes - 1)) / _with_noise(right, noise, classes)
        slope = (weights * slopes).sum()
        gradient = np.concatenate([[(errors * first).sum() * a], errors.sum(axis=0), [slope]])
        return loss + (precision * values**2).sum() / 2, gradient + precision * values

    bounds: list[tuple[float | None, float | None]] = [(None, None)] * (1 + classes)
    values = _minimize(objective, start, [*bounds, (1e-6, MAX_NOISE)])  # finite slopes above 0
    a = float(PRIOR_NGRAM_FACTOR * np.exp(values[0]))
    return Combination(a, 0.0, values[1:-1], float(values[-1]))


def is_evidence_of_noise(
    noisy: Combination,
    plain: Combination,
    ngram_logits: Logits,
    labels: Labels,
    weights: Floats | None = None,
) -> bool:
    """Return whether a calibration that allows for wrong labels fits clearly better.

    It is compared with the calibration ``plain``, which trusts all labels. A small estimated share
    of wrong labels is no evidence: a few confident errors are no reason to distrust all labels.
    """
    if not MIN_NOISE <= noisy.noise < MAX_NOISE:
        return False
    before, after = (
        held_out_loss(ngrams, ngram_logits, labels, weights) for ngrams in (plain, noisy)
    )
    return before - after >= NOISE_EVIDENCE


def held_out_loss(
    ngrams: Combination, ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> float:
    """Compute the negative log-likelihood of held-out labels under a calibrated n-gram model."""
    logits = ngrams.ngram_logits(ngram_logits)
    return _losses(logits, labels, _normalized(weights, len(labels)), ngrams.noise)[0]


def tells_classes_apart(
    ngrams: Combination, ngram_logits: Logits, labels: Labels, weights: Floats | None = None
) -> bool:
    """Return whether calibrated n-gram logits predict labels better than class frequencies do."""
    weights = _normalized(weights, len(labels))
    totals = np.bincount(labels, weights)
    shares = totals[totals > 0] / totals.sum()
    loss_of_frequencies = -float(totals.sum() * (shares * np.log(shares)).sum())
    return held_out_loss(ngrams, ngram_logits, labels, weights) < loss_of_frequencies


def label_trust(ngrams: Combination, ngram_logits: Logits, labels: Labels) -> Floats:
    """Compute the probability (n,) that each label is correct, with a calibrated n-gram model.

    ``ngram_logits`` must be out-of-sample logits, from models not fitted to these texts.
    """
    logits = ngrams.ngram_logits(ngram_logits)
    right = _own_probabilities(logits, labels)
    trust: Floats = (1 - ngrams.noise) * right / _with_noise(right, ngrams.noise, logits.shape[1])
    return trust


def add_network(
    ngrams: Combination,
    ngram_logits: Logits,
    network_logits: Logits,
    labels: Labels,
    weights: Floats | None = None,
    *,
    training_texts: float = 0.0,
) -> Combination:
    """Add the network to a calibrated n-gram model by fitting the network's calibration factor.

    The logits of both models are those of validation texts, on which neither was trained. The
    network's logits are divided by their typical size, so that the penalty does not depend on how
    long the network was trained.

    Args:
        ngrams: the calibration of the n-gram model alone.
        ngram_logits: out-of-sample logits of the n-gram model.
        network_logits: logits of the network for the same texts.
        labels: class index of each text.
        weights: weight of each text in the likelihood; None weights all equally.
        training_texts: number of texts that the network was trained on, as counted by
            ``evenly_spread_texts``.
    """
    base = ngrams.ngram_logits(ngram_logits)
    second = network_logits.astype(np.float64)
    size = _typical_size(second)
    if len(np.unique(labels)) < 2 or size == 0:
        return ngrams
    second = second / size
    weights = _normalized(weights, len(labels))
    _, errors = _losses(base, labels, weights, ngrams.noise)
    evidence = (errors * second).sum(axis=1)  # (n,) derivative of each text's loss at b = 0
    texts = weights.sum() ** 2 / (weights**2).sum()  # effective number of texts
    strength = EVIDENCE * (1 + FEW_TEXTS / texts)
    strength *= min(1.0, (NETWORK_TEXTS / max(training_texts, 1.0)) ** 2)
    penalty = strength * float(np.sqrt((evidence**2).sum()))

    def objective(values: Floats) -> tuple[float, Floats]:
        change, b = np.exp(values[0]), values[1]
        loss, errors = _losses(change * base + b * second, labels, weights, ngrams.noise)
        prior = (values[0] / CORRECTION_SPREAD) ** 2 / 2
        gradient = [
            (errors * base).sum() * change + values[0] / CORRECTION_SPREAD**2,
            (errors * second).sum() + penalty,
        ]
        return loss + prior + penalty * b, np.array(gradient)

    log_change, b = _minimize(objective, np.zeros(2), [(None, None), (0, None)])
    if b == 0:
        return ngrams
    change = float(np.exp(log_change))
    together, alone = (
        _confidence_factor(logits, labels, weights, ngrams.noise, CORRECTION_SPREAD)
        for logits in (change * base + b * second, base)
    )
    change, b = change * together / alone, b * together / alone  # cancels how easy these texts are
    return Combination(ngrams.ngrams * change, float(b / size), ngrams.bias * change, ngrams.noise)


def evenly_spread_texts(labels: Labels, classes: int) -> float:
    """Return the effective number of texts for calibration, which is lower for imbalanced classes.

    It is n·(1 − Σ pₖ²)·C / (C − 1), where pₖ is the share of class k: n if all classes are equally
    frequent, and close to 0 if nearly all texts are of one class.
    """
    shares = np.bincount(labels, minlength=classes) / max(len(labels), 1)
    return float(len(labels) * (1 - (shares**2).sum()) * classes / max(classes - 1, 1))


def _confidence_factor(
    logits: Floats, labels: Labels, weights: Floats, noise: float, spread: float
) -> float:
    """Fit the calibration factor that best explains which predictions are right or wrong.

    ``spread`` is the standard deviation of the factor's logarithm in the prior, whose mean is 0.
    """
    is_right = logits.argmax(axis=1) == labels
    distances = logits.max(axis=1, keepdims=True) - logits  # (n, C)
    classes = logits.shape[1]

    def objective(values: Floats) -> tuple[float, Floats]:
        factor = np.exp(values[0])
        powers = np.exp(-factor * distances)
        predicted = 1 / powers.sum(axis=1)  # probability of the predicted class, (n,)
        slopes = factor * predicted**2 * (powers * distances).sum(axis=1)
        slopes *= 1 - noise * classes / (classes - 1)
        observed = _with_noise(predicted, noise, classes)
        slopes[(observed < CERTAIN) | (observed > 1 - CERTAIN)] = 0
        observed = np.clip(observed, CERTAIN, 1 - CERTAIN)
        losses = -np.log(np.where(is_right, observed, 1 - observed))
        gradients = slopes * np.where(is_right, -1 / observed, 1 / (1 - observed))
        loss = float((weights * losses).sum()) + (values[0] / spread) ** 2 / 2
        return loss, np.array([(weights * gradients).sum() + values[0] / spread**2])

    return float(np.exp(_minimize(objective, np.zeros(1), [(-3, 3)])[0]))


def _losses(
    logits: Floats, labels: Labels, weights: Floats, noise: float = 0.0
) -> tuple[float, Floats]:
    """Return the calibration loss and its gradient with respect to the logits (n, C)."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(axis=1)
    errors = powers / totals[:, None]
    right = errors[rows, labels]
    errors[rows, labels] -= 1
    if not noise:
        loss = float((weights * (np.log(totals) - shifted[rows, labels])).sum())
        return loss, errors * weights[:, None]
    classes = logits.shape[1]
    observed = _with_noise(right, noise, classes)
    slopes = (1 - noise * classes / (classes - 1)) * right / observed  # of ln(observed)
    return -float((weights * np.log(observed)).sum()), errors * (weights * slopes)[:, None]


def _with_noise(right: Floats, noise: float, classes: int) -> Floats:
    """Adjust calibrated label probabilities for a share ``noise`` of wrong labels."""
    observed: Floats = (1 - noise) * right + noise * (1 - right) / (classes - 1)
    return observed


def _own_probabilities(logits: Floats, labels: Labels) -> Floats:
    """Return the softmax probability of each text's label, for use in calibration."""
    return softmax(logits)[np.arange(len(labels)), labels]


def _normalized(weights: Floats | None, texts: int) -> Floats:
    """Normalize text weights to a mean of 1, so that the calibration prior keeps its strength."""
    if weights is None or not weights.any():
        return np.ones(texts)
    return np.asarray(weights / weights.mean(), np.float64)


def _typical_size(logits: Floats) -> float:
    centred = logits - logits.mean(axis=1, keepdims=True)
    return float(np.sqrt((centred**2).mean())) if centred.size else 0.0


def _minimize(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    bounds: list[tuple[float | None, float | None]],
) -> Floats:
    from scipy.optimize import minimize

    solution: Floats = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return solution


def scale_logits(network: nn.Module, factor: float) -> None:
    """Apply a calibration factor to a network's logits by scaling its last layer in place."""
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(factor)
        last.bias.mul_(factor)
