"""Display of tuning trials: a live table and a result table in the terminal, and an HTML page."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from lamatext.atomic_write import write_text
from lamatext.data.read_options import source_title
from lamatext.errors import percent, plural
from lamatext.progress import Progress
from lamatext.trials import (
    FINISHED,
    RUNNING,
    Choice,
    Trial,
    finished_trials,
    pareto_front,
    score_text,
)
from lamatext.views.formatting import duration, file_size, one_line
from lamatext.views.html_templates import REPORT_STYLE, SHARED_STYLE, render_page
from lamatext.views.progress_display import print_note, print_section
from lamatext.views.svg_charts import Chart, Line, value_axis
from lamatext.views.terminal_table import GAP, TerminalTable

COLUMNS = ("trial", "state", "texts", "score", "size", "one text", "time")
BEST, LATEST = 6, 6  # rows of the live table
MIN_SETTINGS = 20  # characters of the settings in the live table, or none


class TrialDisplay(Progress):
    """Live table of tuning trials on stderr, or plain lines if stderr is not a terminal."""

    def __init__(self, deadline: float, *, quiet: bool = False) -> None:
        self._deadline, self._quiet = deadline, quiet
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._trials: list[Trial] = []
        self._shown: set[int] = set()
        self._stage, self._margin = "", ""
        self.metric = "accuracy"

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
            print_note(self._console, text, self._margin)

    def section(self, title: str) -> None:
        """Print a heading above the live table of tuning trials."""
        if not self._quiet:
            print_section(self._console, title, is_first=not self._margin)
            self._margin = "  "

    def show(self, trials: list[Trial]) -> None:
        """Update the live table of tuning trials, or print a line per finished trial."""
        self._trials = trials
        if self._live is not None or self._quiet:
            return
        for trial in trials:
            if trial.state != RUNNING and trial.number not in self._shown:
                self._shown.add(trial.number)
                self.note(trial_line(trial, self.metric))

    def _render(self) -> Group:
        left = max(0.0, self._deadline - time.monotonic())
        footer = f"{duration(left)} left · {plural(len(self._trials), 'trial')} · {self._stage}"
        return Group(self._table(), Text(one_line(footer), style="dim"))

    def _table(self) -> TerminalTable:
        """Return the live table, with as much of the settings as fits next to the numbers."""
        trials = shown_trials(self._trials)
        rows = [trial_cells(trial, self.metric) for trial in trials]
        room = self._console.width - TerminalTable(COLUMNS, rows).width - GAP
        if room < MIN_SETTINGS:
            return TerminalTable(COLUMNS, rows)
        settings = [Text(describe_settings(trial)) for trial in trials]
        for text in settings:
            text.truncate(room, overflow="ellipsis")
        wide = [(*row, text.plain) for row, text in zip(rows, settings, strict=True)]
        return TerminalTable((*COLUMNS, "settings"), wide, texts=1)


def shown_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Select the tuning trials for the live table: the best finished and the latest trials."""
    finished = [trial for trial in trials if trial.state == FINISHED]
    best = sorted(finished, key=lambda trial: -(trial.score or 0.0))[:BEST]
    chosen = {trial.number: trial for trial in [*best, *trials[-LATEST:]]}
    return [chosen[number] for number in sorted(chosen)]


def trial_cells(trial: Trial, metric: str) -> tuple[str, ...]:
    """Format the numbers of a tuning trial as the cells of a table row in the terminal."""
    return (
        str(trial.number),
        trial.state,
        "" if not trial.share else percent(trial.share, 0),
        "" if trial.score is None else score_text(metric, trial.score),
        "" if trial.bytes is None else file_size(trial.bytes),
        "" if trial.latency_ms is None else f"{trial.latency_ms:.3f} ms",
        "" if trial.seconds is None else duration(trial.seconds),
    )


def trial_line(trial: Trial, metric: str) -> str:
    """Format a tuning trial as one line, in which each number is named."""
    number, state, share, score, size, latency, seconds = trial_cells(trial, metric)
    facts = [
        state,
        f"{metric} {score}" if score else "",
        f"with {share} of the texts" if share and trial.share < 1 else "",
        size,
        f"{latency} per text" if latency else "",
        f"in {seconds}" if seconds else "",
    ]
    return f"trial {number}: {', '.join(filter(None, facts))}; {describe_settings(trial)}"


