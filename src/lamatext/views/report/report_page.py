"""Report page: the whole report as one self-contained HTML file without scripts or requests.

``report_page`` renders ``report.html``; each section below returns the values that it shows.
"""

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lamatext.atomic_write import write_text
from lamatext.data.read_options import source_title
from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.explain.faithfulness import GRADIENTS, RANDOM, VERDICT_SHARE, Order
from lamatext.metrics import (
    ClassScores,
    LabelScores,
    MultiLabelScores,
    accuracy_interval,
    merge_small_bins,
    wilson_interval,
)
from lamatext.views.formatting import (
    NGRAMS_ALONE,
    accuracy_comparison,
    day,
    file_size,
    probability,
    share,
    signed,
)
from lamatext.views.html_templates import REPORT_STYLE, SHARED_STYLE, render_page
from lamatext.views.report.collect import (
    MAX_MATRIX_CLASSES,
    Cell,
    Findings,
    example_values,
    multi_label_example_values,
)
from lamatext.views.svg_charts import Chart, Line, count_axis, cut_axis, percent_axis, value_axis

Values = dict[str, Any]
MANY_SHARED = 0.01  # share of scored texts that are training texts, to warn about them
LINE_KINDS = {"contribution": 1, "attention": 2, GRADIENTS: 3, RANDOM: 4}


def write_report(findings: Findings, out: Path, *, title: str | None = None) -> None:
    """Write the HTML report page to the file ``out``."""
    write_text(out, report_page(findings, title=title))


def report_page(findings: Findings, *, title: str | None = None) -> str:
    """Return the complete HTML report page, titled after the folder of the model by default."""
    saved = findings.config.get("saved")
    return render_page(
        "report/report.html",
        styles=(SHARED_STYLE, REPORT_STYLE),
        css=open_cell_style(findings),
        title=title or findings.folder.resolve().name,
        findings=findings,
        saved_on=day(datetime.fromisoformat(saved)) if saved else "",
        ngrams_alone=NGRAMS_ALONE,
        share_format=share,
        signed_format=signed,
        headline=headline(findings),
        data=data_section(findings),
        baselines=baselines_section(findings),
        learning=learning_section(findings),
        confusion=confusion_section(findings),
        classes=classes_section(findings),
        calibration=calibration_section(findings),
        mistakes=mistakes_section(findings),
        faithfulness=faithfulness_section(findings),
        size=size_section(findings),
        usage=usage_section(findings),
    )


def headline(findings: Findings) -> Values:
    """Return the template values of the report page's headline: scores, size and speed."""
    scores = findings.scores
    if findings.is_seen:
        return _training_text_headline(findings)
    if isinstance(scores, MultiLabelScores):
        return _multi_label_headline(findings, scores)
    low, high = scores.accuracy_interval
    return {
        "accuracy": scores.accuracy,
        "low": low,
        "high": high,
        "most_frequent": max(row.texts for row in scores.classes) / scores.texts,
        "figures": [
            (percent(scores.accuracy), "accuracy: share of correct labels"),
            (f"{scores.macro_f1:.3f}", "macro-F1: every class counts equally, 1 is perfect"),
            *_costs(findings),
        ],
    }


def _costs(findings: Findings) -> list[tuple[str, str]]:
    return [
        (file_size(findings.size), "model size on disk"),
        (f"{findings.speed.one_text_ms:.1f} ms", "per text, on this machine"),
    ]


def _training_text_headline(findings: Findings) -> Values:
    """Return the headline values of a report on training texts, with the model's saved scores.

    These scores are from a test set or from cross-validation.
    """
    test: Values = findings.metrics.get("test") or {}
    how = "on its test texts"
    if test.get("folds"):
        how = f"in {test['folds']}-fold cross-validation"
    known = ""
    if "micro_f1_interval" in test:
        low, high = test["micro_f1_interval"]
        known = f"a micro-F1 of {test['micro_f1']:.3f} (95 % interval {number_range(low, high)})"
    elif "accuracy" in test and "accuracy_interval" in test:
        low, high = test["accuracy_interval"]
        known = (
            f"an accuracy of {percent(test['accuracy'])} (95 % interval {percent_range(low, high)})"
        )
    return {"known": f"{known} {how}" if known else "", "figures": _costs(findings)}


