"""Estimates of the time left of a training run."""

import pytest

from lamatext.classifier import TextClassifier
from lamatext.progress import Progress
from lamatext.recipes import load_recipe
from lamatext.training import time_left
from lamatext.training.time_left import ExpectedStage, TimeLeft, expected_stages
from tests.corpora import reviews

DEFAULT = load_recipe("default")


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


@pytest.mark.parametrize("rows", [80_000, 320_000, 1_000_000])
@pytest.mark.parametrize("slowness", [1.5, 4.0])
@pytest.mark.parametrize("kind", ["tokenizing", "word", "epoch", "counting", "fitting"])
def test_from_the_first_minute_on_the_time_left_is_right_within_a_factor_of_one_and_a_half(
    clock: Clock, rows: int, slowness: float, kind: str
) -> None:
    stages = expected_stages(rows, 120 * rows, 4, DEFAULT)
    steps = {"tokenizing": 100, "word": 0, "epoch": 400, "counting": 0, "fitting": 80}
    reports: list[tuple[float, float]] = []

    class Times(Display):
        def time_left(self, seconds: float) -> None:
            reports.append((clock.now, seconds))

    progress = TimeLeft(Times(), stages)
    for stage in stages:  # one kind of stages takes longer than the others
        seconds = stage.seconds * slowness * (1.3 if stage.name == kind else 1.0)
        progress.stage(stage.name, steps[stage.name] or None)
        for _ in range(steps[stage.name]):
            clock.now += seconds / steps[stage.name]
            progress.advance()
        clock.now += 0 if steps[stage.name] else seconds
    checked = [report for report in reports if 60 <= report[0] <= 0.9 * clock.now]

    for now, left in checked:
        assert 1 / 1.5 < left / (clock.now - now) < 1.5
    assert len(checked) > (10 if rows > 80_000 else 0) or clock.now < 70


def test_the_expected_time_grows_with_texts_and_words() -> None:
    def total(texts: int, words: int) -> float:
        stages = expected_stages(texts, 6 * words * texts, 4, DEFAULT, baselines=1)
        return sum(stage.seconds for stage in stages)

    assert total(80_000, 20) > 1.5 * total(40_000, 20)
    assert total(20_000, 200) > 3 * total(20_000, 20)


def test_the_epochs_are_those_of_the_texts_that_are_not_held_out() -> None:
    def epochs(held_out: float) -> list[ExpectedStage]:
        stages = expected_stages(20_000, 6 * 20 * 20_000, 4, DEFAULT, held_out=held_out)
        return [stage for stage in stages if stage.name == "epoch"]

    assert len(epochs(0.1)) == 5  # of 282 steps each, as 1,200 are needed
    assert len(epochs(0.0)) == 4
    assert epochs(0.1)[0].seconds == pytest.approx(0.9 * epochs(0.0)[0].seconds, rel=0.01)


def test_the_n_grams_of_more_classes_are_expected_to_take_longer() -> None:
    def fitting(classes: int) -> float:
        stages = expected_stages(20_000, 6 * 20 * 20_000, classes, DEFAULT)
        return sum(stage.seconds for stage in stages if stage.name == "fitting")

    assert fitting(2) < fitting(20) < fitting(1_000) < 10 * fitting(20)


def test_word_vectors_are_expected_to_take_no_longer_with_words_that_are_not_counted() -> None:
    def word_vectors(texts: int, settings: dict[str, object]) -> float:
        stages = expected_stages(texts, 6 * 20 * texts, 4, DEFAULT.with_values(settings))
        return next(stage.seconds for stage in stages if stage.name == "word")

    assert word_vectors(1_000_000, {}) == word_vectors(200_000, {}) > word_vectors(100_000, {})
    word2vec: dict[str, object] = {"text.word_vectors": "word2vec"}
    assert word_vectors(1_000_000, word2vec) > 3 * word_vectors(200_000, word2vec)


def test_counting_n_grams_is_a_stage_of_its_own_after_the_last_epoch() -> None:
    stages = list[str]()

    class Stages(Progress):
        def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002 - not kept
            stages.append(name)

    TextClassifier(epochs=1).fit(*reviews(120), progress=Stages())

    last = stages.index("epoch 1/1")
    assert stages[last + 1 : last + 3] == ["counting n-grams", "fitting the n-grams"]
