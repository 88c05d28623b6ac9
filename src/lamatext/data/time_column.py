"""Time columns: conversion of dates and times to seconds, to hold out the newest texts."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lamatext.errors import DataError

# Tried in this order; one of them must fit all values of the column.
_FORMATS = (
    "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%y", "%m/%d/%Y", "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    "%d-%m-%Y", "%d-%m-%Y %H:%M", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y.%m.%d",
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%a, %d %b %Y %H:%M:%S %z",
    "%a %b %d %H:%M:%S %z %Y", "%d/%b/%Y:%H:%M:%S %z",
)  # fmt: skip


def parse_times(
    column: pa.ChunkedArray | None, name: str | None, source: str
) -> NDArray[np.float64] | None:
    """Convert a time column to seconds, assuming UTC for times without a time zone.

    Args:
        column: numbers such as Unix times or years, ISO 8601 times, or dates such as 31.12.2026,
            12/31/2026 or 31/12/2026, all in the same format; for None, the result is None.
        name: the name of the column, for messages.
        source: the name of the file, for messages.

    Raises:
        DataError: no format fits all values.
    """
    if column is None:
        return None
    encoded = pc.dictionary_encode(column.combine_chunks())
    values = [value.strip() for value in encoded.dictionary.to_pylist()]
    parsers: list[Callable[[str], float]] = [float, _parse_iso, *map(_parser, _FORMATS)]
    for parse in parsers:
        try:
            seconds = np.array([parse(value) for value in values])
        except (ValueError, OverflowError, OSError):
            continue
        if np.isfinite(seconds).all():
            times: NDArray[np.float64] = seconds[encoded.indices.to_numpy()]
            return times
    odd = next((value for value in values if not _is_iso(value)), values[0])
    raise DataError(
        f"{source}: column '{name}' holds {odd[:40]!r}, expected times in one format, such as "
        "2026-12-31 or 2026-12-31 23:59, 31.12.2026, 12/31/2026, or numbers."
    )


def _parse_iso(value: str) -> float:
    return _seconds(datetime.fromisoformat(value))


def _parser(format: str) -> Callable[[str], float]:
    return lambda value: _seconds(datetime.strptime(value, format))


def _seconds(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _is_iso(value: str) -> bool:
    try:
        _parse_iso(value)
    except ValueError:
        return False
    return True