def _multi_label_headline(findings: Findings, scores: MultiLabelScores) -> Values:
    return {
        "micro_f1": scores.micro_f1,
        "low": scores.micro_f1_interval[0],
        "high": scores.micro_f1_interval[1],
        "subset_accuracy": scores.subset_accuracy,
        "figures": [
            (f"{scores.micro_f1:.3f}", "micro-F1: every label of a text counts equally"),
            (f"{scores.macro_f1:.3f}", "macro-F1: every label counts equally, 1 is perfect"),
            (f"{scores.mean_average_precision:.3f}", "mean average precision"),
            (f"{scores.hamming_loss:.4f}", "Hamming loss: share of wrong decisions"),
            *_costs(findings),
        ],
    }


def data_section(findings: Findings) -> Values:
    """Return the template values of the data section on the report page."""
    summary, known = findings.data, findings.train is not None or findings.is_seen
    kind = "training" if known else "scored"
    about = (
        "What the model was trained on. Good data has enough texts of every class, few duplicates, "
        "and no training text among the scored texts."
    )
    if not known:
        about = (
            "The texts that this report scores; the model does not store those that it was trained "
            "on. Good test data has enough texts of every class and few duplicates."
        )
    facts = [
        *([("training texts", f"{summary.rows:,}")] if known else []),
        ("texts scored in this report", f"{len(findings.scored):,}"),
        ("words per text, mean", f"{summary.mean_words:,.0f}"),
        (
            "words per text, 5th, 50th and 95th percentile",
            " · ".join(f"{summary.words[p]:,}" for p in (5, 50, 95)),
        ),
        ("texts without words", f"{summary.empty:,}"),
        ("exact duplicates of an earlier text", f"{summary.duplicates:,}"),
        ("near-duplicates of an earlier text", f"{summary.near_duplicates:,}"),
        ("scored texts that occur with different labels", f"{findings.conflicts:,}"),
    ]
    if summary.in_both is not None:
        facts.append(("scored texts that are also training texts", f"{summary.in_both:,}"))
    return {
        "about": about,
        "facts": facts,
        "caption": f"The {kind} texts of {source_title(summary.source)}",
        "classes": [(c, count, count / summary.rows) for c, count in summary.classes.items()],
        "concerns": _concerns(findings),
    }


def _concerns(findings: Findings) -> list[str]:
    """List the data problems that the report page warns about."""
    summary, concerns = findings.data, []
    if findings.is_seen:
        concerns.append("the scored texts are the training texts, so the scores mean little")
    shared, scored = summary.in_both or 0, summary.test_rows or 0
    if shared and shared >= MANY_SHARED * scored:
        are = "is also a training text" if shared == 1 else "are also training texts"
        concerns.append(f"{shared:,} of {plural(scored, 'scored text')} {are}")
    if summary.duplicates > 0.02 * summary.rows:
        concerns.append(f"{percent(summary.duplicates / summary.rows)} of the texts are duplicates")
    if findings.conflicts:
        concerns.append(f"{plural(findings.conflicts, 'text')} with different labels")
    counts = list(summary.classes.values())
    if counts and min(counts) < 50:
        concerns.append(f"the smallest class has only {plural(min(counts), 'text')}")
    return concerns


def baselines_section(findings: Findings) -> Values:
    """Return the template values of the report section that compares the model with baselines."""
    board: Sequence[Values] = findings.metrics.get("leaderboard") or []
    test: Values = findings.metrics.get("test") or {}
    texts, folds = test.get("texts") or findings.scores.texts, test.get("folds", 0)
    comparison = ""
    if findings.is_multi_label:
        rows = sorted(board, key=lambda row: -row.get("micro_f1", 0.0))
        ends = [
            end for row in rows for end in row.get("micro_f1_interval", [row.get("micro_f1", 1.0)])
        ]
        return {
            "own": board[0]["model"] if board else "",
            "rows": rows,
            "axis": cut_axis("micro-F1", ends or [1.0], is_percent=False),
            "models": [row["model"] for row in rows if _label_scores(row)],
            "labels": _label_rows(rows),
        }
    if len(board) > 1:
        best = max(board[1:], key=lambda row: float(row["accuracy"]))
        own, other = ((row["model"], float(row["accuracy"])) for row in (board[0], best))
        comparison = accuracy_comparison(own, other, texts)
    rows = [
        {**row, "interval": accuracy_interval(row["accuracy"], texts, folds)}
        for row in sorted(board, key=lambda row: -row["accuracy"])
    ]
    return {
        "own": board[0]["model"] if board else "",
        "rows": rows,
        "axis": cut_axis("accuracy", [end for row in rows for end in row["interval"]] or [1.0]),
        "comparison": comparison,
    }


