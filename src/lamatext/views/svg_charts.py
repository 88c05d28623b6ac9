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
    """Line in an SVG chart, with an optional shaded band around it."""

    name: str
    points: Sequence[Point]
    kind: int  # 1 to 4: colour and dash pattern
    band: Sequence[Point] = ()
    radii: Sequence[float] = ()  # of the dots
    only_dots: bool = False  # no line; the band is drawn as an interval around each dot

    @property
    def dots(self) -> list[tuple[Point, float]]:
        """Centre and radius of each dot on a line in the SVG chart."""
        default = [3.5] * len(self.points) if len(self.points) < MAX_DOTS else []
        return list(zip(self.points, self.radii or default, strict=False))

    @property
    def intervals(self) -> list[tuple[Point, Point]]:
        """Data points of a line in the SVG chart, each with its error bar."""
        return list(zip(self.points, self.band, strict=True))

    @property
    def band_outline(self) -> list[Point]:
        """Outline of the shaded band in the SVG chart, as a closed sequence of points."""
        xs = [x for x, _ in self.points]
        low = [(x, ends[0]) for x, ends in zip(xs, self.band, strict=True)]
        high = [(x, ends[1]) for x, ends in zip(xs, self.band, strict=True)]
        return low + high[::-1]


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of an SVG chart with name, range, ticks and number format."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]
    form: str = "{:g}"

    def position(self, value: float) -> float:
        """Return the relative position of a value on the chart axis, from 0 to 1."""
        return (value - self.low) / ((self.high - self.low) or 1)


@dataclass(frozen=True, slots=True)
class Chart:
    """SVG line chart with a title, a text description and its data as a table."""

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
        """Convert a value on the chart's horizontal axis to an SVG x coordinate."""
        return round(LEFT + self.across.position(value) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Convert a value on the chart's vertical axis to an SVG y coordinate."""
        return round(HEIGHT - BOTTOM - self.up.position(value) * (HEIGHT - TOP - BOTTOM), 1)

    def path(self, points: Sequence[Point]) -> str:
        """Return the SVG path data of a line through the given points of the chart."""
        return "M" + "L".join(f"{self.x(x)},{self.y(y)}" for x, y in points)


def percent_axis(name: str) -> Axis:
    """Create an SVG chart axis from 0 to 100 %."""
    return Axis(name, 0, 1, QUARTERS, "{:.0%}")


def cut_axis(name: str, values: Sequence[float], form: str = "{:.0%}") -> Axis:
    """Create an SVG chart axis for fractions, with a range that fits the values closely.

    It has at most six ticks, including one at each end.
    """
    for step in (5, 10, 20, 25):  # percent
        low = math.floor(100 * min(values) / step + 1e-9) * step
        high = math.ceil(100 * max(values) / step - 1e-9) * step
        if high <= low:
            low, high = (low - step, low) if low >= 100 else (low, low + step)
        if (high - low) / step <= 5:
            break
    ticks = [tick / 100 for tick in range(low, high + 1, step)]
    return Axis(name, low / 100, high / 100, ticks, form)


def difference_axis(name: str, values: Sequence[float]) -> Axis:
    """Create an SVG chart axis in percentage points with 0 in the middle."""
    largest = max((abs(value) for value in values), default=0.01)
    limit = max(0.01, math.ceil(100 * largest) / 100)
    return Axis(name, -limit, limit, (-limit, 0.0, limit), "{:+.0%}")


def count_axis(name: str, last: int) -> Axis:
    """Create an SVG chart axis of whole numbers from 1 to ``last``."""
    step = max(1, -(-last // 6))
    return Axis(name, 1, max(last, 2), range(1, max(last, 2) + 1, step))


def value_axis(name: str, values: Sequence[float], form: str, *, limit: float = math.inf) -> Axis:
    """Create an SVG chart axis with a margin around the values, between 0 and ``limit``."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.1 or abs(high) * 0.1 or 0.1
    low, high = max(low - margin, 0.0), min(high + margin, limit)
    return Axis(name, low, high, [low + (high - low) * part for part in QUARTERS], form)
