"""Explanations as one self-contained page.

Every character that comes from a text or a label goes through ``escaped``; the page's own script
is the only one its Content-Security-Policy lets run, and no request leaves it.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from string import Template

import numpy as np

from lamatext.explain.display import (
    attention_scale,
    contribution_scale,
    escaped,
    segments,
    share,
    signed,
)
from lamatext.explain.explanation import Explanation, Label

PILLS = 8  # more classes than this are chosen from a list
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
    template = Template(_asset("page.html"))
    return template.substitute(
        hash=_hash(_between(template.template, "<script>", "</script>")),
        title=escaped(title),
        subtitle=escaped(subtitle),
        style=style(),
        controls=_controls(explanations[0]) if explanations else "",
        cards="\n".join(card(e, truth) for e, truth in zip(explanations, known, strict=True)),
        footer=_footer(explanations),
        numbers=_json(
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
        f'<p class="figures" aria-live="polite"></p>\n{_why(explanation)}{_note(explanation)}\n'
        "</article>"
    )


def style() -> str:
    """The page's CSS."""
    return _asset("page.css")


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


def _controls(first: Explanation) -> str:
    """The switches: a class's contributions, or the attention of one head or all."""
    names = [str(label) for label in first.labels]
    best = (
        '<label><input type="radio" name="view" value="best" checked><span>predicted</span></label>'
    )
    if len(names) <= PILLS:
        classes = best + "".join(_pill(row, name) for row, name in enumerate(names))
        chooser = ""
    else:
        options = "".join(
            f'<option value="{row}" data-class>{escaped(name)}</option>'
            for row, name in enumerate(names)
        )
        blank = '<option value="">another class …</option>'
        classes = best
        chooser = f'<select name="class" aria-label="Another class">{blank}{options}</select>'
    rows = _row("by-class", "Contribution", classes, chooser)
    if first.weights is not None:
        heads = ["mean", *(str(j) for j in range(1, len(first.weights) + 1))]
        pills = "".join(_pill(row, name, "") for row, name in enumerate(heads, start=len(names)))
        rows += "\n" + _row("by-head", "Attention", pills)
    return rows


def _pill(row: int, name: str, kind: str = " data-class") -> str:
    return (
        f'<label><input type="radio" name="view" value="{row}">'
        f"<span{kind}>{escaped(name)}</span></label>"
    )


def _row(kind: str, name: str, pills: str, chooser: str = "") -> str:
    return (
        f'<div class="row {kind}" role="group" aria-label="{name}"><b>{name}</b>'
        f'<div class="pills">{pills}</div>{chooser}</div>'
    )


def _footer(explanations: Iterable[Explanation]) -> str:
    methods = {explanation.method for explanation in explanations}
    gist = {
        "contribution": "what it adds to the score of a class",
        "occlusion": "what the score of a class loses when the word is left out",
    }
    lines = [
        f"A word's contribution is {gist[method]}, measured against the mean of all classes. "
        "<b>Blue</b> words speak for the class, <b>orange</b> (dotted) words against it."
        for method in sorted(methods)
    ]
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
    rows: list[list[float] | None] = [
        _short(row) if c in kept else None for c, row in enumerate(relative)
    ]
    scales = [scale] * len(rows)
    if explanation.weights is not None and explanation.pooled is not None:
        for row in (explanation.pooled, *explanation.weights):
            rows.append(_short(row))
            scales.append(attention_scale(row))
    return {"best": explanation.best, "rows": rows, "scales": _short(np.array(scales))}


def _short(values: np.ndarray[tuple[int], np.dtype[np.floating]]) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def _json(value: object) -> str:
    """JSON that cannot end the ``<script>`` it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


@cache
def _asset(name: str) -> str:
    return files("lamatext.explain").joinpath(name).read_text(encoding="utf-8")
