"""Tuning page: the trials of a hyperparameter search and their Pareto front, as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from lamatext.atomic_write import write_text
from lamatext.data.read_options import source_title
from lamatext.plurals import plural
from lamatext.trials import Choice, Trial, finished_trials, pareto_front
from lamatext.views.html_assets import REPORT_STYLE, SHARED_STYLE
from lamatext.views.html_templates import render_page
from lamatext.views.svg_charts import Chart, Line, value_axis
from lamatext.views.terminal_trials import COLUMNS, front_rows, trial_cells


def write_tuning_page(
    trials: Sequence[Trial], choice: Choice, metric: str, source: str, out: Path
) -> None:
    """Write the HTML page of a hyperparameter search to the file ``out``.

    Args:
        trials: all trials of the study.
        choice: the chosen trial and the verdict.
        metric: name of the validation score.
        source: name of the data.
        out: the file.
    """
    front = pareto_front(trials)
    page = render_page(
        "tuning_page.html",
        styles=(SHARED_STYLE, REPORT_STYLE),
        title=f"{source_title(source)}: search for settings",
        source=source,
        metric=metric,
        choice=choice,
        charts=[
            _chart(trials, front, metric, "size"),
            _chart(trials, front, metric, "latency"),
        ],
        columns=COLUMNS,
        front=front_rows(front, choice.trial),
        trials=[trial_cells(trial) for trial in trials],
    )
    write_text(out, page)


def _chart(trials: Sequence[Trial], front: Sequence[Trial], metric: str, cost: str) -> Chart:
    """Return the tuning page's chart of score against size or latency of the trials."""
    scale, unit, form = 1.0, "ms", "{:.2f}"
    if cost == "size":
        is_small = max((trial.bytes or 0 for trial in trials), default=0) < 1e6
        scale, unit, form = (1e3, "kB", "{:.1f}") if is_small else (1e6, "MB", "{:.1f}")

    def points(chosen: Sequence[Trial]) -> list[tuple[float, float]]:
        costs = [((t.bytes if cost == "size" else t.latency_ms) or 0) / scale for t in chosen]
        return sorted(zip(costs, [t.score or 0.0 for t in chosen], strict=True))

    others = [trial for trial in finished_trials(trials) if trial not in front]
    everything = points([*others, *front])
    lines = [
        _dots("Pareto front", points(front), kind=1, radius=5.5),
        _dots("other trials", points(others), kind=4, radius=3.0),
    ]
    return Chart(
        f"chart-{cost}",
        f"{metric} and {cost}",
        f"{plural(len(front), 'trial')} on the Pareto front, {plural(len(others), 'other')}.",
        value_axis(f"{cost}, {unit}", [x for x, _ in everything], form),
        value_axis(f"validation {metric}", [y for _, y in everything], "{:.1%}", limit=1.0),
        [line for line in lines if line.points],
    )


def _dots(name: str, points: list[tuple[float, float]], *, kind: int, radius: float) -> Line:
    band = [(y, y) for _, y in points]
    return Line(name, points, kind, band=band, radii=[radius] * len(points), only_dots=True)
