import io

import numpy as np
import pytest
from rich.console import Console

from lamatext.views.formatting import share, signed
from lamatext.views.terminal_explanation import plain_lines, show_explanation
from tests.explain.models import make_explanation

HOSTILE = "fine \x1b[31mred\x1b[0m \x9b2J \x07 [bold]x[/bold] \u202eevil\r\nnext \ud800 end"


def shown(text: str, *, terminal: bool, heads: int | None = 3, width: int = 100) -> str:
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        no_color=not terminal,
        color_system="truecolor" if terminal else None,
        width=width,
    )
    show_explanation(make_explanation(text, heads=heads), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_plain_view_has_the_numbers_of_each_word() -> None:
    explanation = make_explanation("a thoughtful film")
    assert explanation.pooled is not None

    lines = list(plain_lines(explanation))

    assert lines[0] == f"predicted: {explanation.predicted} ({share(explanation.probability)})"
    for t, word in enumerate(explanation.words):
        figure = signed(float(explanation.relative[explanation.best, t]))
        assert f"  {figure}  attention {share(float(explanation.pooled[t]))}  {word}" in lines
    assert sum(line.startswith("  head ") for line in lines) == 3


def test_off_a_terminal_nothing_is_coloured() -> None:
    assert "\x1b" not in shown("a thoughtful film", terminal=False)


def test_on_a_terminal_words_are_shaded_and_every_head_is_shown() -> None:
    output = shown("a thoughtful film", terminal=True)

    assert "\x1b[" in output
    assert output.count("thoughtful") == 1 + 1 + 3
    assert "Contribution to" in output
    assert "mean of 3 heads" in output


def test_no_color_is_plain_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True)

    show_explanation(make_explanation("a film"), console)

    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue()


def test_a_system_without_attention_shows_contributions_alone() -> None:
    for terminal in (True, False):
        output = shown("a film", terminal=terminal, heads=None)
        assert "by leaving words out" in output
        assert "head" not in output


@pytest.mark.parametrize("terminal", [True, False])
def test_no_control_character_of_a_text_reaches_the_terminal(terminal: bool) -> None:
    output = shown(HOSTILE, terminal=terminal)

    for sign in ("\x1b[31m", "\x9b", "\x07", "\u202e", "\r", "\ud800"):
        assert sign not in output
    assert "␛" in output
    assert "bold" in output
    output.encode("utf-8")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_of_ten_thousand_words_stays_on_a_few_screens(terminal: bool) -> None:
    random = np.random.default_rng(0)
    text = " ".join(random.choice(["alpha", "beta", "gamma"], 10_000))

    output = shown(text, terminal=terminal, heads=15)

    assert output.count("\n") < 80
    assert "10,000 words" in output


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_without_a_known_word_is_shown(terminal: bool) -> None:
    assert "predicted" in shown("", terminal=False)
    assert shown("", terminal=terminal)
