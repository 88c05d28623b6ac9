import pyarrow as pa
import pytest

from lamatext.data.time_column import parse_times
from lamatext.errors import DataError


@pytest.mark.parametrize(
    "values",
    [
        ["2025-12-31", "2026-01-01 10:00", "2026-01-01T12:00:00Z", "2026-02-01T00:00:00+02:00"],
        ["31.12.2025", "01.01.2026", "02.01.2026", "01.02.2026"],
        ["12/31/2025", "01/01/2026", "01/02/2026", "02/01/2026"],
        ["31/12/2025", "01/01/2026", "02/01/2026", "01/02/2026"],
        ["31 Dec 2025", "1 Jan 2026", "2 Jan 2026", "1 Feb 2026"],
        ["1767139200", "1767225600", "1767312000.5", "1769904000"],
        ["2019", "2020", "2021", "2026"],
        ["Wed, 31 Dec 2025 10:00:00 +0000", "Thu, 01 Jan 2026 10:00:00 +0000",
         "Fri, 02 Jan 2026 10:00:00 +0000", "Sun, 01 Feb 2026 10:00:00 +0000"],
    ],
)  # fmt: skip
def test_usual_formats_are_in_the_order_of_time(values: list[str]) -> None:
    order = [2, 0, 3, 1]

    times = parse_times(pa.chunked_array([[values[i] for i in order]]), "when", "a.csv")

    assert times is not None
    assert [order[i] for i in times.argsort()] == [0, 1, 2, 3]


def test_a_value_that_is_no_time_is_an_error() -> None:
    column = pa.chunked_array([["2026-01-01", "yesterday"]])

    with pytest.raises(DataError, match=r"a.csv: column 'when' holds 'yesterday', expected times"):
        parse_times(column, "when", "a.csv")
