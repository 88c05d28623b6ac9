"""Time left in a training run: the expected duration of its stages, corrected by measurements.

The expected duration of a stage is proportional to the number of texts and words that it processes;
the constants were measured with ``python -m benchmarks growth``. The measured duration of the
current stage and of earlier stages of the same kind shows how much faster or slower this machine
is. Stages of other kinds are corrected by the geometric mean of these ratios over the kinds. In
this mean, no kind has a weight of more than ``KIND_SECONDS``, so a poor estimate for one kind has
little effect.
"""

import math
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch

from lamatext.data.svd_vectors import SVD_WORDS, WINDOW
from lamatext.kernels.kernel_threads import thread_count
from lamatext.progress import Progress
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings
from lamatext.training.cross_fitting import expected_fits

BYTES_PER_WORD = 6.0  # in UTF-8, with the space
PRIOR_SECONDS = 0.5  # the expected speed counts as much as a measurement of this duration
KIND_PRIOR_SECONDS = 3.0  # the same for one kind, with the mean speed of all kinds as its prior
KIND_SECONDS = 10.0  # maximum weight of one kind of stages in the mean over all kinds
REPORT_SECONDS = 0.5  # between two reports
# CPU seconds on one core of the machine of the growth records
TOKENIZING = 0.8e-6  # per word
WORD_VECTORS = (1.0, 1.0e-6)  # and per pair of words that is counted
STEP = (10e-3, 11e-6)  # per training step, and per word that the network reads
FORWARD = 5.5e-6  # per word that the network reads without training on it
NGRAMS = {True: 14.0, False: 2.6}  # per word, with and without n-grams of characters
COUNTING = 0.09e-6  # per n-gram
FITTING = (0.048e-6, 3.4e-6)  # per n-gram, and per text
FITTING_POWERS = (0.4, 0.18)  # powers of the numbers of SVMs and texts, which multiply FITTING
CALIBRATING = 6e-6  # per word of the validation texts
SAVING = (0.5, 0.13e-6)  # and per word of the texts, which are hashed
SCORING = 4e-6  # per word of the test texts
OVERRUN = 0.3  # time left of an overdue stage without steps, as a fraction of its time so far
# Of baselines per text and per word, to be multiplied by the square root of the number of classes
BASELINE_TIMES = {
    "tfidf": (220e-6, 2e-6),
    "tfidf-svc": (0.0, 1e-6),
    "tfidf-chars": (0.0, 4.7e-6),
    "tfidf-chars-lr": (350e-6, 10e-6),
    "fasttext": (0.0, 1.3e-6),
    "fasttext-bigrams": (0.0, 2.6e-6),
    "avg": (0.0, 3.3e-6),
}
UNEVEN = {"fitting"}  # stages whose steps differ too widely in duration to predict the rest


class ExpectedStage(NamedTuple):
    """Stage of a training run and its expected duration, for estimating the time left."""

    name: str  # the first word of the stage's name
    seconds: float
    after_steps: float = 0.0  # part of ``seconds`` that follows the last step


class RunSize(NamedTuple):
    """Dataset sizes from which the duration of a training run is estimated."""

    texts: int  # for training and validation together
    text_bytes: int
    classes: int
    validation_texts: int = 0
    test_texts: int = 0


