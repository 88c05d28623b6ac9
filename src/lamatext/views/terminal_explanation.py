"""Explanation in the terminal: the prediction, its strongest words, and the shaded text.

The view fits terminals from 60 columns. Blue words support the class, orange words oppose it,
violet shows attention; colour-blind readers can tell these apart. Each shade sets its own text
colour, so that it is readable on dark and on light terminals.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from lamatext.errors import plural
from lamatext.explain.contributions import Floats
from lamatext.explain.explanation import Explanation, Label
from lamatext.views.formatting import (
    NGRAMS_ALONE,
    label_names,
    listed_label,
    one_line,
    probability,
    share,
    signed,
    summed,
    terminal_text,
)
from lamatext.views.word_shading import (
    StrongWord,
    attention_scale,
    contribution_strength,
    excerpt_segments,
    missing_attention,
    missing_words,
    strongest_words,
)


class Palette(NamedTuple):
    """Terminal colours for shading the words of an explanation, from faint to strong."""

    foreground: str
    threshold: float  # of the full strength; weaker words are not shaded
    backgrounds: tuple[str, ...]


FOR = Palette("#ffffff", 0.15, ("#5f6d7a", "#466f94", "#2a70b0", "#0067c5"))
AGAINST = Palette("#000000", 0.15, ("#a59b8c", "#bd9c6c", "#d99a40", "#f59a00"))
ATTENTION = Palette("#ffffff", 0.35, ("#746c80", "#77649c", "#7a56b8", "#7c3fd6"))

LISTED_WORDS = 8
SHADED_WORDS = 80  # longer texts are shortened around their strongest words
WORDS_PER_HEAD = 5
OTHER_CLASSES = 3
BAR_WIDTH = 12
EXAMPLE_LENGTH, EXAMPLE_WORDS = 90, 3  # of the examples after training


def show_explanation(
    explanation: Explanation, console: Console, *, label: Label | None = None, heads: bool = False
) -> None:
    """Print an explanation to the terminal, with its text shaded if the terminal has colours.

    Args:
        explanation: the explanation.
        console: the terminal.
        label: the class whose contributions are shown; None means the predicted class, or the most
            probable labels of a multi-label model.
        heads: whether to show the attention of each head, and how the score adds up.
    """
    columns = explanation.columns(label)
    shaded = console.is_terminal and not console.no_color
    blocks: list[RenderableType] = [_headline(explanation)]
    for column in columns:
        blocks += [
            Text(_contribution_title(explanation, column)),
            _word_table(explanation, column),
        ]
        if shaded and any(explanation.words):
            strength = contribution_strength(explanation, column)
            shaded_text = _shaded_text(explanation, strength, FOR)
            blocks.append(Padding(shaded_text, (1, 0, 0, 2), expand=False))
    if others := [] if label is not None else _unexplained_labels(explanation, columns):
        options = ", ".join(f"{name}: --label {shlex.quote(name)}" for name in others)
        blocks.append(Text(f"\nMore predicted labels ({options})"))
    if heads:
        blocks += _attention(explanation, columns, shaded=shaded)
    for block in blocks:
        console.print(Text(block.plain) if isinstance(block, Text) and not shaded else block)


def example_lines(explanation: Explanation, label: str) -> Iterator[str]:
    """Yield terminal lines that explain the prediction for an example text."""
    names = [*map(str, explanation.predicted_labels)]
    is_correct = sorted(", ".join(names).split(", ")) == sorted(label.split(", "))
    predicted = ", ".join(map(listed_label, names)) or "no label"
    outcome = "" if is_correct else f", but it is labelled {_example_label(explanation, label)}"
    text = one_line(" ".join(explanation.text.split()))
    short = text if len(text) <= EXAMPLE_LENGTH else f"{text[: EXAMPLE_LENGTH - 1]}…"
    yield f"“{short}”"
    chance = "" if explanation.thresholds is not None else probability(explanation.probability)
    reasons = strongest_words(explanation, explanation.best, limit=EXAMPLE_WORDS)[0]
    because = ", ".join(f"{_name(word)} {signed(word.contribution)}" for word in reasons)
    if because and explanation.thresholds is not None:
        because = f"for {_label(explanation, explanation.best)}: {because}"
    first = f"{predicted} {chance}".rstrip()
    yield one_line(f"{first}{outcome}{f' — {because}' if because else ''}")


def _example_label(explanation: Explanation, label: str) -> str:
    if explanation.thresholds is not None:  # several labels, joined by commas
        return label or "with none"
    return listed_label(label)


def _headline(explanation: Explanation) -> Text:
    """Return the first line of an explanation, with the most probable classes."""
    order = np.argsort(-explanation.probabilities, kind="stable").tolist()
    predicted = ", ".join(_class(explanation, c) for c in order if _is_predicted(explanation, c))
    order = [c for c in order if not _is_predicted(explanation, c)]
    line = Text.assemble((predicted or label_names([]), "bold"))
    others = ", ".join(_class(explanation, c) for c in order[:OTHER_CLASSES])
    rest = len(order) - OTHER_CLASSES
    return line.append(f"  ({others}{f', {rest} more' if rest > 0 else ''})", "dim")


def _unexplained_labels(explanation: Explanation, columns: Sequence[int]) -> list[str]:
    """Return the predicted labels that are left out of an explanation in the terminal."""
    explained = {explanation.labels[column] for column in columns}
    return [one_line(str(name)) for name in explanation.predicted_labels if name not in explained]


def _is_predicted(explanation: Explanation, column: int) -> bool:
    return explanation.labels[column] in explanation.predicted_labels


def _class(explanation: Explanation, column: int) -> str:
    chance = probability(float(explanation.probabilities[column]))
    return f"{_label(explanation, column)} {chance}"


def _contribution_title(explanation: Explanation, column: int) -> str:
    if missing := missing_words(explanation):
        return missing
    title = f"Words for (+) and against (−) {_label(explanation, column)}"
    if explanation.window > 1:
        return f"{title}, {explanation.window} words left out at a time"
    return f"{title}, by leaving words out" if explanation.method == "occlusion" else title


def _word_table(explanation: Explanation, column: int) -> Table:
    """Return a terminal table of the strongest words of an explanation, with bars."""
    sides = strongest_words(explanation, column, limit=LISTED_WORDS)
    words = sorted((*sides[0], *sides[1]), key=lambda word: -abs(word.contribution))
    largest = max((abs(word.contribution) for word in words), default=1.0)
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=BAR_WIDTH, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for word in words[:LISTED_WORDS]:
        palette = FOR if word.contribution > 0 else AGAINST
        length = max(round(abs(word.contribution) / largest * BAR_WIDTH), 1)
        bar = Text("━" * length, style=palette.backgrounds[-1])
        table.add_row(f"  {signed(word.contribution)}", bar, Text(_name(word)))
    return table


def _name(word: StrongWord) -> str:
    times = f" × {word.occurrences}" if word.occurrences > 1 else ""
    return one_line(word.word) + times


def _attention(
    explanation: Explanation, columns: Sequence[int], *, shaded: bool
) -> Iterator[RenderableType]:
    """Yield terminal lines that show the class scores and the attention weights of each head."""
    yield Text()
    for column in columns:
        yield Text(one_line(summed(explanation, column)))
    pooled, weights = explanation.pooled, explanation.weights
    if pooled is None or weights is None:
        alone = explanation.is_by_ngrams_alone
        yield Text(f"\n{NGRAMS_ALONE if alone else 'This model has no attention.'}")
        return
    if missing := missing_attention(explanation):
        yield Text(f"\n{missing}")
        return
    yield _heading(f"Attention, mean of {plural(len(weights), 'head')}")
    mean = _shaded_text(explanation, pooled / attention_scale(pooled), ATTENTION)
    yield Padding(mean if shaded else _most_attended(explanation, pooled), (0, 2), expand=False)
    yield _heading("Each head")
    grid = Table.grid(padding=(0, 2))
    for j, head in enumerate(weights, start=1):
        grid.add_row(Text(str(j)), _most_attended(explanation, head))
    yield Padding(grid, (0, 2), expand=False)


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _most_attended(explanation: Explanation, weights: Floats) -> Text:
    """List the words with the highest attention weights for a terminal explanation."""
    words = explanation.words
    strongest = np.argsort(-weights, kind="stable")[:WORDS_PER_HEAD]
    return Text(
        ", ".join(f"{one_line(words[t]) or '–'} {share(float(weights[t]))}" for t in strongest)
    )


def _shaded_text(explanation: Explanation, strength: Floats, positive: Palette) -> Text:
    """Shade the words of an explained text in terminal colours, shortening long texts."""
    text = Text()
    for t, characters in excerpt_segments(explanation, strength, words=SHADED_WORDS):
        value = 0.0 if t is None else float(strength[t])
        text.append(
            terminal_text(characters), _shade(positive if value > 0 else AGAINST, abs(value))
        )
    if len(strength) > SHADED_WORDS:
        text.append(f"\n(around the strongest of {len(strength):,} words)", style="dim")
    return text


def _shade(palette: Palette, strength: float) -> Style:
    foreground, threshold, backgrounds = palette
    if strength < threshold:
        return Style()
    last = len(backgrounds) - 1
    step = min(int((strength - threshold) / (1 - threshold) * len(backgrounds)), last)
    return Style(color=foreground, bgcolor=backgrounds[step], bold=step == last)


def _label(explanation: Explanation, column: int) -> str:
    return one_line(listed_label(str(explanation.labels[column])))
