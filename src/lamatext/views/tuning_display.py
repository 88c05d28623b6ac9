"""Display of tuning trials: a live table and a result table in the terminal, and an HTML page."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from lamatext.atomic_write import write_text
from lamatext.data.read_options import source_title
from lamatext.errors import plural
from lamatext.progress import Progress
from lamatext.trials import FINISHED, RUNNING, Choice, Trial, finished_trials, pareto_front
from lamatext.views.formatting import duration, file_size, one_line
from lamatext.views.html_templates import REPORT_STYLE, SHARED_STYLE, render_page
from lamatext.views.svg_charts import Chart, Line, value_axis
from lamatext.views.terminal_table import TerminalTable

COLUMNS = ("trial", "state", "texts", "score", "size", "one text", "time", "settings")
BEST, LATEST = 6, 6  # rows of the live table


class TrialDisplay(Progress):
    """Live table of tuning trials on stderr, or plain lines if stderr is not a terminal."""

    def __init__(self, deadline: float, *, quiet: bool = False) -> None:
        self._deadline, self._quiet = deadline, quiet
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._trials: list[Trial] = []
        self._shown: set[int] = set()
        self._stage = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(
                get_renderable=self._render,
                console=self._console,
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, name: str, total: int | None = None) -> None:  # noqa: ARG002 - no bar
        """Show the current stage of the tuning run below the live table of trials."""
        self._stage = name

    def note(self, text: str) -> None:
        """Print a line of text above the live table of tuning trials."""
        if not self._quiet:
            self._console.print(one_line(text), markup=False, soft_wrap=True)

    def section(self, title: str) -> None:
        """Print a heading above the live table of tuning trials."""
        if not self._quiet:
            self._console.print(one_line(title), markup=False, style="bold")

    def show(self, trials: list[Trial]) -> None:
        """Update the live table of tuning trials, or print a line per finished trial."""
        self._trials = trials
        if self._live is not None or self._quiet:
            return
        for trial in trials:
            if trial.state != RUNNING and trial.number not in self._shown:
                self._shown.add(trial.number)
                number, *cells, settings = trial_cells(trial)
                line = f"trial {number}: {', '.join(filter(None, cells))}; {settings}"
                self._console.print(one_line(line), markup=False, soft_wrap=True)

    def _render(self) -> Group:
        left = max(0.0, self._deadline - time.monotonic())
        rows = [trial_cells(trial) for trial in shown_trials(self._trials)]
        footer = f"{duration(left)} left · {plural(len(self._trials), 'trial')} · {self._stage}"
        return Group(TerminalTable(COLUMNS, rows), Text(one_line(footer), style="dim"))


def shown_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Select the tuning trials for the live table: the best finished and the latest trials."""
    finished = [trial for trial in trials if trial.state == FINISHED]
    best = sorted(finished, key=lambda trial: -(trial.score or 0.0))[:BEST]
    chosen = {trial.number: trial for trial in [*best, *trials[-LATEST:]]}
    return [chosen[number] for number in sorted(chosen)]


def trial_cells(trial: Trial) -> tuple[str, ...]:
    """Format a tuning trial as the cells of a table row in the terminal."""
    return (
        str(trial.number),
        trial.state,
        "" if not trial.share else f"{trial.share:.0%}",
        "" if trial.score is None else f"{trial.score:.4f}",
        "" if trial.bytes is None else file_size(trial.bytes),
        "" if trial.latency_ms is None else f"{trial.latency_ms:.3f} ms",
        "" if trial.seconds is None else duration(trial.seconds),
        describe_settings(trial),
    )


def describe_settings(trial: Trial) -> str:
    """Format the settings of a tuning trial as one line of text."""
    if trial.is_default:
        return f"default recipe, seed {trial.seed}"
    pairs = [(name.partition("."), value) for name, value in trial.settings.items()]
    return " ".join(
        f"{'ngrams.' if table == 'ngrams' else ''}{name}={_value(value)}"
        for (table, _, name), value in pairs
    )


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower()


def front_rows(front: Sequence[Trial], chosen: Trial) -> list[tuple[str, ...]]:
    """Return table rows for the Pareto front of a tuning run, including the chosen trial."""
    others = [] if any(trial.number == chosen.number for trial in front) else [chosen]
    return [
        (
            f"{trial.number}{' (chosen)' if trial.number == chosen.number else ''}",
            f"{trial.score:.4f}",
            file_size(trial.bytes or 0),
            f"{trial.latency_ms:.3f} ms",
            describe_settings(trial),
        )
        for trial in [*front, *others]
    ]


def show_front(console: Console, front: Sequence[Trial], chosen: Trial, metric: str) -> None:
    """Print the Pareto front of tuning trials by score, size and latency."""
    console.print("Pareto front: no other trial is better in score, size and latency at once")
    columns = ("trial", f"validation {metric}", *COLUMNS[4:6], "settings")
    console.print(TerminalTable(columns, front_rows(front, chosen)))


def write_tuning_page(
    trials: Sequence[Trial], choice: Choice, metric: str, source: str, out: Path
) -> None:
    """Write an HTML page about a tuning run with all trials and the chosen settings."""
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
