"""Time left of a training run: the expected seconds of its stages, corrected by measured ones.

The expected seconds of a stage are proportional to the texts and words that it reads; the constants
are measured by ``python -m benchmarks growth``. A stage that runs, and earlier stages of its kind,
show how much faster or slower this machine is; later stages are corrected by all of them together.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from lamatext.data.word_vectors import SVD_WORDS
from lamatext.kernels.kernel_threads import thread_count
from lamatext.progress import Progress
from lamatext.settings import Recipe
from lamatext.training.auto_settings import DatasetSize, resolve_auto_settings

BYTES_PER_WORD = 6.0  # in UTF-8, with the space
PRIOR_SECONDS = 3.0  # the expected seconds count like measured ones of this duration
REPORT_SECONDS = 0.5  # between two reports
# CPU seconds on the machine of the growth records
TOKENIZING = 0.5e-6  # per word
WORD_VECTORS = (2.0, 2.5e-6)  # and per word that is counted
STEP = (8e-3, 11e-6)  # per training step, and per word that the network reads
COUNTING = 0.5e-6  # n-grams, per word
NGRAMS = (4.5e-6, 0.28)  # per word with two classes; the power of the number of SVMs it grows with
OVERRUN = 0.3  # of its time so far that a stage without steps still takes if it is overdue
BASELINE = 12e-6  # per word, for TF-IDF with logistic regression


class ExpectedStage(NamedTuple):
    """A stage of a training run and the seconds that it is expected to take."""

    name: str  # the first word of the stage's name
    seconds: float


def expected_stages(
    texts: int,
    text_bytes: int,
    classes: int,
    recipe: Recipe,
    *,
    held_out: float = 0.0,
    baselines: int = 0,
) -> list[ExpectedStage]:
    """Return the stages of a training run on a CPU, in order, from the size of the data.

    ``held_out`` is the fraction of the texts that the network is validated on.
    """
    words = text_bytes / BYTES_PER_WORD
    trained = int((1 - held_out) * texts)
    size = DatasetSize(trained, int(words), 0, classes)
    training = resolve_auto_settings(recipe, size).training
    read = trained * min(words / max(texts, 1), recipe.text.max_words or words)
    steps = -(-trained // int(training.batch_size))
    cores = min(thread_count(default=torch.get_num_threads()), 4)
    speedup = cores**0.8  # parts of a step run on one core
    epoch = (STEP[0] * steps + STEP[1] * read) / speedup
    svms = 1 if classes == 2 else classes
    fit = NGRAMS[0] * svms ** NGRAMS[1] * words / min(cores, svms) ** 0.8
    stages = [ExpectedStage("tokenizing", TOKENIZING * words)]
    counted = min(words, SVD_WORDS) if recipe.text.word_vectors == "svd" else words
    stages.append(ExpectedStage("word", WORD_VECTORS[0] + WORD_VECTORS[1] * counted))
    stages += [ExpectedStage("epoch", epoch)] * int(training.epochs)
    if recipe.ngrams.enabled:
        stages.append(ExpectedStage("counting", COUNTING * words))
        stages += [ExpectedStage("fitting", fit)] * 2  # to calibrate, and to all texts
    return stages + [ExpectedStage("training", BASELINE * words)] * baselines


class TimeLeft(Progress):
    """Progress that reports the time left of a whole training run along with each step."""

    def __init__(self, display: Progress, stages: Sequence[ExpectedStage]) -> None:
        self._display, self._ahead = display, list(stages)
        self._current = ExpectedStage("", 0.0)
        self._total, self._done = 0, 0
        self._started = self._reported = time.monotonic()
        self._finished: list[tuple[ExpectedStage, float]] = []  # with the measured seconds

    def stage(self, name: str, total: int | None = None) -> None:
        """Report the start of a stage of the training run; expected ones before it are over."""
        now, kind = time.monotonic(), name.split()[0]
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

    def advance(self, steps: int = 1, detail: str = "") -> None:
        """Report steps of the current stage and, now and then, the time left of the run."""
        self._done += steps
        self._display.advance(steps, detail)
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._report(now)

    def section(self, title: str) -> None:
        """Report a section heading."""
        self._display.section(title)

    def note(self, text: str) -> None:
        """Report a line of text."""
        self._display.note(text)

    def _report(self, now: float) -> None:
        self._reported = now
        self._display.time_left(self.seconds_left(now))

    def seconds_left(self, now: float) -> float:
        """Estimate the seconds until the last stage of the training run ends."""
        elapsed = now - self._started
        share = min(1.0, self._done / self._total) if self._total else 0.0
        finished = list(self._finished)
        if share and self._current.seconds:
            part = self._current._replace(seconds=share * self._current.seconds)
            finished.append((part, elapsed))
        slowness = _slowness(finished, 1.0)

        def left(stage: ExpectedStage) -> float:
            same = [pair for pair in finished if pair[0].name == stage.name]
            return stage.seconds * _slowness(same, slowness)

        current = left(self._current)
        overdue = OVERRUN * elapsed if self._current.seconds else 0.0
        rest = (1 - share) * current if share else max(overdue, current - elapsed)
        return rest + sum(map(left, self._ahead))


def _slowness(finished: Sequence[tuple[ExpectedStage, float]], prior: float) -> float:
    """Return the measured seconds of stages divided by the expected ones, shrunk to ``prior``."""
    expected = sum(stage.seconds for stage, _ in finished)
    measured = sum(seconds for _, seconds in finished)
    return (measured + PRIOR_SECONDS * prior) / (expected + PRIOR_SECONDS)
