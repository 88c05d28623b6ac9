"""JSON columns of a table: columns of JSON text, which JSONL output inserts without quoting it.

Such a column is marked in the metadata of its Arrow field, which Parquet files preserve.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lamatext.errors import DataError

_MARK = {b"lamatext": b"json"}


def json_field(name: str) -> pa.Field:
    """Create the Arrow field of a JSON column, which contains strings and is marked as JSON."""
    return pa.field(name, pa.string(), metadata=_MARK)


def is_json(field: pa.Field) -> bool:
    """Return whether an Arrow field is a JSON column."""
    return (field.metadata or {}).get(b"lamatext") == b"json"


def plain_strings(column: pa.Array) -> pa.Array:
    """Convert a JSON column to plain strings: JSON strings are unquoted, other values stay JSON."""
    values = column.to_pylist()
    return pa.array(
        [json.loads(v) if v is not None and v.startswith('"') else v for v in values], pa.string()
    )


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield each row of a record batch as a JSON object, inserting JSON columns unchanged."""
    names = list(dict.fromkeys(batch.schema.names))
    cells = [_json_values(batch, batch.schema.names.index(name)) for name in names]
    keys = [json.dumps(name, ensure_ascii=False) for name in names]
    for row in zip(*cells, strict=True):
        yield "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, row, strict=True)) + "}"


def _json_values(batch: pa.RecordBatch, position: int) -> Sequence[str]:
    values = _python_values(batch, position)
    if is_json(batch.schema.field(position)):
        return [value or "null" for value in values]
    try:
        return [json.dumps(v, ensure_ascii=False, allow_nan=False, default=str) for v in values]
    except ValueError:  # NaN, which JSON does not have
        return [
            json.dumps(_without_nan(value), ensure_ascii=False, default=str) for value in values
        ]


def _python_values(batch: pa.RecordBatch, position: int) -> list[Any]:
    """Return a column as objects for JSON, or as strings if Python cannot represent its times."""
    column: Any = batch.column(position)
    values: list[Any]
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        values = _as_strings(column, batch.schema.names[position])
    return values


def _as_strings(column: Any, name: str) -> list[Any]:
    try:
        values: list[Any] = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:
        raise DataError(
            f"the column {name!r} has values that cannot be written as JSON. Write CSV or Parquet, "
            "or remove the column."
        ) from None
    return values


def _without_nan(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return value
