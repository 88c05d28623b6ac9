"""Figures as inline SVG, each with its title, a sentence for those who do not see it, and a table.

Lines differ in colour and in dash, so that neither eyes nor a printer need tell colours apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lamatext.views.markup import Html, details, html, join, table, tag

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 26, 34, 46

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A line and, if known, what it may as well be: low and high of each point."""

    name: str
    points: Sequence[Point]
    kind: int  # 1 to 4: colour and dash
    band: Sequence[Point] = ()
    radii: Sequence[float] = ()  # of its points, where they are drawn


@dataclass(frozen=True, slots=True)
class Axis:
    """A name, the two ends, and where it is marked."""

    name: str
    low: float
    high: float
    marks: Sequence[float]
    form: str = "{:g}"

    def share(self, value: float) -> float:
        """How far along the axis a value lies."""
        return (value - self.low) / ((self.high - self.low) or 1)


@dataclass(frozen=True, slots=True)
class Chart:
    """What a figure shows."""

    anchor: str  # its id on the page
    title: str
    told: str  # the same in words
    across: Axis
    up: Axis
    lines: Sequence[Line]
    guides: Sequence[tuple[Point, Point]] = field(default=())

    def place(self, point: Point) -> str:
        """The point in the drawing."""
        x = LEFT + self.across.share(point[0]) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - self.up.share(point[1]) * (HEIGHT - TOP - BOTTOM)
        return f"{x:.1f},{y:.1f}"


PERCENT = (0, 0.25, 0.5, 0.75, 1.0)


def unit(name: str) -> Axis:
    """From 0 to 100 %."""
    return Axis(name, 0, 1, PERCENT, "{:.0%}")


def steps(name: str, last: int) -> Axis:
    """Whole numbers from 1 on."""
    stride = max(1, -(-last // 6))
    return Axis(name, 1, max(last, 2), range(1, max(last, 2) + 1, stride))


def spread(name: str, values: Sequence[float], form: str, *, most: float = math.inf) -> Axis:
    """From the least to the greatest value, with air around; never below 0 nor above ``most``."""
    low, high = min(values), max(values)
    air = (high - low) * 0.1 or abs(high) * 0.1 or 0.1
    low, high = max(low - air, 0.0), min(high + air, most)
    return Axis(name, low, high, [low + (high - low) * part for part in PERCENT], form)


def figure(
    chart: Chart, *, head: Sequence[object] = (), rows: Sequence[Sequence[object]] = ()
) -> Html:
    """The drawing, a legend where there are several lines, and the figures folded away."""
    drawn = join(
        [*_axes(chart), *_guides(chart), *(_line(chart, line) for line in chart.lines)], ""
    )
    label = f"{chart.anchor}-title {chart.anchor}-desc"
    svg = Html(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{label}">'
        f'<title id="{chart.anchor}-title">{html(chart.title)}</title>'
        f'<desc id="{chart.anchor}-desc">{html(chart.told)}</desc>{drawn}</svg>'
    )
    parts: list[object] = [svg, tag("figcaption", chart.title, *_legend(chart))]
    if rows:
        parts.append(details("The figures as a table", table(head, rows, chart.title)))
    return tag("figure", *parts)


def _axes(chart: Chart) -> list[Html]:
    across, up = chart.across, chart.up
    found = []
    for mark in up.marks:
        x, y = chart.place((across.low, mark)).split(",")
        found.append(Html(
            f'<path class="grid" d="M{x},{y}H{WIDTH - RIGHT}"/>'
            f'<text class="tick" x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">'
            f"{html(up.form.format(mark))}</text>"
        ))  # fmt: skip
    for mark in across.marks:
        x = chart.place((mark, up.low)).split(",")[0]
        found.append(Html(
            f'<text class="tick" x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{html(across.form.format(mark))}</text>"
        ))  # fmt: skip
    found.append(Html(f'<text class="axis" x="4" y="16">{html(up.name)}</text>'))
    middle = (LEFT + WIDTH - RIGHT) / 2
    found.append(Html(
        f'<text class="axis" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{html(across.name)}</text>"
    ))  # fmt: skip
    return found


def _guides(chart: Chart) -> list[Html]:
    return [
        Html(f'<path class="guide" d="M{chart.place(a)}L{chart.place(b)}"/>')
        for a, b in chart.guides
    ]


def _line(chart: Chart, line: Line) -> Html:
    parts = []
    if line.band:
        xs = [x for x, _ in line.points]
        low = [chart.place((x, b[0])) for x, b in zip(xs, line.band, strict=True)]
        high = [chart.place((x, b[1])) for x, b in zip(xs, line.band, strict=True)]
        shape = "L".join(low + high[::-1])
        parts.append(f'<path class="band k{line.kind}" d="M{shape}Z"/>')
    way = "L".join(chart.place(point) for point in line.points)
    parts.append(f'<path class="line k{line.kind}" d="M{way}"/>')
    radii = line.radii or ([3.5] * len(line.points) if len(line.points) < 30 else [])
    for point, radius in zip(line.points, radii, strict=False):
        x, y = chart.place(point).split(",")
        parts.append(f'<circle class="dot k{line.kind}" cx="{x}" cy="{y}" r="{radius:.1f}"/>')
    return Html("".join(parts))


def _legend(chart: Chart) -> list[Html]:
    if len(chart.lines) < 2:
        return []
    keys = [
        tag(
            "li",
            Html(
                '<svg class="key" viewBox="0 0 28 10" aria-hidden="true">'
                f'<path class="line k{line.kind}" d="M1,5H27"/></svg>'
            ),
            line.name,
        )
        for line in chart.lines
    ]
    return [tag("ul", *keys, class_="legend")]
