"""Estimates of the time left of a training run."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lamatext.baselines import BASELINES
from lamatext.pipeline import DataSources, read_splits, train_and_score
from lamatext.progress import Progress
from lamatext.recipes import load_recipe
from lamatext.settings import Recipe
from lamatext.training import time_left
from lamatext.training.time_left import ExpectedStage, RunSize, TimeLeft, expected_stages
from tests.corpora import write_csv

DEFAULT = load_recipe("default")
SLACK = 5.0  # seconds that an estimate may be wrong by even if little is left


def size_of(texts: int, words: int = 20, classes: int = 4) -> RunSize:
    return RunSize(texts, 6 * words * texts, classes, texts // 10, 5_000)


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Display(Progress):
    """Progress display that keeps the reported times left."""

    def __init__(self) -> None:
        self.left: list[float] = []

    def time_left(self, seconds: float) -> None:
        self.left.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time_left, "time", clock)
    return clock


STAGES = [ExpectedStage(name, seconds) for name, seconds in (("tokenizing", 10), ("word", 10))]
STAGES += [ExpectedStage("epoch", 100), ExpectedStage("epoch", 100), ExpectedStage("fitting", 50)]


@pytest.mark.parametrize("slowness", [0.4, 1.0, 5.0])
def test_a_slower_or_faster_machine_is_noticed_while_the_first_stage_runs(
    clock: Clock, slowness: float
) -> None:
    display = Display()
    progress = TimeLeft(display, STAGES)

    progress.stage("tokenizing", 100)
    for _ in range(80):
        clock.now += 0.1 * slowness
        progress.advance()

    actual = slowness * (2 + 10 + 100 + 100 + 50)
    assert display.left[-1] == pytest.approx(actual, rel=0.5)


def test_the_steps_of_one_epoch_correct_the_expected_seconds_of_the_next(clock: Clock) -> None:
    display = Display()
    progress = TimeLeft(display, STAGES)
    progress.stage("epoch 1/2", 50)

    for _ in range(25):  # 10 times slower than expected, unlike fitting
        clock.now += 20
        progress.advance()

    assert display.left[-1] == pytest.approx(500 + 1000 + 50 * 10, rel=0.1)


def test_stages_that_were_left_out_or_unexpected_do_not_count(clock: Clock) -> None:
    display = Display()
    progress = TimeLeft(display, STAGES)

    progress.stage("compiling the CPU kernel (once on this machine)")
    clock.now += 1000
    progress.stage("fitting the n-grams", 4)

    assert display.left == [pytest.approx(270), pytest.approx(50)]
    progress.stage("scoring on the test set", 10)
    assert display.left[-1] == 0


def test_a_stage_without_steps_gets_shorter_with_the_time_until_it_is_overdue(
    clock: Clock,
) -> None:
    progress = TimeLeft(Display(), STAGES[1:2])
    progress.stage("word vectors")

    assert progress.seconds_left(clock.now + 4) == pytest.approx(6)
    assert progress.seconds_left(clock.now + 40) == pytest.approx(40 * time_left.OVERRUN)


def test_one_more_stage_than_usual_is_expected_to_take_as_long_as_the_last(clock: Clock) -> None:
    display = Display()
    progress = TimeLeft(display, STAGES[-1:])

    for _ in range(2):
        progress.stage("fitting the n-grams", 4)
        assert display.left[-1] == pytest.approx(50)
        clock.now += 50
    progress.stage("scoring on the test set", 10)

    assert display.left[-1] == 0


STEPS = {"tokenizing": 100, "epoch": 400, "fitting": 80, "scoring": 80}


class TimedReports(Display):
    """Progress display that keeps the reported times left and when they were reported."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.reports: list[tuple[float, float]] = []

    def time_left(self, seconds: float) -> None:
        self.reports.append((self._clock.now, seconds))

    def largest_factor(self, *, since: float = 60.0) -> float:
        """Return the largest factor by which a report was wrong, up to the end of the run."""
        pairs = [
            (left + SLACK, self._clock.now - now + SLACK)
            for now, left in self.reports
            if now >= since
        ]
        return max((max(a / b, b / a) for a, b in pairs), default=1.0)


