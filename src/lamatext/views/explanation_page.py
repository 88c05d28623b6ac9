"""Explanations as one self-contained page.

Every character that comes from a text or a label goes through ``escaped``; the page's own script
is the only one its Content-Security-Policy lets run, and no request leaves it.
"""

from collections.abc import Sequence
from string import Template

import numpy as np

from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation, Label
from lamatext.views.explanation_controls import controls
from lamatext.views.formatting import (
    attention_scale,
    contribution_scale,
    escaped,
    segments,
    share,
    signed,
    summed,
)
from lamatext.views.html_assets import asset, between, policy_hash, script_json

KEPT_CLASSES = 12  # the page holds the contributions to a text's most probable classes
BARS = 5
STRONGEST = 5


def page(
    explanations: Sequence[Explanation],
    title: str,
    subtitle: str = "",
    truths: Sequence[Label | None] | None = None,
) -> str:
    """One HTML page with all the explanations, which must come from one model.

    Args:
        explanations: what to show, in this order.
        title: the page's heading.
        subtitle: a line under it.
        truths: the right label of each text, where it is known.
    """
    known = truths if truths is not None else [None] * len(explanations)
    template = Template(asset("lamatext.views", "explanation_page.html"))
    return template.substitute(
        hash=policy_hash(between(template.template, "<script>", "</script>")),
        title=escaped(title),
        subtitle=escaped(subtitle),
        style=style(),
        controls=controls(explanations[0]) if explanations else "",
        cards="\n".join(card(e, truth) for e, truth in zip(explanations, known, strict=True)),
        footer=_footer(explanations),
        numbers=script_json(
            {
                "classes": len(explanations[0].labels) if explanations else 0,
                "texts": [_numbers(explanation) for explanation in explanations],
            }
        ),
    )


def card(explanation: Explanation, truth: Label | None = None) -> str:
    """One explanation as an ``<article>``, shaded by contribution to the predicted class."""
    return (
        '<article>\n<div class="verdict">'
        f"<h2><bdi>{escaped(explanation.predicted)}</bdi></h2>"
        f'<span class="probability">{share(explanation.probability)}</span>'
        f"{_truth(explanation, truth)}</div>\n{_bars(explanation)}\n"
        f'<p class="text" dir="auto" tabindex="0" aria-label="The text, word by word">'
        f"{_shaded(explanation)}</p>\n"
        f'<p class="figures" aria-live="polite"></p>\n'
        f"{_why(explanation)}"
        f'<p class="sums">{summed(explanation, explanation.best)}</p>'
        f"{_note(explanation)}\n</article>"
    )


def style() -> str:
    """The page's CSS."""
    return asset("lamatext.views", "explanation_page.css")


def _shaded(explanation: Explanation) -> str:
    relative = explanation.relative
    strength = relative[explanation.best] / contribution_scale(relative)
    return "".join(
        escaped(piece)
        if t is None
        else f'<span class="w" data-k="{"n" if strength[t] < 0 else "p"}" '
        f'style="--s:{abs(float(strength[t])):.3f}">{escaped(piece)}</span>'
        for t, piece in segments(explanation.text, explanation.spans)
    )


def _truth(explanation: Explanation, truth: Label | None) -> str:
    if truth is None:
        return ""
    if truth == explanation.predicted:
        return '<span class="truth right">✓ right</span>'
    return f'<span class="truth wrong">✗ labelled <bdi>{escaped(truth)}</bdi></span>'


def _bars(explanation: Explanation) -> str:
    order = np.argsort(-explanation.probabilities, kind="stable")[:BARS]
    rows = "".join(
        f'<li class="best">{_bar(explanation, int(c))}</li>'
        if c == explanation.best
        else f"<li>{_bar(explanation, int(c))}</li>"
        for c in order
    )
    return f'<ul class="bars" aria-label="Probabilities">{rows}</ul>'


def _bar(explanation: Explanation, column: int) -> str:
    value = float(explanation.probabilities[column])
    return (
        f'<bdi class="name">{escaped(explanation.labels[column])}</bdi>'
        f'<span class="bar" style="--v:{value:.3f}"></span><span>{share(value)}</span>'
    )


def _why(explanation: Explanation) -> str:
    """The strongest words on either side, as text: for readers who see no shades."""
    scores, words = explanation.relative[explanation.best], explanation.words
    order = np.argsort(-scores, kind="stable")
    sides = (
        ("for", [t for t in order[:STRONGEST] if scores[t] > 0]),
        ("against", [t for t in order[::-1][:STRONGEST] if scores[t] < 0]),
    )
    rows = "".join(
        f"<dt>{side}</dt><dd>"
        + " ".join(
            f"<span><bdi>{escaped(words[t])}</bdi> <small>{signed(float(scores[t]))}</small></span>"
            for t in chosen
            if words[t]
        )
        + "</dd>"
        for side, chosen in sides
        if any(words[t] for t in chosen)
    )
    return f'<dl class="why">{rows}</dl>' if rows else ""


def _note(explanation: Explanation) -> str:
    if not any(explanation.words):
        return '<p class="note">No word of this text is known to the model.</p>'
    if explanation.window > 1:
        count = explanation.window
        return f'<p class="note">A long text: {count} words were left out at a time.</p>'
    return ""


def _footer(explanations: Sequence[Explanation]) -> str:
    methods = {explanation.method for explanation in explanations}
    gist = {
        "contribution": "what it adds to the score of a class",
        "occlusion": "what the score of a class loses when the word is left out",
    }
    lines = [
        f"A word's contribution is {gist[method]}, measured against the mean of all classes. "
        "<b>Blue</b> words speak for the class, <b>orange</b> (dotted) words against it. "
        "All words, and what the class has apart from them, add up to its score."
        for method in sorted(methods)
    ]
    if any(explanation.parts for explanation in explanations):
        lines.append(
            "The <b>network</b> reads the text with attention; the <b>n-grams</b> are short runs "
            "of words and letters in a linear model beside it. The two add up."
        )
    if any(explanation.weights is not None for explanation in explanations):
        lines.append(
            "Attention is where the model looked, which is not yet why it decided: "
            "a head's weights over a text add up to 1."
        )
    return "\n".join(f"<p>{line}</p>" for line in lines)


def _numbers(explanation: Explanation) -> dict[str, object]:
    """The rows that the page can shade by, and the value that gets the full shade in each."""
    kept = set(np.argsort(-explanation.probabilities, kind="stable")[:KEPT_CLASSES].tolist())
    relative = explanation.relative
    scale = contribution_scale(relative)
    rows = _kept(relative, kept)
    scales = [scale] * len(rows)
    if explanation.weights is not None and explanation.pooled is not None:
        for row in (explanation.pooled, *explanation.weights):
            rows.append(_short(row))
            scales.append(attention_scale(row))
    return {
        "best": explanation.best,
        "rows": rows,
        "scales": _short(np.array(scales)),
        "sums": [
            summed(explanation, c) if c in kept else "" for c in range(len(explanation.labels))
        ],
        "parts": [_kept(part, kept) for part in explanation.relative_parts.values()],
    }


def _kept(rows: Floats, kept: set[int]) -> list[list[float] | None]:
    return [_short(row) if c in kept else None for c, row in enumerate(rows)]


def _short(values: np.ndarray[tuple[int], np.dtype[np.floating]]) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]
