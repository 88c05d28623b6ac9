"""Line charts as inline SVG: axes, lines and coordinates; ``report/macros.html`` draws them.

Lines differ in colour and in dash pattern, so that a chart can be read without colours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 26, 34, 46
MAX_DOTS = 30  # a line of more points is drawn without dots

Point = tuple[float, float]
QUARTERS = (0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an SVG chart, with an optional band from low to high at each point."""

    name: str
    points: Sequence[Point]
    kind: int  # 1 to 4: colour and dash pattern
    band: Sequence[Point] = ()
    radii: Sequence[float] = ()  # of the dots

    @property
    def dots(self) -> list[tuple[Point, float]]:
        """Centre and radius of each dot on the chart's line."""
        default = [3.5] * len(self.points) if len(self.points) < MAX_DOTS else []
        return list(zip(self.points, self.radii or default, strict=False))

    @property
    def band_outline(self) -> list[Point]:
        """Corners of the chart's band: the low edge forwards, then the high edge backwards."""
        xs = [x for x, _ in self.points]
        low = [(x, ends[0]) for x, ends in zip(xs, self.band, strict=True)]
        high = [(x, ends[1]) for x, ends in zip(xs, self.band, strict=True)]
        return low + high[::-1]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an SVG chart: its name, both ends, its ticks and their number format."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]
    form: str = "{:g}"

    def position(self, value: float) -> float:
        """Return where a value lies along the chart's axis, from 0 to 1."""
        return (value - self.low) / ((self.high - self.low) or 1)


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG line chart with its title, a text alternative and its numbers as a table."""

    anchor: str  # its id on the page
    title: str
    description: str  # for readers who cannot see it
    across: Axis
    up: Axis
    lines: Sequence[Line]
    guide: Sequence[Point] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    @property
    def frame(self) -> dict[str, int]:
        """Size and margins of the chart in SVG units."""
        return {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT}

    def x(self, value: float) -> float:
        """Return the horizontal SVG coordinate of a value of the chart."""
        return round(LEFT + self.across.position(value) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the vertical SVG coordinate of a value of the chart."""
        return round(HEIGHT - BOTTOM - self.up.position(value) * (HEIGHT - TOP - BOTTOM), 1)

    def path(self, points: Sequence[Point]) -> str:
        """Return the SVG path through some points of the chart."""
        return "M" + "L".join(f"{self.x(x)},{self.y(y)}" for x, y in points)


def percent_axis(name: str) -> Axis:
    """Return a chart axis from 0 to 100 %."""
    return Axis(name, 0, 1, QUARTERS, "{:.0%}")


def count_axis(name: str, last: int) -> Axis:
    """Return a chart axis of whole numbers from 1 to ``last``."""
    step = max(1, -(-last // 6))
    return Axis(name, 1, max(last, 2), range(1, max(last, 2) + 1, step))


def value_axis(name: str, values: Sequence[float], form: str, *, limit: float = math.inf) -> Axis:
    """Return a chart axis around the values with a margin, never below 0 or above ``limit``."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.1 or abs(high) * 0.1 or 0.1
    low, high = max(low - margin, 0.0), min(high + margin, limit)
    return Axis(name, low, high, [low + (high - low) * part for part in QUARTERS], form)
