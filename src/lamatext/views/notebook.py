"""Explanations and models in a Jupyter notebook: HTML without scripts, and one-line summaries.

The shades are translucent, because a notebook's theme may be light or dark.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten

from lamatext.explain.contributions import Floats
from lamatext.explain.explanation import Explanation
from lamatext.views.formatting import (
    label_names,
    one_line,
    parted,
    probability,
    share,
    signed,
    summed,
)
from lamatext.views.html_templates import render_template
from lamatext.views.word_shading import (
    attention_scale,
    contribution_strength,
    missing_words,
    reasons,
    segments,
)

LISTED_WORDS, TEXT_LENGTH, MAX_CLASSES = 5, 60, 10
BLUE, ORANGE, VIOLET = "0,103,197", "226,134,0", "124,63,214"


def notebook_html(explanation: Explanation) -> str:
    """Render an explanation as an HTML fragment for a Jupyter notebook."""
    pooled = explanation.pooled
    return render_template(
        "notebook.html",
        predicted=label_names(map(str, explanation.predicted_labels)),
        probability=None if explanation.thresholds is not None else explanation.probability,
        shaded_label=None if explanation.thresholds is None else explanation.predicted,
        contribution=_shaded_words(
            explanation, contribution_strength(explanation, explanation.best), BLUE, ORANGE
        ),
        attention=None
        if pooled is None
        else _shaded_words(explanation, pooled / attention_scale(pooled), VIOLET, VIOLET),
        missing_words=missing_words(explanation),
        strongest=reasons(explanation, limit=LISTED_WORDS),
        sums=summed(explanation, explanation.best),
    )


def explanation_line(explanation: Explanation) -> str:
    """Format an explanation as one line of plain text for a notebook or Python prompt."""
    chance = "" if explanation.thresholds is not None else probability(explanation.probability)
    sides = "; ".join(
        f"{side}: {', '.join(f'{word.word} {signed(word.contribution)}' for word in words)}"
        for side, words in reasons(explanation, limit=LISTED_WORDS)
    )
    text = shorten(one_line(explanation.text), TEXT_LENGTH, placeholder=" …")
    predicted = label_names(map(str, explanation.predicted_labels))
    verdict = f"{predicted} {chance}".rstrip()
    missing = "empty text" if explanation.is_empty else "the model knows none of its words"
    return one_line(f"Explanation({verdict}; {sides or missing}; text: {text!r})")


def class_names(classes: Sequence[object]) -> str:
    """Format the class names of a model for a notebook, shortened if there are many."""
    names = ", ".join(map(str, classes[:MAX_CLASSES]))
    rest = len(classes) - MAX_CLASSES
    return one_line(f"{len(classes)}: {names}{f' and {rest} more' if rest > 0 else ''}")


def model_html(title: str, facts: Mapping[str, object]) -> str:
    """Render the main facts about a model as an HTML table for a notebook."""
    return render_template("notebook_model.html", title=title, facts=list(facts.items()))


def _shaded_words(
    explanation: Explanation, strength: Floats, positive: str, negative: str
) -> list[tuple[str, str, str]]:
    """Split a text into pieces with background colours and tooltips for the notebook."""
    tooltips = _tooltips(explanation)
    pieces = []
    for t, characters in segments(explanation.text, explanation.spans):
        colour = tooltip = ""
        if t is not None:
            hue = positive if strength[t] >= 0 else negative
            colour = f"rgba({hue},{min(abs(float(strength[t])), 1) * 0.5:.2f})"
            tooltip = tooltips[t]
        pieces.append((characters, colour, tooltip))
    return pieces


def _tooltips(explanation: Explanation) -> list[str]:
    best, pooled = explanation.best, explanation.pooled
    relative_parts, tooltips = explanation.relative_parts, []
    for t, value in enumerate(explanation.relative[best].tolist()):
        parts = {name: float(part[best, t]) for name, part in relative_parts.items()}
        numbers = [f"contribution {signed(value)}", parted(parts)]
        if pooled is not None:
            numbers.append(f"attention {share(float(pooled[t]))}")
        tooltips.append(", ".join(filter(None, numbers)))
    return tooltips
