"""Explanation page: several explanations as one self-contained HTML page.

All texts and labels are escaped by the template. The Content-Security-Policy allows only the
page's own script, and the page sends no requests.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from lamatext.atomic_write import write_text
from lamatext.data.dataset import Dataset
from lamatext.data.read_options import source_title
from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.explain.contributions import Floats
from lamatext.explain.explanation import Explanation, Label
from lamatext.runtime.predictor import Predictor
from lamatext.views.formatting import NGRAMS_ALONE, label_names, summed
from lamatext.views.html_templates import render_page, script_json
from lamatext.views.word_shading import (
    attention_scale,
    contribution_scale,
    contribution_strength,
    missing_attention,
    missing_words,
    reasons,
    segments,
)

MAX_PILLS = 8  # with more classes, the page has a drop-down list instead of buttons
MAX_CLASSES = 12  # the page holds the contributions to the most probable classes of a text
MAX_BARS = 5
STRONGEST_WORDS = 5
TEST_TEXTS, MORE_MISTAKES = 40, 20  # on the page that ``lamatext train --html`` writes


def explanation_page(
    explanations: Sequence[Explanation],
    title: str,
    subtitle: str = "",
    truths: Sequence[Label | list[str] | None] | None = None,
) -> str:
    """Return an HTML explanation page for several texts classified by one model.

    Args:
        explanations: the explanations, in the order of the page.
        title: the heading of the page.
        subtitle: a line below the heading.
        truths: the true label of each text, or a list of labels if it may have several; None for a
            text whose label is unknown.
    """
    first = explanations[0] if explanations else None
    known = truths if truths is not None else [None] * len(explanations)
    cards = [_card(e, truth) for e, truth in zip(explanations, known, strict=True)]
    used = {label for card in cards for label in card["classes"]}
    numbers = {
        "classes": len(first.labels) if first else 0,
        "texts": [_numbers(explanation) for explanation in explanations],
    }
    return render_page(
        "explanation_page.html",
        script="explanation_page.js",
        title=title,
        subtitle=subtitle,
        numbers=Markup(script_json(numbers)),
        labels=first.labels if first else [],
        several_labels=first is not None and first.thresholds is not None,
        max_pills=MAX_PILLS,
        parts=list(first.parts or []) if first else [],
        ngrams_alone=NGRAMS_ALONE if first and first.is_by_ngrams_alone else "",
        heads=len(first.weights) if first and first.weights is not None else 0,
        methods=sorted({explanation.method for explanation in explanations}),
        cards=cards,
        used_labels=[label for label in first.labels if str(label) in used] if first else [],
        with_truth=any(truth is not None for truth in known),
        outcomes=[
            ("", "all", len(cards)),
            (
                "mistake",
                "mistakes",
                sum(c["truth"] is not None and not c["correct"] for c in cards),
            ),
            ("correct", "correct", sum(bool(c["correct"]) for c in cards)),
        ],
    )


def write_test_page(folder: Path, test: Dataset, scores: Mapping[str, Any], out: Path) -> None:
    """Write an HTML explanation page for a random sample of test texts and further mistakes.

    After a cross-validation, the texts are training texts. ``scores`` is the ``test`` section in
    the ``metrics.json`` of the saved model.
    """
    predictor, labels = Predictor.load(folder), test.require_labels().to_pylist()
    predicted = predictor.predict(test.texts.to_pylist()).tolist()
    order = np.random.default_rng(0).permutation(len(test)).tolist()
    sample, rest = order[:TEST_TEXTS], order[TEST_TEXTS:]
    mistakes = [row for row in rest if _names(predicted[row]) != _names(labels[row])]
    mistakes = mistakes[:MORE_MISTAKES]
    rows = sorted(sample + mistakes)
    further = f" and {plural(len(mistakes), 'further mistake')}" if mistakes else ""
    part, tested = "test", plural(scores["texts"], "text" if scores["folds"] else "test text")
    if "micro_f1" in scores:
        low, high = scores["micro_f1_interval"]
        f1 = f"{scores['micro_f1']:.3f} ({number_range(low, high)})"
        correct = f"has a micro-F1 of {f1} on {tested}"
    else:
        low, high = scores["accuracy_interval"]
        share = f"{percent(scores['accuracy'])} ({percent_range(low, high)})"
        correct = f"labels {share} of {tested} correctly"
    if scores["folds"]:
        part = "training"
        correct = f"{correct} in a cross-validation. It was trained on the texts below"
    page = explanation_page(
        [predictor.explain(test.texts[row].as_py()) for row in rows],
        f"{source_title(test.source)}: {plural(len(sample), f'{part} text')}{further}",
        f"The model {correct}.",
        truths=[labels[row] for row in rows],
    )
    write_text(out, page)


def _card(explanation: Explanation, truth: Label | list[str] | None) -> dict[str, Any]:
    predicted = label_names(map(str, explanation.predicted_labels))
    classes = {*map(str, explanation.predicted_labels)}
    if truth is not None:
        classes |= {*map(str, truth if isinstance(truth, list) else [truth])}
    is_right = _is_right(explanation, truth)
    if isinstance(truth, list):
        truth = label_names(truth)
    is_predicted = [label in explanation.predicted_labels for label in explanation.labels]
    order = np.lexsort((-explanation.probabilities, np.logical_not(is_predicted)))
    shown = np.sort(order) if len(explanation.labels) <= MAX_BARS else order[:MAX_BARS]
    strength = contribution_strength(explanation, explanation.best)
    thresholds = explanation.thresholds
    return {
        "predicted": predicted,
        "probability": explanation.probability if explanation.thresholds is None else None,
        "classes": sorted(classes),
        "shaded_label": explanation.predicted,
        "truth": truth,
        "correct": is_right,
        "bars": [
            (
                explanation.labels[c],
                float(explanation.probabilities[c]),
                is_predicted[c],
                None if thresholds is None else float(thresholds[c]),
            )
            for c in shown
        ],
        "words": [
            (characters, "", 0.0)
            if t is None
            else (characters, "n" if strength[t] < 0 else "p", abs(float(strength[t])))
            for t, characters in segments(explanation.text, explanation.spans)
        ],
        "strongest": reasons(explanation, limit=STRONGEST_WORDS),
        "sums": summed(explanation, explanation.best),
        "missing_words": missing_words(explanation) or missing_attention(explanation),
        "window": explanation.window,
    }


def _is_right(explanation: Explanation, truth: Label | list[str] | None) -> bool:
    return _names(truth) == _names([*explanation.predicted_labels])


def _names(labels: object) -> list[str]:
    """Convert the label or labels of an explained text to a sorted list of strings.

    The lists are used to compare true and predicted labels.
    """
    return sorted(map(str, labels if isinstance(labels, list) else [labels]))


def _numbers(explanation: Explanation) -> dict[str, object]:
    """Return the word contributions and attention weights that the explanation page displays.

    The page's JavaScript computes the background colour of each word from them.
    """
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
