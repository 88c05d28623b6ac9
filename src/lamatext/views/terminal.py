"""An explanation in the terminal: shaded words where there is colour, figures where there is none.

Blue speaks for the class, orange against it, violet is attention: told apart by colour-blind eyes.
Each shade sets its own ink, of middling lightness, so that it reads on dark and on light.
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
    attention_scale,
    contribution_scale,
    excerpt,
    one_line,
    parted,
    segments,
    share,
    signed,
    summed,
    visible,
)


class Palette(NamedTuple):
    """The shades of one meaning."""

    ink: str
    faintest: float  # of the full strength; a weaker word stays as it is
    grounds: tuple[str, ...]


FOR = Palette("#ffffff", 0.15, ("#5f6d7a", "#466f94", "#2a70b0", "#0067c5"))
AGAINST = Palette("#000000", 0.15, ("#a59b8c", "#bd9c6c", "#d99a40", "#f59a00"))
ATTENTION = Palette("#ffffff", 0.35, ("#746c80", "#77649c", "#7a56b8", "#7c3fd6"))

SHADED_WORDS = 300  # in the main view; a longer text is shown in excerpts
HEAD_WORDS = 40  # a longer text shows each head's strongest words instead of all
LISTED = 20  # words in the plain list
PER_HEAD = 6


def show(explanation: Explanation, console: Console, *, label: Label | None = None) -> None:
    """Print an explanation, for ``label`` or the predicted class; plain where colour is off."""
    coloured = console.is_terminal and not console.no_color
    if coloured:
        console.print(render(explanation, label=label))
    else:
        for line in plain_lines(explanation, label=label):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def render(explanation: Explanation, *, label: Label | None = None) -> RenderableType:
    """The coloured view: probabilities, contribution, attention pooled, then each head."""
    column = explanation.column(label)
    relative = explanation.relative
    contribution, scale = relative[column], contribution_scale(relative)
    parts: list[RenderableType] = [
        _probabilities(explanation),
        _heading(_contribution_title(explanation, column), ("for", FOR), ("against", AGAINST)),
        Padding(_shaded(explanation, contribution, contribution / scale), (0, 2)),
        Text(f"  {summed(explanation, column)}", style="dim"),
    ]
    pooled = explanation.pooled
    if pooled is not None and explanation.weights is not None:
        parts += [
            _heading(f"Attention, mean of {_heads(explanation)}", ("more", ATTENTION)),
            Padding(_shaded(explanation, pooled, pooled / attention_scale(pooled), True), (0, 2)),
            _heading("Each head", ("more", ATTENTION)),
            Padding(_each_head(explanation, explanation.weights), (0, 2)),
        ]
    return Group(*parts)


def plain_lines(explanation: Explanation, *, label: Label | None = None) -> Iterator[str]:
    """The same figures without colour, a line at a time."""
    column = explanation.column(label)
    yield f"predicted: {_name(explanation, explanation.best)} ({share(explanation.probability)})"
    for c in _by_probability(explanation):
        yield f"  {share(float(explanation.probabilities[c]))}  {_name(explanation, c)}"
    yield ""
    yield _contribution_title(explanation, column)
    yield from _plain_words(explanation, column)
    yield f"  {summed(explanation, column)}"
    if explanation.weights is not None:
        yield ""
        yield f"Strongest words of {_heads(explanation)}"
        for j, weights in enumerate(explanation.weights, start=1):
            yield f"  head {j}: {', '.join(_strongest(explanation, weights))}"


def _plain_words(explanation: Explanation, column: int) -> Iterator[str]:
    words, pooled, contribution = (
        explanation.words,
        explanation.pooled,
        explanation.relative[column],
    )
    parts = {name: part[column] for name, part in explanation.relative_parts.items()}
    shown = np.sort(np.argsort(-np.abs(contribution), kind="stable")[:LISTED])
    if len(shown) < len(words):
        yield f"  (the {len(shown)} strongest of {len(words):,} words; --json has all)"
    for t in shown:
        weight = "" if pooled is None else f"  attention {share(float(pooled[t]))}"
        told = parted({name: float(part[t]) for name, part in parts.items()})
        note = f"  ({told})" if told else ""
        yield f"  {signed(float(contribution[t]))}{weight}  {_word(words[t])}{note}"


def _contribution_title(explanation: Explanation, column: int) -> str:
    title = f"Contribution to {_name(explanation, column)}"
    if explanation.window > 1:
        return f"{title}, {explanation.window} words left out at a time"
    return f"{title}, by leaving words out" if explanation.method == "occlusion" else title


def _probabilities(explanation: Explanation, width: int = 32) -> Table:
    grid = Table.grid(padding=(0, 2))
    for c in _by_probability(explanation):
        value = float(explanation.probabilities[c])
        style = "bold" if c == explanation.best else ""
        bar = Text("━" * max(round(value * width), 1), style=FOR.grounds[-1] if style else "grey50")
        grid.add_row(Text(_name(explanation, c), style=style), Text(share(value), style), bar)
    return grid


def _by_probability(explanation: Explanation, most: int = 8) -> list[int]:
    order = np.argsort(-explanation.probabilities, kind="stable")[:most]
    return [int(c) for c in order]


def _heading(title: str, *keys: tuple[str, Palette]) -> Padding:
    line = Text(title, style="bold")
    for name, palette in keys:
        line.append("  ")
        line.append(f" {name} ", style=_shade(palette, 1.0) + Style(bold=False))
    return Padding(line, (1, 0, 0, 0))


def _shaded(
    explanation: Explanation, scores: Floats, strength: Floats, attention: bool = False
) -> Text:
    text, spans = visible(explanation.text), explanation.spans
    line = Text()
    for number, places in enumerate(excerpt(scores, words=SHADED_WORDS)):
        whole = len(places) == len(spans)
        first = 0 if whole else spans[places.start][0]
        last = len(text) if whole else spans[places.stop - 1][1]
        line.append(" … " if number or first > 0 else "", style="dim")
        inside = [(start - first, end - first) for start, end in spans[places.start : places.stop]]
        for t, piece in segments(text[first:last], inside):
            value = 0.0 if t is None else float(strength[places.start + t])
            positive = ATTENTION if attention else FOR
            line.append(_lines(piece), _shade(positive if value > 0 else AGAINST, abs(value)))
    if len(spans) > SHADED_WORDS:
        line.append(f"\n(around the strongest of {len(spans):,} words)", style="dim")
    return line


def _each_head(explanation: Explanation, weights: Floats) -> Table:
    grid = Table.grid(padding=(0, 2))
    for j, head in enumerate(weights, start=1):
        cell = (
            _shaded(explanation, head, head / attention_scale(head), True)
            if len(head) <= HEAD_WORDS
            else Text(" · ".join(_strongest(explanation, head)))
        )
        grid.add_row(Text(str(j), style="dim"), cell)
    return grid


def _strongest(explanation: Explanation, weights: Floats) -> list[str]:
    words = explanation.words
    return [
        f"{_word(words[t])} {share(float(weights[t]))}"
        for t in np.argsort(-weights, kind="stable")[:PER_HEAD]
    ]


def _shade(palette: Palette, strength: float) -> Style:
    ink, faintest, grounds = palette
    if strength < faintest:
        return Style()
    step = min(int((strength - faintest) / (1 - faintest) * len(grounds)), len(grounds) - 1)
    return Style(color=ink, bgcolor=grounds[step], bold=step == len(grounds) - 1)


def _heads(explanation: Explanation) -> str:
    count = 0 if explanation.weights is None else len(explanation.weights)
    return "1 head" if count == 1 else f"{count} heads"


def _name(explanation: Explanation, column: int) -> str:
    return one_line(str(explanation.labels[column]))


def _word(word: str) -> str:
    return one_line(word) or "(no known word)"


def _lines(piece: str) -> str:
    """A piece of a text over several lines; only line feeds move the terminal's cursor."""
    return "\n".join(one_line(line) for line in piece.replace("\r\n", "\n").split("\n"))
