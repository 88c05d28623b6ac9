"""Comparison of models in the terminal and as an HTML page: leaderboard, verdicts, text groups."""

from pathlib import Path

from rich.console import Console

from lamatext.atomic_write import write_text
from lamatext.comparison import ComparedRow, Comparison, Difference, GroupRow
from lamatext.data.read_options import source_title
from lamatext.errors import percent, plural
from lamatext.views.formatting import duration, file_size, one_line, points
from lamatext.views.html_templates import REPORT_STYLE, SHARED_STYLE, render_page
from lamatext.views.svg_charts import difference_axis
from lamatext.views.terminal_table import TerminalTable


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison of models to the terminal, best model first."""
    first, second = comparison.metrics
    own = comparison.rows[0].model
    columns = (
        *("model", first, f"minus {own}", "95 % interval", second, "training", "size"),
        "one text",
    )
    rows = sorted(comparison.rows, key=lambda row: -row.scores[first])
    cells = [_cells(row, first, second) for row in rows]
    console.print(TerminalTable(columns, cells))
    tested = f"{plural(comparison.texts, 'test text')} of {comparison.source}"
    if comparison.folds:
        tested = (
            f"{comparison.folds}-fold cross-validation on all {plural(comparison.texts, 'text')}"
        )
    console.print(
        one_line(f"Scores: {tested}. Intervals: paired bootstrap over the texts."), markup=False
    )
    console.print()
    for sentence in [*comparison.verdicts(), *(row.note for row in rows if row.note)]:
        console.print(one_line(sentence), markup=False)
    _show_groups(console, comparison)


def _cells(row: ComparedRow, first: str, second: str) -> tuple[str, ...]:
    gap = row.differences.get(first)
    return (
        row.model,
        score_text(first, row.scores[first]),
        "" if gap is None else points(gap.value),
        "" if gap is None else interval_text(gap),
        score_text(second, row.scores[second]),
        "–" if row.seconds is None else duration(row.seconds),
        file_size(row.bytes),
        f"{row.latency_ms:.2f} ms",
    )


def interval_text(difference: Difference) -> str:
    """Format the confidence interval of the difference between two compared models."""
    return f"{points(difference.low)} to {points(difference.high)}"


def score_text(metric: str, value: float) -> str:
    """Format a score of a compared model: accuracy in percent, F1 as a fraction."""
    return percent(value) if metric == "accuracy" else f"{value:.3f}"


def winner_text(winners: list[str], models: int) -> str:
    """Format the winner (or a tie) of a comparison on one group of texts."""
    if len(winners) == 1:
        return winners[0]
    return "tie" if len(winners) == models else f"tie of {', '.join(winners)}"


def _show_groups(console: Console, comparison: Comparison) -> None:
    """Print tables that compare the models by text length, unknown words and class."""
    names = [row.model for row in comparison.rows]
    for kind in dict.fromkeys(group.kind for group in comparison.groups):
        metric = "F1" if kind == "class" else comparison.metrics[0]
        rows = [
            (
                group.name,
                f"{group.texts:,}",
                *(score_text(metric, value) for value in group.scores),
                winner_text(group.winners, len(names)),
            )
            for group in comparison.groups
            if group.kind == kind
        ]
        console.print()
        columns = (f"{metric} by {kind}", "texts", *names, "winner")
        console.print(TerminalTable(columns, rows, texts=1))
    console.print(
        f"\nOf {len(comparison.groups)} kinds of texts, about one in 20 shows a winner by chance.",
        markup=False,
    )


def write_comparison_page(comparison: Comparison, out: Path) -> None:
    """Write the HTML page of a comparison of models to the file ``out``."""
    write_text(out, comparison_page(comparison))


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison, with leaderboard, costs and scores by group."""
    first, _ = comparison.metrics
    gaps = [row.differences[first] for row in comparison.rows if first in row.differences]
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
        axis=difference_axis(f"minus {own}", [end for gap in gaps for end in (gap.low, gap.high)]),
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
