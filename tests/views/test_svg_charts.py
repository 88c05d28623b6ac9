import pytest

from lamatext.views.html_templates import render_template
from lamatext.views.svg_charts import (
    Chart,
    Line,
    count_axis,
    cut_axis,
    difference_axis,
    percent_axis,
    value_axis,
)


@pytest.mark.parametrize(
    ("values", "is_percent", "labels"),
    [
        ([0.538, 0.67], True, ["50 %", "55 %", "60 %", "65 %", "70 %"]),
        ([0.953, 0.961], True, ["95.2 %", "95.4 %", "95.6 %", "95.8 %", "96.0 %", "96.2 %"]),
        ([0.97, 1.0], True, ["97 %", "98 %", "99 %", "100 %"]),
        ([1.0], True, ["98 %", "100 %"]),
        ([0.97], False, ["0.96", "0.98"]),
        ([0.107, 0.271], False, ["0.10", "0.15", "0.20", "0.25", "0.30"]),
        ([0.049, 0.052], False, ["0.049", "0.050", "0.051", "0.052"]),
        ([47.7, 401.3], False, ["0", "100", "200", "300", "400", "500"]),
        ([0.0], False, ["0.00", "0.02"]),
        ([0.0, 1.0], True, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
    ],
)
def test_the_ticks_of_an_axis_are_round_and_different(
    values: list[float], is_percent: bool, labels: list[str]
) -> None:
    axis = value_axis("score", values, is_percent=is_percent)

    assert [axis.label(tick) for tick in axis.ticks] == labels
    assert axis.low == axis.ticks[0] <= min(values)
    assert axis.high == axis.ticks[-1] >= max(values)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([-0.074, 0.012], ["−8", "0", "+2"]),
        ([-0.023, -0.004], ["−3", "0"]),
        ([-0.125, 0.158], ["−15", "0", "+20"]),
        ([], ["0", "+1"]),
    ],
)
def test_an_axis_of_differences_is_in_points_and_has_no_empty_half(
    values: list[float], labels: list[str]
) -> None:
    axis = difference_axis("minus lamatext", values)

    assert [axis.label(tick) for tick in axis.ticks] == labels


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.751, 0.803], (0.75, 0.80, 0.85)),
        ([0.41, 1.0], (0.4, 0.6, 0.8, 1.0)),
        ([1.0], (0.95, 1.0)),
        ([0.0, 0.0], (0, 0.05)),
        ([0.03, 0.97], (0, 0.2, 0.4, 0.6, 0.8, 1)),
    ],
)
def test_a_cut_axis_starts_near_the_smallest_value(
    values: list[float], ticks: tuple[float, ...]
) -> None:
    axis = cut_axis("accuracy", values)

    assert tuple(axis.ticks) == pytest.approx(ticks)
    assert (axis.low, axis.high) == (axis.ticks[0], axis.ticks[-1])


def test_an_axis_of_counts_has_a_handful_of_ticks() -> None:
    assert list(count_axis("epoch", 30).ticks) == [1, 6, 11, 16, 21, 26]


def test_values_become_coordinates_inside_the_frame() -> None:
    line = Line("a", [(0, 0), (1, 1)], 1, band=[(0, 0.5), (0.5, 1)])
    chart = Chart("c", "Title", "Description", percent_axis("x"), percent_axis("y"), [line])

    assert chart.path(line.points) == "M60.0,254.0L454.0,34.0"
    assert chart.path(line.band_outline) == "M60.0,254.0L454.0,144.0L454.0,34.0L60.0,144.0"
    assert len(line.dots) == 2


def test_a_line_of_many_points_has_no_dots() -> None:
    assert not Line("a", [(x, x) for x in range(30)], 1).dots
    assert render_template("report/macros.html").strip() == ""
