"""Comparison page: models compared on the same test texts, as one self-contained HTML file."""

from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.comparison import ComparedRow, Comparison, GroupRow
from lamatext.data.read_options import source_title
from lamatext.views.formatting import duration, file_size, points
from lamatext.views.html_assets import REPORT_STYLE, SHARED_STYLE
from lamatext.views.html_templates import render_page
from lamatext.views.svg_charts import difference_axis
from lamatext.views.terminal_comparison import interval_text, score_text, winner_text


def write_comparison_page(comparison: Comparison, out: Path) -> None:
    """Write the HTML page of a comparison of models to the file ``out``."""
    write_text(out, comparison_page(comparison))


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML of the comparison page: leaderboard, costs and scores by group of texts."""
    first, _ = comparison.metrics
    ends = [
        end
        for row in comparison.rows[1:]
        for gap in row.differences.values()
        for end in (gap.low, gap.high)
    ]
    rows = sorted(comparison.rows, key=lambda row: -row.scores[first])
    own = comparison.rows[0].model
    return render_page(
        "comparison_page.html",
        styles=(SHARED_STYLE, REPORT_STYLE),
        title=f"{source_title(comparison.source)}: comparison of models",
        comparison=comparison,
        own=own,
        models=tuple(row.model for row in comparison.rows),
        verdicts=comparison.verdicts(),
        axis=difference_axis(f"minus {own}", ends),
        rows=[_row_values(comparison, row) for row in rows],
        notes=[row.note for row in rows if row.note],
        kinds=[
            _kind_values(comparison, kind)
            for kind in dict.fromkeys(group.kind for group in comparison.groups)
        ],
    )


def _row_values(comparison: Comparison, row: ComparedRow) -> dict[str, object]:
    first, second = comparison.metrics
    gap = row.differences.get(first)
    return {
        "model": row.model,
        "first": score_text(first, row.scores[first]),
        "second": score_text(second, row.scores[second]),
        "difference": "" if gap is None else points(gap.value),
        "interval": "" if gap is None else interval_text(gap),
        "gap": gap,
        "result": "" if gap is None else _result(gap.is_tie, gap.value),
        "training": "–" if row.seconds is None else duration(row.seconds),
        "size": file_size(row.bytes),
        "latency": f"{row.latency_ms:.2f} ms",
    }


def _result(is_tie: bool, value: float) -> str:
    if is_tie:
        return "tie"
    return "ahead" if value > 0 else "behind"


def _kind_values(comparison: Comparison, kind: str) -> dict[str, object]:
    """Return the template values of one table on the comparison page, such as texts by length."""
    metric = "F1" if kind == "class" else comparison.metrics[0]
    groups = [group for group in comparison.groups if group.kind == kind]
    return {
        "kind": kind,
        "metric": metric,
        "rows": [_group_values(comparison, group, metric) for group in groups],
    }


def _group_values(comparison: Comparison, group: GroupRow, metric: str) -> dict[str, object]:
    names = [row.model for row in comparison.rows]
    scores = [
        (score_text(metric, value), group.winners == [name])
        for name, value in zip(names, group.scores, strict=True)
    ]
    return {
        "name": group.name,
        "texts": group.texts,
        "scores": scores,
        "winner": winner_text(group.winners, len(names)),
    }
