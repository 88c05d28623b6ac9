import pytest

from lamatext.views.html_templates import render_template
from lamatext.views.svg_charts import Chart, Line, count_axis, cut_axis, percent_axis, value_axis


@pytest.mark.parametrize(
    ("values", "ends"), [([0.5, 0.6], (0.49, 0.61)), ([0.97], (0.873, 1.0)), ([0.0, 1.0], (0, 1))]
)
def test_an_axis_has_a_margin_but_never_passes_its_limit(
    values: list[float], ends: tuple[float, float]
) -> None:
    axis = value_axis("accuracy", values, "{:.1%}", limit=1.0)

    assert (axis.low, axis.high) == pytest.approx(ends)


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
    assert list(count_axis("epoch", 1).ticks) == [1, 2]
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