def _label_rows(board: Sequence[Values]) -> list[tuple[str, ...]]:
    models = [scores for row in board if (scores := _label_scores(row))]
    if not models:
        return []
    return [
        (label, f"{texts:,}", *(f"{scores.get(label, (0, 0.0))[1]:.3f}" for scores in models))
        for label, (texts, _) in models[0].items()
    ]


def _label_scores(row: Values) -> dict[str, tuple[int, float]]:
    return {
        str(one["label"]): (int(one["texts"]), float(one["f1"])) for one in row.get("labels") or ()
    }


def learning_section(findings: Findings) -> Values | None:
    """Return the template values of the learning curves on the report page.

    There are none for a network that was trained for less than two epochs or has weight 0.
    """
    history: Sequence[dict[str, float]] = findings.metrics.get("history") or []
    if len(history) < 2 or not findings.uses_network:
        return None
    epochs = [int(row["epoch"]) for row in history]
    losses = [float(row["loss"]) for row in history]
    accuracies = [float(row["accuracy"]) for row in history]
    across, best = count_axis("epoch", epochs[-1]), max(accuracies)
    score = "mean average precision" if findings.is_multi_label else "accuracy"
    validation = Chart(
        "chart-accuracy",
        f"{score.capitalize()} on the validation texts",
        f"From {percent(accuracies[0])} to {percent(best)} at best.",
        across,
        value_axis(score, accuracies, is_percent=True),
        [Line(score, list(zip(map(float, epochs), accuracies, strict=True)), 1)],
        head=("epoch", f"validation {score}"),
        rows=list(zip(epochs, map(percent, accuracies), strict=True)),
    )
    training = Chart(
        "chart-loss",
        "Loss on the training texts",
        f"From {losses[0]:.3f} in epoch {epochs[0]} to {losses[-1]:.3f} in epoch {epochs[-1]}.",
        across,
        value_axis("loss (cross-entropy)", losses),
        [Line("loss", list(zip(map(float, epochs), losses, strict=True)), 2)],
        head=("epoch", "training loss"),
        rows=[(epoch, f"{loss:.4f}") for epoch, loss in zip(epochs, losses, strict=True)],
    )
    return {
        "charts": [validation, training],
        "score": score,
        "first": accuracies[0],
        "last": accuracies[-1],
        "best": best,
    }


def confusion_section(findings: Findings) -> Values | None:
    """Return the template values of the confusion matrix on the report page.

    A cell links to its example texts. CSS hides them unless they are the target of the URL, so that
    no script is needed. With too many classes for a matrix, the section lists the most confused
    pairs instead. With several labels per text there is no matrix.
    """
    if findings.is_multi_label:
        return None
    counts = findings.one_label.confusion
    is_matrix = len(findings.labels) <= MAX_MATRIX_CLASSES
    cells = findings.examples.cells
    return {
        "matrix": [
            (findings.labels[i], [_cell(findings, (i, j), n, sum(row)) for j, n in enumerate(row)])
            for i, row in enumerate(counts)
        ]
        if is_matrix
        else None,
        "worst": _most_frequent_confusion(findings),
        "cells": [
            _cell_examples(findings, cell) for cell in (sorted(cells) if is_matrix else cells)
        ],
    }


def open_cell_style(findings: Findings) -> str:
    """Return CSS that outlines the selected cell of the report's confusion matrix."""
    if len(findings.labels) > MAX_MATRIX_CLASSES:
        return ""
    selectors = [
        f':root:has(#{_anchor(cell)}:target) a[href="#{_anchor(cell)}"]'
        for cell in sorted(findings.examples.cells)
    ]
    return f"{', '.join(selectors)} {{ outline: 3px solid var(--ink); }}" if selectors else ""


