"""Line charts as inline SVG: axes, lines and coordinates; ``report/macros.html`` draws them.

Lines differ in colour and in dash pattern, so that a chart can be read without colours.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lamatext.errors import percent
from lamatext.views.formatting import points

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 26, 34, 46
MAX_STEPS = 5  # between the ticks of an axis
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
    """Axis of an SVG chart with name, range, ticks and the format of its numbers."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]
    label: Callable[[float], str] = "{:g}".format

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
    return Axis(name, 0, 1, QUARTERS, _percentages(0.25))


def value_axis(
    name: str, values: Sequence[float], *, is_percent: bool = False, least_step: float = 0.0
) -> Axis:
    """Create an SVG chart axis that fits the values closely, with at most six round ticks.

    It has a tick at each end, and its steps are 1, 2 or 5 times a power of ten.

    Args:
        name: what the axis shows.
        values: the values to fit.
        is_percent: whether they are fractions that are shown in percent, at most 1.
        least_step: the smallest step, so that small differences do not look large.
    """
    low, high = min(values), max(values)
    step = max(_round_step((high - low or abs(high) / 10 or 0.1) / MAX_STEPS), least_step)
    first, last = _cover(low, high, step)
    while last - first > MAX_STEPS:
        step = _round_step(1.1 * step)
        first, last = _cover(low, high, step)
    if first == last:
        first, last = (first - 1, last) if is_percent and high >= 1 else (first, last + 1)
    ticks = [round(count * step, 10) for count in range(first, last + 1)]
    form = _percentages(step) if is_percent else f"{{:.{_decimals(step)}f}}".format
    return Axis(name, ticks[0], ticks[-1], ticks, form)


def cut_axis(name: str, values: Sequence[float], *, is_percent: bool = True) -> Axis:
    """Create an SVG chart axis for fractions, which need not start at 0."""
    return value_axis(name, values, is_percent=is_percent, least_step=0.05)


def difference_axis(name: str, values: Sequence[float]) -> Axis:
    """Create an SVG chart axis in percentage points, with ticks at 0 and at its ends."""
    low, high = min([0.0, *values]), max([0.0, *values])
    step = max(_round_step((high - low or 0.01) / 10), 0.01)
    first, last = _cover(low, high, step)
    low, high = first * step, max(last, first + 1) * step
    return Axis(name, low, high, sorted({low, 0.0, high}), _whole_points)


def count_axis(name: str, last: int) -> Axis:
    """Create an SVG chart axis of whole numbers from 1 to ``last``."""
    step = max(1, -(-last // 6))
    return Axis(name, 1, last, range(1, last + 1, step))


def _round_step(least: float) -> float:
    """Return the smallest step of a chart axis that is not below ``least``: 1, 2 or 5 · 10^k."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def _cover(low: float, high: float, step: float) -> tuple[int, int]:
    """Return the first and the last tick of a chart axis as multiples of its step."""
    return math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)


def _decimals(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _percentages(step: float) -> Callable[[float], str]:
    digits = _decimals(100 * step)
    return lambda value: percent(value, digits)


def _whole_points(value: float) -> str:
    return points(value).removesuffix(".0")