def simulate(progress: TimeLeft, clock: Clock, stage: ExpectedStage, slowness: float) -> None:
    """Run a stage; the steps of a fit are done in the last fifth of its time."""
    steps = STEPS.get(stage.name, 0)
    seconds, after_steps = slowness * stage.seconds, slowness * stage.after_steps
    progress.stage(stage.name, steps or None)
    if stage.name == "fitting":
        clock.now += 0.8 * seconds
        seconds *= 0.2
    for _ in range(steps):
        clock.now += (seconds - after_steps) / steps
        progress.advance()
    clock.now += after_steps if steps else seconds


@pytest.mark.parametrize("rows", [20_000, 80_000, 320_000, 1_000_000])
@pytest.mark.parametrize("slowness", [0.7, 1.5, 4.0])
@pytest.mark.parametrize(
    "kind", ["tokenizing", "word", "counting", "fitting", "epoch", "calibrating", "saving"]
)
def test_from_the_first_minute_to_the_end_the_time_left_is_right_within_a_factor_of_one_and_a_half(
    clock: Clock, rows: int, slowness: float, kind: str
) -> None:
    stages = expected_stages(size_of(rows), DEFAULT)
    display = TimedReports(clock)

    progress = TimeLeft(display, stages)
    for stage in stages:  # one kind of stages takes longer than the others
        factor = slowness * (1.4 if stage.name == kind else 1.0)
        simulate(progress, clock, stage, factor)

    assert display.largest_factor() < 1.5
    assert len(display.reports) > 50


@pytest.mark.parametrize("classes", [20, 150])
@pytest.mark.parametrize("slowness", [1.0, 4.0])
def test_the_time_left_counts_the_fits_of_doubted_labels_as_soon_as_these_are_suspected(
    clock: Clock, classes: int, slowness: float
) -> None:
    stages = expected_stages(size_of(20_000, classes=classes), DEFAULT)
    first_fit = [stage.name for stage in stages].index("fitting")
    display = TimedReports(clock)

    progress = TimeLeft(display, stages)
    for stage in stages[: first_fit + 1]:
        simulate(progress, clock, stage, slowness)
    suspected = clock.now
    progress.expect("fitting the n-grams", 9)
    for _ in range(7):  # the weakest fit is not tried
        simulate(progress, clock, stages[first_fit], slowness)
    progress.expect("fitting the n-grams", 1)
    simulate(progress, clock, stages[first_fit], slowness)  # the final model
    for stage in stages[first_fit + 1 :]:
        if stage.name != "fitting":
            simulate(progress, clock, stage, slowness)

    assert display.largest_factor(since=suspected + 0.1) < 1.5
    assert [stage.name for stage in stages].count("fitting") == 5


def test_an_epoch_that_is_faster_than_the_last_corrects_the_estimate_soon(clock: Clock) -> None:
    display = TimedReports(clock)
    epochs = [ExpectedStage("epoch", 100)] * 4
    progress = TimeLeft(display, epochs)

    for epoch, slowness in zip(epochs, (2, 1, 1, 1), strict=True):
        simulate(progress, clock, epoch, slowness)

    assert display.largest_factor(since=230) < 1.3
    assert display.largest_factor(since=300) < 1.1


def test_what_follows_the_last_step_of_a_stage_is_still_left(clock: Clock) -> None:
    display = TimedReports(clock)
    epoch = ExpectedStage("epoch", 100, after_steps=20)
    progress = TimeLeft(display, [epoch])

    simulate(progress, clock, epoch, slowness=1.0)

    assert display.reports[-1] == pytest.approx((80, 20), abs=0.5)


def test_one_kind_that_was_expected_badly_changes_the_others_little(clock: Clock) -> None:
    names = ("tokenizing", "word", "counting", "epoch")
    stages = [ExpectedStage(name, 30) for name in names]
    display = TimedReports(clock)
    progress = TimeLeft(display, stages)

    for stage in stages:
        simulate(progress, clock, stage, 4.0 if stage.name == "word" else 1.0)

    assert display.largest_factor(since=180) < 1.6  # a mean of the seconds would say 2


def test_stages_that_are_announced_take_as_long_as_those_of_their_name(clock: Clock) -> None:
    display = Display()
    progress = TimeLeft(display, [ExpectedStage("fitting", 10), ExpectedStage("epoch", 100)])

    progress.expect("fitting the n-grams", 3)
    progress.stage("tokenizing")
    assert display.left[-1] == pytest.approx(130)
    progress.stage("fitting the n-grams")
    progress.expect("fitting the n-grams", 0)
    clock.now += 10
    progress.stage("fitting the n-grams")  # one more than announced
    progress.expect("fitting the n-grams", 2)
    progress.expect("unknown", 5)
    clock.now += 10
    progress.stage("fitting the n-grams")

    assert display.left[-1] == pytest.approx(10 + 10 + 100)


