"""Explanation in the terminal: shaded words with colour, or plain lines of numbers without.

Blue words support the class, orange words oppose it, violet shows attention; colour-blind readers
can tell these apart. Each shade sets its own text colour, so that it is readable on dark
and on light terminals.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation, Label
from lamatext.views.formatting import (
    one_line,
    parted,
    plural,
    share,
    signed,
    summed,
    terminal_text,
)
from lamatext.views.word_shading import attention_scale, contribution_strength, excerpt_segments


class Palette(NamedTuple):
    """Terminal colours for shading the words of an explanation, from faint to strong."""

    foreground: str
    threshold: float  # of the full strength; weaker words are not shaded
    backgrounds: tuple[str, ...]


FOR = Palette("#ffffff", 0.15, ("#5f6d7a", "#466f94", "#2a70b0", "#0067c5"))
AGAINST = Palette("#000000", 0.15, ("#a59b8c", "#bd9c6c", "#d99a40", "#f59a00"))
ATTENTION = Palette("#ffffff", 0.35, ("#746c80", "#77649c", "#7a56b8", "#7c3fd6"))

SHADED_WORDS = 300  # longer texts are shortened around their strongest words
HEAD_WORDS = 40  # for longer texts each head shows its strongest words only
LISTED_WORDS = 20  # in the plain list
WORDS_PER_HEAD = 6
MAX_CLASSES = 8
BAR_WIDTH = 32


def show_explanation(
    explanation: Explanation, console: Console, *, label: Label | None = None
) -> None:
    """Print an explanation to the terminal, in colour if the terminal supports it.

    Args:
        explanation: the explanation.
        console: the terminal.
        label: the class whose contributions are shown; None means the predicted class.
    """
    if console.is_terminal and not console.no_color:
        console.print(coloured_explanation(explanation, label=label))
        return
    for line in plain_lines(explanation, label=label):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def coloured_explanation(explanation: Explanation, *, label: Label | None = None) -> RenderableType:
    """Render an explanation in colour for the terminal: probabilities, words and attention."""
    column = explanation.column(label)
    strength = contribution_strength(explanation, column)
    blocks: list[RenderableType] = [
        _probabilities(explanation),
        _heading(_contribution_title(explanation, column), ("for", FOR), ("against", AGAINST)),
        Padding(_shaded_text(explanation, strength, FOR), (0, 2)),
        Text(f"  {summed(explanation, column)}", style="dim"),
    ]
    pooled, weights = explanation.pooled, explanation.weights
    if pooled is not None and weights is not None:
        mean = _shaded_text(explanation, pooled / attention_scale(pooled), ATTENTION)
        blocks += [
            _heading(f"Attention, mean of {plural(len(weights), 'head')}", ("more", ATTENTION)),
            Padding(mean, (0, 2)),
            _heading("Each head", ("more", ATTENTION)),
            Padding(_each_head(explanation, weights), (0, 2)),
        ]
    return Group(*blocks)


def plain_lines(explanation: Explanation, *, label: Label | None = None) -> Iterator[str]:
    """Yield an explanation as plain text lines, for a terminal without colour."""
    column = explanation.column(label)
    yield f"predicted: {_label(explanation, explanation.best)} ({share(explanation.probability)})"
    for c in _most_probable(explanation):
        yield f"  {share(float(explanation.probabilities[c]))}  {_label(explanation, c)}"
    yield ""
    yield _contribution_title(explanation, column)
    yield from _plain_words(explanation, column)
    yield f"  {summed(explanation, column)}"
    if explanation.weights is not None:
        yield ""
        yield f"Strongest words of {plural(len(explanation.weights), 'head')}"
        for j, weights in enumerate(explanation.weights, start=1):
            yield f"  head {j}: {', '.join(_strongest(explanation, weights))}"


def _plain_words(explanation: Explanation, column: int) -> Iterator[str]:
    words, pooled = explanation.words, explanation.pooled
    contribution = explanation.relative[column]
    parts = {name: part[column] for name, part in explanation.relative_parts.items()}
    strongest = np.argsort(-np.abs(contribution), kind="stable")[:LISTED_WORDS]
    if len(strongest) < len(words):
        yield f"  (the {len(strongest)} strongest of {len(words):,} words; --json has all)"
    for t in np.sort(strongest):
        weight = "" if pooled is None else f"  attention {share(float(pooled[t]))}"
        by_part = parted({name: float(part[t]) for name, part in parts.items()})
        note = f"  ({by_part})" if by_part else ""
        yield f"  {signed(float(contribution[t]))}{weight}  {_word(words[t])}{note}"


def _contribution_title(explanation: Explanation, column: int) -> str:
    title = f"Contribution to {_label(explanation, column)}"
    if explanation.window > 1:
        return f"{title}, {explanation.window} words left out at a time"
    return f"{title}, by leaving words out" if explanation.method == "occlusion" else title


def _probabilities(explanation: Explanation) -> Table:
    grid = Table.grid(padding=(0, 2))
    for c in _most_probable(explanation):
        value = float(explanation.probabilities[c])
        style = "bold" if c == explanation.best else ""
        colour = FOR.backgrounds[-1] if style else "grey50"
        bar = Text("━" * max(round(value * BAR_WIDTH), 1), style=colour)
        grid.add_row(Text(_label(explanation, c), style=style), Text(share(value), style), bar)
    return grid


def _most_probable(explanation: Explanation) -> list[int]:
    order = np.argsort(-explanation.probabilities, kind="stable")[:MAX_CLASSES]
    return [int(c) for c in order]


def _heading(title: str, *keys: tuple[str, Palette]) -> Padding:
    line = Text(title, style="bold")
    for name, palette in keys:
        line.append("  ")
        line.append(f" {name} ", style=_shade(palette, 1.0) + Style(bold=False))
    return Padding(line, (1, 0, 0, 0))


def _shaded_text(explanation: Explanation, strength: Floats, positive: Palette) -> Text:
    """Shade the words of an explained text for the terminal, shortening long texts."""
    text = Text()
    for t, characters in excerpt_segments(explanation, strength, words=SHADED_WORDS):
        value = 0.0 if t is None else float(strength[t])
        text.append(
            terminal_text(characters), _shade(positive if value > 0 else AGAINST, abs(value))
        )
    if len(strength) > SHADED_WORDS:
        text.append(f"\n(around the strongest of {len(strength):,} words)", style="dim")
    return text


def _each_head(explanation: Explanation, weights: Floats) -> Table:
    grid = Table.grid(padding=(0, 2))
    for j, head in enumerate(weights, start=1):
        cell = (
            _shaded_text(explanation, head / attention_scale(head), ATTENTION)
            if len(head) <= HEAD_WORDS
            else Text(" · ".join(_strongest(explanation, head)))
        )
        grid.add_row(Text(str(j), style="dim"), cell)
    return grid


def _strongest(explanation: Explanation, weights: Floats) -> list[str]:
    words = explanation.words
    return [
        f"{_word(words[t])} {share(float(weights[t]))}"
        for t in np.argsort(-weights, kind="stable")[:WORDS_PER_HEAD]
    ]


def _shade(palette: Palette, strength: float) -> Style:
    foreground, threshold, backgrounds = palette
    if strength < threshold:
        return Style()
    last = len(backgrounds) - 1
    step = min(int((strength - threshold) / (1 - threshold) * len(backgrounds)), last)
    return Style(color=foreground, bgcolor=backgrounds[step], bold=step == last)


def _label(explanation: Explanation, column: int) -> str:
    return one_line(str(explanation.labels[column]))


def _word(word: str) -> str:
    return one_line(word) or "(no known word)"