def _most_frequent_confusion(findings: Findings) -> Values | None:
    counts = findings.one_label.confusion
    pairs = [(n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j]
    mistakes = sum(n for n, _, _ in pairs)
    if not mistakes:
        return None
    count, i, j = max(pairs)
    labels = {"truth": findings.labels[i], "predicted": findings.labels[j]}
    return {"count": count, "mistakes": mistakes, **labels}


def _cell(findings: Findings, cell: Cell, count: int, row_total: int) -> Values:
    i, j = cell
    shade = min(int(5 * count / max(row_total, 1)) + 1, 5)
    return {
        "count": count,
        "anchor": _anchor(cell),
        "style": f"{'hit' if i == j else 'miss'}{shade}",
        "description": f"{plural(count, 'text')}: {findings.labels[i]} predicted as "
        f"{findings.labels[j]}; show examples",
    }


def _cell_examples(findings: Findings, cell: Cell) -> Values:
    i, j = cell
    rows, count = findings.examples.cells[cell], findings.one_label.confusion[i][j]
    return {
        "anchor": _anchor(cell),
        "truth": findings.labels[i],
        "predicted": findings.labels[j],
        "correct": i == j,
        "count": count,
        "shown": plural(count, "text") if count == len(rows) else f"{len(rows)} of {count:,} texts",
        "examples": [
            example_values(findings.explanations[row], findings.labels, i) for row in rows
        ],
    }


def _anchor(cell: Cell) -> str:
    return f"cell-{cell[0]}-{cell[1]}"


def classes_section(findings: Findings) -> Values:
    """Return the template values of the report page's scores per class, worst class first."""
    rows: list[ClassScores | LabelScores] = [*findings.scores.classes]
    rows.sort(key=lambda row: row.f1)
    present = [row for row in rows if row.texts] or rows
    axis = cut_axis("F1", [row.f1 for row in rows], is_percent=False)
    return {"rows": rows, "axis": axis, "weakest": present[0], "strongest": present[-1]}


def calibration_section(findings: Findings) -> Values:
    """Return the template values of the calibration section on the report page."""
    scores, groups = findings.scores, merge_small_bins(findings.scores.reliability)
    pairs = list(zip(groups.confidence, groups.accuracy, groups.texts, strict=True))
    intervals = [wilson_interval(a, n) for _, a, n in pairs]
    total = sum(groups.texts)
    confidence = sum(c * n for c, _, n in pairs) / total
    accuracy = sum(a * n for _, a, n in pairs) / total
    error = scores.calibration_error
    counted = "decisions" if findings.is_multi_label else "texts"
    if error <= 0.03:
        verdict = "they can be trusted"
    elif error <= 0.08:
        verdict = "they are roughly right"
    else:
        verdict = "they are too " + ("high" if confidence > accuracy else "low")
    line = Line(
        "accuracy",
        [(c, a) for c, a, _ in pairs],
        1,
        band=intervals,
        radii=[3 + 5 * (n / max(groups.texts)) ** 0.5 for _, _, n in pairs],
        only_dots=True,
    )
    across = cut_axis("predicted probability", [*groups.confidence, 1.0])
    up = cut_axis("accuracy", [end for interval in intervals for end in interval])
    low, high = max(across.low, up.low), min(across.high, up.high)
    chart = Chart(
        "chart-calibration",
        "Predicted probability and actual accuracy",
        f"Mean difference {100 * error:.1f} points.",
        across,
        up,
        [line],
        guide=((low, low), (high, high)) if low < high else (),
        head=("predicted probability", "accuracy", "95 % interval", counted),
        rows=[
            (percent(c), percent(a), percent_range(low, high), f"{n:,}")
            for (c, a, n), (low, high) in zip(pairs, intervals, strict=True)
        ],
    )
    charts = [chart] if findings.is_multi_label else [chart, _coverage_chart(findings)]
    return {"error": error, "verdict": verdict, "charts": charts}


def _coverage_chart(findings: Findings) -> Chart:
    points = findings.one_label.coverage[::-1]
    half = min(points, key=lambda point: abs(point.answered - 0.5))
    return Chart(
        "chart-coverage",
        "Accuracy if it answers only when it is sure",
        f"On the most confident {percent(half.answered, 0)} of the texts the accuracy is "
        f"{percent(half.accuracy)}, on all texts {percent(findings.scores.accuracy)}.",
        percent_axis("share of texts answered"),
        cut_axis("accuracy", [end for p in points for end in (p.low, p.high)]),
        [Line(
            "accuracy",
            [(point.answered, point.accuracy) for point in points],
            1,
            band=[(point.low, point.high) for point in points],
        )],
        head=("texts answered", "probability at least", "accuracy", "95 % interval"),
        rows=[
            (
                percent(point.answered, 0),
                probability(point.threshold),
                percent(point.accuracy),
                percent_range(point.low, point.high),
            )
            for point in points
        ],
    )  # fmt: skip


def mistakes_section(findings: Findings) -> Values:
    """Return the template values of the report page's section on mistakes and doubtful labels."""

    def listed(rows: Sequence[int]) -> list[dict[str, object]]:
        if findings.is_multi_label:
            return [
                multi_label_example_values(
                    findings.explanations[row], findings.labels, findings.truth[row] > 0.5
                )
                for row in rows
            ]
        return [
            example_values(findings.explanations[row], findings.labels, int(findings.truth[row]))
            for row in rows
        ]

    examples = findings.examples
    return {"doubtful": listed(examples.doubtful), "others": listed(examples.mistakes)}


def faithfulness_section(findings: Findings) -> Values:
    """Return the template values of the report page's section on faithfulness."""
    faithfulness = findings.faithfulness
    names = ["attention", "contribution"] if "attention" in faithfulness.orders else [""]
    return {
        "verdicts": [faithfulness.verdict(name) for name in names],
        "charts": [
            _removal_chart(findings, "deletion", "Without the strongest words", "words removed",
                           "A line that falls early has found the decisive words."),
            _removal_chart(findings, "insertion", "With the strongest words alone", "words kept",
                           "A line that rises early has found words that suffice."),
        ],
        "rows": [
            (name, str(order.comprehensiveness), str(order.sufficiency), str(order.drop))
            for name, order in faithfulness.orders.items()
        ],
        "share": VERDICT_SHARE,
        "has_gradients": GRADIENTS in faithfulness.orders,
    }  # fmt: skip


def _removal_chart(
    findings: Findings, curve: str, title: str, across: str, description: str
) -> Chart:
    """Return the deletion or insertion chart in the faithfulness section of the report."""
    orders, shares = findings.faithfulness.orders, findings.faithfulness.shares

    def line(name: str, order: Order) -> Line:
        points = list(zip(shares, getattr(order, curve), strict=True))
        return Line(
            name,
            [(x, estimate.value) for x, estimate in points],
            LINE_KINDS.get(name, 4),
            band=[(estimate.low, estimate.high) for _, estimate in points],
        )

    lines = [line(name, order) for name, order in orders.items()]
    return Chart(
        f"chart-{curve}",
        title,
        description,
        percent_axis(across),
        percent_axis("probability of the predicted class"),
        lines,
        head=(across, *orders),
        rows=[
            (percent(x, 0), *(f"{line.points[place][1]:.3f}" for line in lines))
            for place, x in enumerate(shares)
        ],
    )


def size_section(findings: Findings) -> Values:
    """Return the template values of the report page's section on size and speed."""
    speed = findings.speed
    counts: dict[str, int] = findings.config.get("parameters", {})
    return {
        "figures": [
            (file_size(findings.size), "on disk"),
            (f"{speed.one_text_ms:.1f} ms", "for one text, median"),
            (f"{speed.slow_text_ms:.1f} ms", "for one text, 95th percentile"),
            (f"{speed.texts_per_second:,.0f}", "texts per second, in batches"),
        ],
        "quick": speed.slow_text_ms < 100,
        "parameters": [
            *((part, f"{count:,}") for part, count in counts.items()),
            ("total", f"{sum(counts.values()):,}"),
        ],
    }


def usage_section(findings: Findings) -> Values:
    """Return the template values of the report page's usage section, with example code."""
    folder = str(findings.folder)
    quoted = shlex.quote(folder)
    python = (
        "from lamatext import Predictor\n\n"
        f"model = Predictor.load({folder!r})\n"
        'model.predict(["a text to classify"])\n'
        'model.predict_proba(["a text to classify"])\n'
        'model.explain("a text to classify")'
    )
    shell = (
        f'lamatext predict {quoted} --text "a text to classify"\n'
        f"lamatext predict {quoted} new-texts.csv --out labelled.csv\n"
        f'lamatext explain {quoted} --text "a text to classify"\n'
        f"lamatext serve {quoted}"
    )
    needs_torch = findings.config["recipe"]["model"]["name"] in ("te", "bert")
    return {"code": {"Python": python, "Command line": shell}, "needs_torch": needs_torch}
