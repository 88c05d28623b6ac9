"""Confusion matrix section of the HTML report, whose cells open example texts without a script.

A cell links to its examples, which are hidden unless they are the target of the page's address.
"""

from lamatext.plurals import plural
from lamatext.views.report.collect import Findings
from lamatext.views.report.examples import MAX_MATRIX_CLASSES, Cell, example_values


def confusion_section(findings: Findings) -> dict[str, object] | None:
    """Return the template values of the report's confusion matrix section.

    With too many classes for a matrix, the section lists the most confused pairs instead. With
    several labels per text there is no confusion matrix.
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
    """Return the CSS that outlines the confusion matrix cell whose example texts are open."""
    if len(findings.labels) > MAX_MATRIX_CLASSES:
        return ""
    selectors = [
        f':root:has(#{_anchor(cell)}:target) a[href="#{_anchor(cell)}"]'
        for cell in sorted(findings.examples.cells)
    ]
    return f"{', '.join(selectors)} {{ outline: 3px solid var(--ink); }}" if selectors else ""


def _most_frequent_confusion(findings: Findings) -> dict[str, object] | None:
    """Return the template values of the most frequent mistake, or None if there is none."""
    counts = findings.one_label.confusion
    pairs = [(n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j]
    mistakes = sum(n for n, _, _ in pairs)
    if not mistakes:
        return None
    count, i, j = max(pairs)
    labels = {"truth": findings.labels[i], "predicted": findings.labels[j]}
    return {"count": count, "mistakes": mistakes, **labels}


def _cell(findings: Findings, cell: Cell, count: int, row_total: int) -> dict[str, object]:
    """Return the template values of one confusion matrix cell: count, shade and link."""
    i, j = cell
    shade = min(int(5 * count / max(row_total, 1)) + 1, 5)
    return {
        "count": count,
        "anchor": _anchor(cell),
        "style": f"{'hit' if i == j else 'miss'}{shade}",
        "description": f"{plural(count, 'text')}: {findings.labels[i]} predicted as "
        f"{findings.labels[j]}; show examples",
    }


def _cell_examples(findings: Findings, cell: Cell) -> dict[str, object]:
    """Return the template values of the example texts behind one confusion matrix cell."""
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
