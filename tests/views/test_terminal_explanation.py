import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from lamatext.views.formatting import probability, signed
from lamatext.views.terminal_explanation import example_lines, show_explanation
from tests.explain.models import make_explanation

HOSTILE = "fine \x1b[31mred\x1b[0m \x9b2J \x07 [bold]x[/bold] \u202eevil\r\nnext \ud800 end"


def shown(
    text: str, *, terminal: bool, heads: int | None = 3, width: int = 100, all_heads: bool = False
) -> str:
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        no_color=not terminal,
        color_system="truecolor" if terminal else None,
        width=width,
    )
    show_explanation(make_explanation(text, heads=heads), console, heads=all_heads)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_strongest_words_come_first_with_their_contributions() -> None:
    explanation = make_explanation("a thoughtful film")

    lines = shown("a thoughtful film", terminal=False).splitlines()

    best = probability(explanation.probability)
    assert lines[0].startswith(f"{explanation.predicted} {best}  (")
    assert lines[1] == f"Words for (+) and against (−) {explanation.predicted}"
    values = explanation.relative[explanation.best]
    order = sorted(range(3), key=lambda t: -abs(values[t]))
    for t, line in zip(order, lines[2:], strict=False):
        assert line.split()[0] == signed(float(values[t]))
        assert line.split()[-1] == explanation.words[t]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_view_fits_every_width_from_60_columns(width: int) -> None:
    text = "a thoughtful film with " + "a_very_long_word" * 8 + " and a dull end"

    for heads in (False, True):
        output = shown(text, terminal=False, width=width, heads=15, all_heads=heads)
        assert max(len(line) for line in output.splitlines()) <= width
    compact = shown(text, terminal=False, width=width, heads=15)
    assert len(compact.splitlines()) <= 10


def test_heads_are_shown_on_request() -> None:
    for terminal in (True, False):
        assert "head" not in shown("a thoughtful film", terminal=terminal)
        output = shown("a thoughtful film", terminal=terminal, all_heads=True)
        assert "mean of 3 heads" in output
        assert "constant" in output


def test_an_example_has_its_prediction_and_reasons() -> None:
    explanation = make_explanation("a thoughtful\nfilm " + "x " * 90)

    text, reason = example_lines(explanation, str(explanation.predicted))
    _, mistake = example_lines(explanation, "<b>")

    assert text.startswith("“a thoughtful film x")
    assert text.endswith("…”")
    assert len(text) <= 92
    assert f"{explanation.predicted} {probability(explanation.probability)}" in reason
    assert " — " in reason
    assert "but it is labelled <b>" in mistake


def test_an_example_with_several_labels_names_the_one_that_its_words_are_for() -> None:
    explanation = make_explanation("a thoughtful film")
    never = replace(explanation, thresholds=np.ones(len(explanation.labels), np.float32))

    _, reason = example_lines(never, "")

    assert reason.startswith(f"no label — for {explanation.predicted}: ")


def test_labels_beyond_the_explained_ones_are_named_with_the_option_that_explains_them() -> None:
    labels = ("art", "film", "war", "two words", "science")
    explanation = make_explanation("a thoughtful film", labels=labels)
    probabilities = np.array([0.9, 0.8, 0.7, 0.6, 0.1], np.float32)
    thresholds = np.full(5, 0.5, np.float32)
    several = replace(explanation, probabilities=probabilities, thresholds=thresholds)
    console = Console(file=io.StringIO(), width=100)

    show_explanation(several, console)

    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    assert output.endswith("\nMore predicted labels (two words: --label 'two words')\n")
    console = Console(file=io.StringIO(), width=100)
    show_explanation(several, console, label="war")
    assert isinstance(console.file, io.StringIO)
    assert "More predicted labels" not in console.file.getvalue()


def test_off_a_terminal_nothing_is_coloured() -> None:
    assert "\x1b" not in shown("a thoughtful film", terminal=False)


def test_on_a_terminal_words_are_shaded_by_every_head() -> None:
    output = shown("a thoughtful film", terminal=True, all_heads=True)

    assert "\x1b[" in output
    assert output.count("thoughtful") == 1 + 1 + 1 + 3  # list, text, mean, heads


def test_no_color_is_plain_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True)

    show_explanation(make_explanation("a film"), console)

    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue()


def test_a_system_without_attention_shows_contributions_alone() -> None:
    for terminal in (True, False):
        output = shown("a film", terminal=terminal, heads=None, all_heads=True)
        assert "by leaving words out" in output
        assert "This model has no attention." in output


@pytest.mark.parametrize("terminal", [True, False])
def test_no_control_character_of_a_text_reaches_the_terminal(terminal: bool) -> None:
    output = shown(HOSTILE, terminal=terminal, all_heads=True)

    for sign in ("\x1b[31m", "\x9b", "\x07", "\u202e", "\r", "\ud800"):
        assert sign not in output
    assert "␛" in output
    assert "bold" in output
    output.encode("utf-8")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_of_ten_thousand_words_stays_on_a_few_screens(terminal: bool) -> None:
    random = np.random.default_rng(0)
    text = " ".join(random.choice(["alpha", "beta", "gamma"], 10_000))

    output = shown(text, terminal=terminal, heads=15, all_heads=True)

    assert output.count("\n") < 60
    assert "10,000 words" in output or not terminal
    assert "× 3," not in output


@pytest.mark.parametrize("terminal", [True, False])
def test_an_empty_text_is_shown(terminal: bool) -> None:
    assert "The text is empty: " in shown("", terminal=terminal, all_heads=True)


def test_without_words_that_the_network_knows_no_attention_is_listed() -> None:
    film = make_explanation("a film")
    assert film.weights is not None
    unknown = replace(film, weights=np.zeros_like(film.weights))
    file = io.StringIO()

    show_explanation(unknown, Console(file=file, width=100), heads=True)

    assert "The network knows none of the words in this text" in file.getvalue()
    assert "Each head" not in file.getvalue()
    assert "0.000" not in file.getvalue()
