"""Explanation page: several explanations as one self-contained HTML page.

All texts and labels are escaped by the template. The Content-Security-Policy allows only the
page's own script, and the page sends no requests.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from lamatext.atomic_write import write_text
from lamatext.data.dataset import Dataset
from lamatext.explain.classifier_head import Floats
from lamatext.explain.explanation import Explanation, Label
from lamatext.metrics import Scores
from lamatext.runtime.predictor import Predictor
from lamatext.views.formatting import summed
from lamatext.views.html_assets import asset, policy_hash, script_json
from lamatext.views.html_templates import render_template
from lamatext.views.word_shading import (
    attention_scale,
    contribution_scale,
    contribution_strength,
    segments,
)

MAX_PILLS = 8  # more classes than this are chosen from a list
MAX_CLASSES = 12  # the page holds the contributions to the most probable classes of a text
MAX_BARS = 5
STRONGEST_WORDS = 5
TEST_TEXTS = 40  # on the explanation page that ``lamatext train --html`` writes


def explanation_page(
    explanations: Sequence[Explanation],
    title: str,
    subtitle: str = "",
    truths: Sequence[Label | None] | None = None,
) -> str:
    """Return the HTML of an explanation page for several texts explained by one model.

    Args:
        explanations: the explanations, in the order of the page.
        title: the heading of the page.
        subtitle: a line below the heading.
        truths: the true label of each text, or None where it is unknown.
    """
    first = explanations[0] if explanations else None
    known = truths if truths is not None else [None] * len(explanations)
    script = Markup(asset("explanation_page.js"))
    numbers = {
        "classes": len(first.labels) if first else 0,
        "texts": [_numbers(explanation) for explanation in explanations],
    }
    return render_template(
        "explanation_page.html",
        title=title,
        subtitle=subtitle,
        style=Markup(style()),
        script=script,
        script_hash=policy_hash(script),
        numbers=Markup(script_json(numbers)),
        labels=first.labels if first else [],
        max_pills=MAX_PILLS,
        parts=list(first.parts or []) if first else [],
        heads=len(first.weights) if first and first.weights is not None else 0,
        methods=sorted({explanation.method for explanation in explanations}),
        cards=[_card(e, truth) for e, truth in zip(explanations, known, strict=True)],
    )


def write_test_page(folder: Path, test: Dataset, scores: Scores, out: Path) -> None:
    """Explain a random sample of test texts and write them to an HTML explanation page."""
    rows = np.random.default_rng(0).permutation(len(test))[:TEST_TEXTS]
    chosen = test.take(np.sort(rows))
    predictor = Predictor.load(folder)
    page = explanation_page(
        [predictor.explain(text) for text in chosen.texts.to_pylist()],
        f"{test.source}: {len(chosen)} test texts",
        f"{scores.accuracy:.1%} of {scores.texts:,} test texts are labelled correctly",
        truths=None if chosen.labels is None else chosen.labels.to_pylist(),
    )
    write_text(out, page)


def style() -> str:
    """Return the style sheet of the explanation page, which the HTML report shares."""
    return asset("explanation_page.css")


def _card(explanation: Explanation, truth: Label | None) -> dict[str, object]:
    """Return the template values for one text's card on the explanation page."""
    most_probable = np.argsort(-explanation.probabilities, kind="stable")[:MAX_BARS]
    strength = contribution_strength(explanation, explanation.best)
    return {
        "predicted": explanation.predicted,
        "probability": explanation.probability,
        "truth": truth,
        "correct": str(truth) == str(explanation.predicted),
        "bars": [
            (explanation.labels[c], float(explanation.probabilities[c])) for c in most_probable
        ],
        "words": [
            (characters, "", 0.0)
            if t is None
            else (characters, "n" if strength[t] < 0 else "p", abs(float(strength[t])))
            for t, characters in segments(explanation.text, explanation.spans)
        ],
        "strongest": _strongest_words(explanation),
        "sums": summed(explanation, explanation.best),
        "known_words": any(explanation.words),
        "window": explanation.window,
    }


def _strongest_words(explanation: Explanation) -> list[tuple[str, list[tuple[str, float]]]]:
    """List the words of an explanation page card that most support or oppose the prediction."""
    scores, words = explanation.relative[explanation.best], explanation.words
    order = np.argsort(-scores, kind="stable")
    sides = {
        "for": [t for t in order[:STRONGEST_WORDS] if scores[t] > 0],
        "against": [t for t in order[::-1][:STRONGEST_WORDS] if scores[t] < 0],
    }
    listed = {
        side: [(words[t], float(scores[t])) for t in places if words[t]]
        for side, places in sides.items()
    }
    return [(side, pairs) for side, pairs in listed.items() if pairs]


def _numbers(explanation: Explanation) -> dict[str, object]:
    """Return the numbers that the explanation page's script needs to shade one text's words."""
    order = np.argsort(-explanation.probabilities, kind="stable")
    classes = set(order[:MAX_CLASSES].tolist())
    relative = explanation.relative
    rows = _class_rows(relative, classes)
    scales = [contribution_scale(relative)] * len(rows)
    if explanation.weights is not None and explanation.pooled is not None:
        for row in (explanation.pooled, *explanation.weights):
            rows.append(_rounded(row))
            scales.append(attention_scale(row))
    return {
        "best": explanation.best,
        "rows": rows,
        "scales": _rounded(np.array(scales)),
        "sums": [
            summed(explanation, c) if c in classes else "" for c in range(len(explanation.labels))
        ],
        "parts": [_class_rows(part, classes) for part in explanation.relative_parts.values()],
    }


def _class_rows(rows: Floats, classes: set[int]) -> list[list[float] | None]:
    return [_rounded(row) if c in classes else None for c, row in enumerate(rows)]


def _rounded(values: np.ndarray[tuple[int], np.dtype[np.floating]]) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]