def describe_settings(trial: Trial) -> str:
    """Format the settings of a tuning trial as one line of text, as --set accepts them."""
    if trial.is_default:
        return f"default recipe, seed {trial.seed}"
    return " ".join(f"{name}={_value(value)}" for name, value in trial.settings.items())


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).lower()


def front_and_chosen(front: Sequence[Trial], chosen: Trial) -> list[Trial]:
    """Return the tuning trials on the Pareto front, then the chosen trial if it is not on it."""
    return [*front, *([] if chosen.number in {trial.number for trial in front} else [chosen])]


def front_cells(trial: Trial, chosen: Trial, metric: str) -> tuple[str, ...]:
    """Format the numbers of a trial on the Pareto front as the cells of a table row."""
    return (
        f"{trial.number}{' (chosen)' if trial.number == chosen.number else ''}",
        score_text(metric, trial.score or 0.0),
        file_size(trial.bytes or 0),
        f"{trial.latency_ms:.3f} ms",
    )


def show_front(console: Console, front: Sequence[Trial], chosen: Trial, metric: str) -> None:
    """Print the Pareto front of tuning trials by score, size and latency."""
    trials = front_and_chosen(front, chosen)
    console.print("Pareto front: no other trial is better in score, size and latency at once")
    if len(trials) > len(front):
        console.print(f"The last row is the chosen trial {chosen.number}, which is not on it")
    columns = ("trial", f"validation {metric}", *COLUMNS[4:6])
    console.print(TerminalTable(columns, [front_cells(trial, chosen, metric) for trial in trials]))
    console.print("\nSettings of these trials")
    for trial in trials:
        line = Text(one_line(f"{trial.number}: {describe_settings(trial)}"))
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


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
            _chart(trials, choice.trial, metric, "size"),
            _chart(trials, choice.trial, metric, "latency"),
        ],
        columns=COLUMNS,
        front_size=len(front),
        front=[
            (front_cells(trial, choice.trial, metric), describe_settings(trial))
            for trial in front_and_chosen(front, choice.trial)
        ],
        trials=[(trial_cells(trial, metric), describe_settings(trial)) for trial in trials],
    )
    write_text(out, page)


def _chart(trials: Sequence[Trial], chosen: Trial, metric: str, cost: str) -> Chart:
    """Return the chart of score over size or latency, with a ring around the chosen trial."""
    scale, unit = 1.0, "ms"
    if cost == "size":
        is_small = max((trial.bytes or 0 for trial in trials), default=0) < 1e6
        scale, unit = (1e3, "kB") if is_small else (1e6, "MB")

    def points(shown: Sequence[Trial]) -> list[tuple[float, float]]:
        costs = [((t.bytes if cost == "size" else t.latency_ms) or 0) / scale for t in shown]
        return sorted(zip(costs, [t.score or 0.0 for t in shown], strict=True))

    front = pareto_front(trials)
    others = [trial for trial in finished_trials(trials) if trial not in front]
    everything = points([*others, *front])
    lines = [
        _dots("chosen trial", points([chosen]), kind=2, radius=9.5),
        _dots("Pareto front", points(front), kind=1, radius=5.5),
        _dots("other trials", points(others), kind=4, radius=3.0),
    ]
    return Chart(
        f"chart-{cost}",
        f"{metric} and {cost}",
        f"{plural(len(front), 'trial')} on the Pareto front, {plural(len(others), 'other')}. "
        f"Trial {chosen.number} was chosen.",
        value_axis(f"{cost}, {unit}", [x for x, _ in everything]),
        value_axis(
            f"validation {metric}",
            [y for _, y in everything],
            is_percent=metric == "accuracy",
        ),
        [line for line in lines if line.points],
    )


def _dots(name: str, points: list[tuple[float, float]], *, kind: int, radius: float) -> Line:
    band = [(y, y) for _, y in points]
    return Line(name, points, kind, band=band, radii=[radius] * len(points), only_dots=True)