def test_the_expected_time_grows_with_texts_and_words() -> None:
    def total(texts: int, words: int) -> float:
        stages = expected_stages(size_of(texts, words), DEFAULT, baselines=["tfidf"])
        return sum(stage.seconds for stage in stages)

    assert total(160_000, 20) > 1.5 * total(40_000, 20)
    assert total(20_000, 200) > 3 * total(20_000, 20)


def test_the_epochs_are_those_of_the_texts_that_are_not_held_out() -> None:
    def epochs(held_out: int) -> list[ExpectedStage]:
        size = RunSize(20_000, 6 * 20 * 20_000, 4, held_out)
        return [stage for stage in expected_stages(size, DEFAULT) if stage.name == "epoch"]

    assert len(epochs(5_000)) == 6  # of 235 steps each, at most 6 of them
    assert len(epochs(0)) == 5  # of 313 steps each, as 1,500 are needed
    assert epochs(5_000)[0].seconds < epochs(0)[0].seconds


def test_the_n_grams_of_more_classes_are_expected_to_take_longer() -> None:
    def fitting(classes: int) -> float:
        stages = expected_stages(size_of(20_000, classes=classes), DEFAULT)
        return sum(stage.seconds for stage in stages if stage.name == "fitting")

    assert fitting(2) < fitting(20) < fitting(1_000) < 10 * fitting(20)


@pytest.mark.parametrize("name", [*BASELINES, "avg"])
def test_baselines_are_expected_to_take_longer_with_more_classes(name: str) -> None:
    def baseline(classes: int) -> float:
        size = size_of(50_000, classes=classes)
        (stage,) = expected_stages(size, DEFAULT, baselines=[name])[-1:]
        assert stage.name == "training"
        return stage.seconds

    assert 0 < baseline(4) < baseline(150) < 10 * baseline(4)


def test_the_parts_of_a_baseline_belong_to_its_time(clock: Clock) -> None:
    display = Display()
    progress = TimeLeft(display, [ExpectedStage("training", 100), ExpectedStage("training", 50)])

    progress.stage("training the baseline average embedding")
    clock.now += 40
    progress.stage("baseline average embedding: epoch 1/2", 10)
    clock.now += 10
    progress.advance(5)

    assert display.left[-1] == pytest.approx(50 + 50)


def test_word_vectors_are_expected_to_take_no_longer_with_words_that_are_not_counted() -> None:
    def word_vectors(texts: int, settings: dict[str, object]) -> float:
        stages = expected_stages(size_of(texts), DEFAULT.with_values(settings))
        return next(stage.seconds for stage in stages if stage.name == "word")

    assert word_vectors(1_000_000, {}) == word_vectors(200_000, {}) > word_vectors(100_000, {})
    word2vec: dict[str, object] = {"text.word_vectors": "word2vec"}
    assert word_vectors(1_000_000, word2vec) > 3 * word_vectors(200_000, word2vec)


@pytest.mark.parametrize("is_validation_given", [False, True])
def test_the_stages_of_a_run_are_the_expected_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_validation_given: bool
) -> None:
    stages, expected = list[str](), list[ExpectedStage]()

    class Stages(Progress):
        def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002 - not kept
            stages.append(name.split()[0])

    def kept(size: RunSize, recipe: Recipe, *, baselines: Sequence[str]) -> list[ExpectedStage]:
        assert size.texts == 300 + 40 * is_validation_given
        assert size.validation_texts == (40 if is_validation_given else 30)
        assert size.test_texts == 220
        expected[:] = expected_stages(size, recipe, baselines=baselines)
        return expected

    monkeypatch.setattr(time_left, "expected_stages", kept)
    sources = DataSources(
        str(write_csv(tmp_path / "train.csv", 300)),
        test=str(write_csv(tmp_path / "test.csv", 220, seed=1)),
        validation=str(write_csv(tmp_path / "validation.csv", 40, seed=2))
        if is_validation_given
        else None,
    )
    recipe = DEFAULT.with_values({"training.epochs": 2, "text.vector_width": 8})
    splits = read_splits(sources, recipe)
    train_and_score(splits, recipe, tmp_path / "model", Stages(), device="cpu")

    assert [name for name in stages if name != "compiling"] == [stage.name for stage in expected]