def expected_stages(
    run: RunSize, recipe: Recipe, *, baselines: Sequence[str] = ()
) -> list[ExpectedStage]:
    """Return the stages of a training run on a CPU in order, with their expected duration."""
    words = run.text_bytes / BYTES_PER_WORD
    size = DatasetSize(run.texts - run.validation_texts, int(words), 0, run.classes)
    recipe = resolve_auto_settings(recipe, size)
    mean_words = words / max(run.texts, 1)
    cores = min(thread_count(default=torch.get_num_threads()), 4)
    speedup = cores**0.8  # parts of the computation run on one core
    stages = [ExpectedStage("tokenizing", TOKENIZING * words)]
    counted = min(words, SVD_WORDS) if recipe.text.word_vectors == "svd" else words
    pairs = _pairs_per_word(mean_words) * counted
    stages.append(ExpectedStage("word", WORD_VECTORS[0] + WORD_VECTORS[1] * pairs))
    if recipe.ngrams.enabled:
        stages += _ngram_stages(run, NGRAMS[bool(recipe.ngrams.characters)] * words, cores)
    read = min(mean_words, recipe.text.max_words or words)  # words per text by the network
    steps = -(-size.texts // int(recipe.training.batch_size))
    validating = FORWARD * read * run.validation_texts / speedup
    steps_seconds = (STEP[0] * steps + STEP[1] * read * size.texts) / speedup
    epoch = ExpectedStage("epoch", steps_seconds + validating, after_steps=validating)
    stages += [epoch] * int(recipe.training.epochs)
    validation_words = mean_words * run.validation_texts
    stages.append(ExpectedStage("calibrating", CALIBRATING * validation_words))
    stages.append(ExpectedStage("saving", SAVING[0] + SAVING[1] * words))
    stages.append(ExpectedStage("scoring", SCORING * mean_words * run.test_texts / speedup))
    for per_text, per_word in map(BASELINE_TIMES.__getitem__, baselines):
        seconds = (per_text * run.texts + per_word * words) * run.classes**0.5
        stages.append(ExpectedStage("training", seconds))
    return stages


def _ngram_stages(run: RunSize, ngrams: float, cores: int) -> list[ExpectedStage]:
    """Return the stages that fit and cross-fit the n-gram model, with their expected duration."""
    svms = 1 if run.classes == 2 else run.classes
    fit = FITTING[0] * ngrams + FITTING[1] * run.texts
    fit *= svms ** FITTING_POWERS[0] * run.texts ** FITTING_POWERS[1] / min(cores, svms) ** 0.8
    fits = expected_fits(run.validation_texts, run.classes)
    counting = ExpectedStage("counting", COUNTING * ngrams)
    return [counting, *[ExpectedStage("fitting", fit)] * fits]


def _pairs_per_word(words: float) -> float:
    """Estimate how many word pairs per word are counted for word vectors, to predict the time.

    The estimate is for a text of ``words`` words. Half of them are assumed to be frequent words,
    which are skipped.
    """
    kept = max(1.0, words / 2)
    return sum(max(0.0, 1 - distance / kept) for distance in range(1, WINDOW + 1))


class TimeLeft(Progress):
    """Progress reporter that also estimates the time left in the whole training run."""

    def __init__(self, display: Progress, stages: Sequence[ExpectedStage]) -> None:
        self._display, self._ahead = display, list(stages)
        self._current = ExpectedStage("", 0.0)
        self._total, self._done = 0, 0
        self._started = self._reported = time.monotonic()
        self._finished: list[tuple[ExpectedStage, float]] = []  # with the measured seconds

    def stage(self, name: str, total: int | None = None) -> None:
        """Report the start of a new stage of the training run and update the time left."""
        now, kind = time.monotonic(), name.split()[0]
        if kind == "baseline":  # a part of the stage that trains this baseline
            self._display.stage(name, total)
            return
        if self._current.seconds:
            self._finished.append((self._current, now - self._started))
        self._started, self._total, self._done = now, total or 0, 0
        places = [number for number, stage in enumerate(self._ahead) if stage.name == kind]
        earlier = [stage for stage, _ in self._finished if stage.name == kind]
        self._current = earlier[-1] if earlier else ExpectedStage(kind, 0.0)  # one more than usual
        if places:
            self._current = self._ahead[places[0]]
            self._ahead = self._ahead[places[0] + 1 :]
        self._display.stage(name, total)
        self._report(now)

    def expect(self, name: str, count: int) -> None:
        """Set how many stages with this name are still ahead, to estimate the time left."""
        kind = name.split()[0]
        places = [number for number, stage in enumerate(self._ahead) if stage.name == kind]
        known = [self._ahead[number] for number in places] or [
            stage
            for stage in (self._current, *(stage for stage, _ in self._finished[::-1]))
            if stage.name == kind
        ]
        if known:
            rest = [stage for stage in self._ahead if stage.name != kind]
            first = places[0] if places else 0
            self._ahead = [*rest[:first], *known[:1] * count, *rest[first:]]
        self._display.expect(name, count)

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report completed steps of the current stage and, at intervals, the time left."""
        self._done += steps
        self._display.advance(steps, detail)
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._report(now)

    def section(self, title: str) -> None:
        """Pass a section heading to the progress display, without changing the time left."""
        self._display.section(title)

    def note(self, text: str) -> None:
        """Pass a line of text to the progress display, without changing the time left."""
        self._display.note(text)

    def _report(self, now: float) -> None:
        self._reported = now
        self._display.time_left(self.seconds_left(now))

    def seconds_left(self, now: float) -> float:
        """Estimate the time left in the training run, in seconds."""
        elapsed = now - self._started
        has_steps = self._total and self._current.name not in UNEVEN
        share = min(1.0, self._done / self._total) if has_steps else 0.0
        if self._current.seconds:
            share *= 1 - self._current.after_steps / self._current.seconds
        finished = list(self._finished)
        if share and self._current.seconds:
            part = self._current._replace(seconds=share * self._current.seconds)
            finished.append((part, elapsed))
        measured = _by_kind(finished)
        slowness = _mean_slowness(measured.values())

        def left(stage: ExpectedStage) -> float:
            same = measured.get(stage.name, _Times(0.0, 0.0))
            return stage.seconds * _slowness(same, slowness, KIND_PRIOR_SECONDS)

        current = left(self._current)
        overdue = OVERRUN * elapsed if self._current.seconds else 0.0
        rest = (1 - share) * current if share else max(overdue, current - elapsed)
        return rest + sum(map(left, self._ahead))


class _Times(NamedTuple):
    """Total expected and measured seconds of the finished stages of one kind."""

    expected: float
    measured: float

    def at_most(self, seconds: float) -> "_Times":
        """Scale both times down so that the expected time is at most ``seconds``."""
        factor = min(1.0, seconds / self.expected) if self.expected else 1.0
        return _Times(factor * self.expected, factor * self.measured)


def _by_kind(finished: Sequence[tuple[ExpectedStage, float]]) -> dict[str, _Times]:
    """Sum the expected and the measured seconds of the finished stages of each kind.

    The stages before the last one count for at most ``KIND_SECONDS``, because other programs that
    slowed them down may have ended since.
    """
    kinds: dict[str, _Times] = {}
    for stage, seconds in finished:
        times = kinds.get(stage.name, _Times(0.0, 0.0)).at_most(KIND_SECONDS)
        kinds[stage.name] = _Times(times.expected + stage.seconds, times.measured + seconds)
    return kinds


def _slowness(times: _Times, prior: float, prior_seconds: float) -> float:
    """Return the ratio of measured to expected stage duration, shrunk towards ``prior``."""
    return (times.measured + prior_seconds * prior) / (times.expected + prior_seconds)


def _mean_slowness(kinds: Collection[_Times]) -> float:
    """Average the ratio of measured to expected duration over the kinds of stages.

    The average is a geometric mean; each ratio is shrunk towards 1.
    """
    if not kinds:
        return 1.0
    weights = [min(times.expected, KIND_SECONDS) for times in kinds]
    logarithms = [math.log(_slowness(times, 1.0, PRIOR_SECONDS)) for times in kinds]
    return math.exp(np.average(logarithms, weights=weights))
