"""Explanation in a Jupyter notebook: an HTML fragment without scripts and style sheets.

The shades are translucent, because a notebook's theme may be light or dark.
"""

from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation
from lamatext.views.formatting import parted, share, signed, summed
from lamatext.views.html_templates import render_template
from lamatext.views.word_shading import attention_scale, contribution_strength, segments

BLUE, ORANGE, VIOLET = "0,103,197", "226,134,0", "124,63,214"


def notebook_html(explanation: Explanation) -> str:
    """Render an explanation as an HTML fragment for a Jupyter notebook."""
    pooled = explanation.pooled
    return render_template(
        "notebook.html",
        predicted=explanation.predicted,
        probability=explanation.probability,
        contribution=_shaded_words(
            explanation, contribution_strength(explanation, explanation.best), BLUE, ORANGE
        ),
        attention=None
        if pooled is None
        else _shaded_words(explanation, pooled / attention_scale(pooled), VIOLET, VIOLET),
        sums=summed(explanation, explanation.best),
    )


def _shaded_words(
    explanation: Explanation, strength: Floats, positive: str, negative: str
) -> list[tuple[str, str, str]]:
    """Split a text into pieces for the notebook, each with a background colour and a tooltip."""
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
