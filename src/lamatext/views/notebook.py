"""An explanation in a notebook: HTML without script or style sheet.

Tints let a light or a dark ground through, since a notebook's theme is not the system's.
"""

from collections.abc import Sequence

from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation
from lamatext.views.formatting import (
    attention_scale,
    contribution_scale,
    escaped,
    parted,
    segments,
    share,
    signed,
    summed,
)


def fragment(explanation: Explanation) -> str:
    """The text shaded by contribution to the predicted class and, folded away, by attention."""
    relative, pooled = explanation.relative, explanation.pooled
    contribution, scale = relative[explanation.best], contribution_scale(relative)
    own = {name: part[explanation.best] for name, part in explanation.relative_parts.items()}
    tips = [
        f"contribution {signed(float(value))}"
        + (f", {parted({name: float(part[t]) for name, part in own.items()})}" if own else "")
        + ("" if pooled is None else f", attention {share(float(pooled[t]))}")
        for t, value in enumerate(contribution)
    ]
    parts = [
        f"<div><b><bdi>{escaped(explanation.predicted)}</bdi></b> {share(explanation.probability)}",
        _tinted(explanation, contribution / scale, tips, ("0,103,197", "226,134,0")),
        "<small>blue speaks for this class, orange against it; hover for the figures</small>",
        f"<div><small>{summed(explanation, explanation.best)}</small></div>",
    ]
    if pooled is not None:
        strength = pooled / attention_scale(pooled)
        parts += [
            "<details><summary>attention, mean of the heads</summary>",
            _tinted(explanation, strength, tips, ("124,63,214", "124,63,214")),
            "</details>",
        ]
    return "".join([*parts, "</div>"])


def _tinted(
    explanation: Explanation, strength: Floats, tips: Sequence[str], hues: tuple[str, str]
) -> str:
    pieces = []
    for t, piece in segments(explanation.text, explanation.spans):
        if t is None:
            pieces.append(escaped(piece))
            continue
        hue = hues[0] if strength[t] >= 0 else hues[1]
        tint = f"background:rgba({hue},{min(abs(float(strength[t])), 1) * 0.5:.2f})"
        pieces.append(
            f'<span style="{tint};color:inherit;border-radius:3px" title="{tips[t]}">'
            f"{escaped(piece)}</span>"
        )
    frame = "white-space:pre-wrap;line-height:1.8;max-height:24em;overflow-y:auto;margin:.4em 0"
    return f'<div dir="auto" style="{frame};overflow-wrap:anywhere">{"".join(pieces)}</div>'
