"""The trials of a search as a page and in the terminal."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lamatext.trials import (
    FINISHED,
    RUNNING,
    STOPPED,
    Choice,
    Limits,
    Trial,
    choose_trial,
    pareto_front,
)
from lamatext.views.tuning_display import (
    BEST,
    LATEST,
    TrialDisplay,
    show_front,
    shown_trials,
    trial_line,
    write_tuning_page,
)


def made_up_trials(count: int = 8) -> list[Trial]:
    """Trials of which the default recipe is the first and number 5 is the best."""
    default = Trial(0, FINISHED, {}, True, 0, 1.0, 0.8, 3_000_000, 0.6, 12.0)
    settings = {"model.heads": 10, "model.dropout": 0.312345, "ngrams.svm_c": 2.0}
    others = [
        Trial(
            number,
            FINISHED,
            settings,
            share=1.0,
            score=0.9 if number == 5 else 0.7 + number / 1000,
            bytes=4_000_000 - 1_000 * number,
            latency_ms=0.7,
            seconds=9.0,
        )
        for number in range(1, count)
    ]
    return [default, *others]


def write_page(folder: Path, trials: list[Trial] | None = None) -> str:
    trials = trials or made_up_trials()
    choice = choose_trial(trials, Limits(60), "accuracy", validation_texts=1_000)
    write_tuning_page(trials, choice, "accuracy", "<b>.csv", folder / "tuning.html")
    return (folder / "tuning.html").read_text(encoding="utf-8")


def test_the_page_shows_the_pareto_front_and_escapes_the_source(tmp_path: Path) -> None:
    page = write_page(tmp_path)

    assert "<b>.csv" not in page
    assert "&lt;b&gt;.csv" in page
    assert "5 (chosen)" in page
    assert page.count('<svg class="chart"') == 2
    assert "model.heads=10 model.dropout=0.312 ngrams.svm_c=2" in page
    assert "<script" not in page


def test_small_models_are_drawn_in_kilobytes(tmp_path: Path) -> None:
    small = [replace(trial, bytes=30_000 + trial.number) for trial in made_up_trials()]

    assert "size, MB" in write_page(tmp_path)
    assert "size, kB" in write_page(tmp_path, small)


def test_the_live_table_has_the_best_and_the_latest_trials() -> None:
    trials = [*made_up_trials(40), Trial(40, RUNNING)]

    numbers = [trial.number for trial in shown_trials(trials)]

    assert len(numbers) <= BEST + LATEST
    assert {0, 5, 39, 40} <= set(numbers)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_numbers_are_complete_at_every_width_and_the_settings_wrap(width: int) -> None:
    trials = [*made_up_trials(40), Trial(40, RUNNING)]
    display = TrialDisplay(deadline=0.0)
    display._console = Console(file=StringIO(), width=width)
    display._trials = trials
    console = Console(file=StringIO(), width=width)

    display._console.print(display._render())
    show_front(console, pareto_front(trials), trials[0], "accuracy")

    for output in (display._console.file, console.file):
        assert isinstance(output, StringIO)
        lines = output.getvalue().splitlines()
        best = next(line for line in lines if line.startswith("5 "))
        for cell in ("90.00 %", "4.0 MB", "0.700 ms"):
            assert cell in best
        assert max(map(len, lines)) <= width
    assert isinstance(console.file, StringIO)
    assert "model.heads=10 model.dropout=0.312 ngrams.svm_c=2" in console.file.getvalue()
    assert "validation accuracy" in console.file.getvalue()


def test_a_line_is_printed_for_each_trial_that_has_ended_if_there_is_no_terminal() -> None:
    display = TrialDisplay(deadline=0.0)
    display._console = Console(file=StringIO(), width=200)

    with display:
        display.show([*made_up_trials(2), Trial(2, RUNNING)])
        display.show([*made_up_trials(3)])

    assert isinstance(display._console.file, StringIO)
    lines = display._console.file.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["trial 0", "trial 1", "trial 2"]
    assert lines[1] == (
        "trial 1: finished, accuracy 70.10 %, 4.0 MB, 0.700 ms per text, in 9.0 s; "
        "model.heads=10 model.dropout=0.312 ngrams.svm_c=2"
    )


def test_the_line_of_a_stopped_trial_says_on_which_share_of_the_texts_it_was_trained() -> None:
    trial = replace(made_up_trials()[0], state=STOPPED, share=0.25, bytes=None, latency_ms=None)

    assert trial_line(trial, "macro-F1") == (
        "trial 0: stopped early, macro-F1 0.8000, with 25 % of the texts, in 12 s; "
        "default recipe, seed 0"
    )


def test_a_chosen_trial_beside_the_front_is_named_as_such(tmp_path: Path) -> None:
    trials = [replace(trial, bytes=9_000_000, latency_ms=0.9) for trial in made_up_trials(1)]
    trials += made_up_trials()[5:6]
    front, beside, on_it = pareto_front(trials), StringIO(), StringIO()

    show_front(Console(file=beside, width=100), front, trials[0], "accuracy")
    show_front(Console(file=on_it, width=100), front, trials[1], "accuracy")
    write_tuning_page(trials, Choice(trials[0], ""), "accuracy", "a.csv", tmp_path / "beside.html")
    write_tuning_page(trials, Choice(trials[1], ""), "accuracy", "a.csv", tmp_path / "on.html")

    assert [trial.number for trial in front] == [5]
    assert "The last row is the chosen trial 0, which is not on it" in beside.getvalue()
    assert "not on it" not in on_it.getvalue()
    page = (tmp_path / "beside.html").read_text()
    assert "<caption>Pareto front, and the chosen trial</caption>" in page
    assert page.count("</svg>chosen trial</li>") == 2
    assert "Pareto front, and" not in (tmp_path / "on.html").read_text()
