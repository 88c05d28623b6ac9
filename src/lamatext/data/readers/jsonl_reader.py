"""JSONL reader: one JSON object per line becomes one table row; nested keys are dotted paths."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NoReturn

import pyarrow as pa

from lamatext.data.readers.input_files import Block
from lamatext.data.readers.json_columns import json_field
from lamatext.data.readers.label_columns import LABEL_LISTS
from lamatext.data.readers.read_log import ReadLog
from lamatext.data.readers.table import Table
from lamatext.data.readers.text_lines_reader import usable_lines
from lamatext.errors import DataError

Row = dict[str, object]
Convert = Callable[[object, str, str], str | list[str | None] | None]
MAX_ARRAY = 1 << 28  # bytes of a file that is one JSON array
_MAX_SPARSE = 50  # cells of the table per value in the file
_MAX_DEPTH = 10  # of nested objects whose values are columns; deeper ones are written as JSON


class Literal(str):
    """JSON number as a string, exactly as written in the JSONL file (such as "1" or "1.0")."""

    __slots__ = ()


# NaN and infinities are not JSON, but Python writes them: NaN for a missing value.
_decode = json.JSONDecoder(
    parse_int=Literal,
    parse_float=Literal,
    parse_constant=lambda name: None if name == "NaN" else Literal(name),
).decode


def jsonl_table(name: str, blocks: Iterator[Block], log: ReadLog) -> Table:
    """Open a JSONL file as a table with one row per line.

    The columns are the keys that occur in the first block of lines with objects. The values of a
    nested object are columns of their own, named by their dotted path: ``ticket.body``.
    """
    first_block = next(blocks, Block(b"", 1))
    if first_block.data.lstrip().startswith(b"["):
        first_rows = _parse_array(first_block, blocks, log)
    else:
        parsed = (_parse_rows(block, log, is_first=True) for block in chain([first_block], blocks))
        first_rows = next(filter(None, parsed), [])
    if not first_rows:
        log.check_bad_rows(log.bad_rows)
    columns = _columns_of(first_rows, name)

    def read(names: Sequence[str], convert: Convert) -> Iterator[pa.RecordBatch]:
        for rows in chain([first_rows], (_parse_rows(block, log) for block in blocks)):
            if convert in (_any_value, _json_value):
                _warn_of_new_keys(name, rows, columns)
            log.line_of = [number for number, _ in rows].__getitem__
            arrays = [
                _string_array(
                    [convert(row.get(key), key, log.place(number)) for number, row in rows]
                )
                for key in names
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return read(wanted or columns, _any_value if wanted is None else _ValueOrList().convert)

    def typed_batches(format: str) -> Iterator[pa.RecordBatch] | None:
        schema = pa.schema([json_field(column) for column in columns])
        rows = read(columns, _json_value)
        typed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
        return typed if format == "jsonl" else None

    return Table(name, columns, batches, log, typed_batches)


def _columns_of(first_rows: list[tuple[int, Row]], name: str) -> tuple[str, ...]:
    """Return the column names of a JSONL file, which are the keys in its first block."""
    columns = tuple(dict.fromkeys(chain.from_iterable(row for _, row in first_rows)))
    if not columns:
        raise DataError(f"{name}: the file is empty. Expected one JSON object per line.")
    values = sum(len(row) for _, row in first_rows)
    if len(columns) * len(first_rows) > _MAX_SPARSE * (values + 10_000):
        raise DataError(
            f"{name}: {len(columns):,} different keys in the first {len(first_rows):,} objects, "
            "expected about the same keys in each. Leave out keys that vary, such as ids."
        )
    return columns


def _parse_rows(block: Block, log: ReadLog, *, is_first: bool = False) -> list[tuple[int, Row]]:
    """Parse the lines of a JSONL block into objects with their line numbers.

    The first line of a file must be an object; other lines may be skipped if the log allows it.
    """
    rows: list[tuple[int, Row]] = []
    for number, line in usable_lines(block, log):
        if not line.strip():
            continue
        row, fault = _parse_line(line)
        if row is None:
            if is_first and not rows:
                _reject(f"{log.name}:{number}", line, fault)
            log.skip_row(
                number,
                "expected a JSON object",
                f' such as {{"text": "...", "label": "..."}}, got {line.strip()[:60]!r} ({fault}).',
            )
            continue
        if "\\u" in line:
            row = _repaired(row)
        rows.append((number, row))
    return rows


def _parse_array(first: Block, blocks: Iterator[Block], log: ReadLog) -> list[tuple[int, Row]]:
    """Parse a file that is one JSON array of objects, not JSONL, and return the numbered rows."""
    data = bytearray(first.data)
    for block in blocks:
        data += block.data
        if len(data) > MAX_ARRAY:
            raise DataError(
                f"{log.name}: a JSON array of more than {MAX_ARRAY >> 20} MB, expected one JSON "
                "object per line. Convert it, for example: jq -c '.[]' data.json > data.jsonl."
            )
    log.unit = "row"
    try:
        items = _decode(data.decode())
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(
            f"{log.name}: not a JSON array ({error}). Expected a list of objects, or one JSON "
            "object per line."
        ) from None
    rows = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            rows.append((number, _repaired(_with_dotted_paths(item))))
        else:
            log.skip_row(number, "expected a JSON object", f", got {str(item)[:60]!r}.")
    return rows


def _repaired(row: Row) -> Row:
    return {_repair(key): value for key, value in row.items()}


def _with_dotted_paths(row: Row) -> Row:
    """Flatten the nested objects of a JSONL row, using their dotted paths as keys."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    return dict(_dotted(row, "", _MAX_DEPTH)) | {
        key: value for key, value in row.items() if not isinstance(value, dict)
    }


def _parse_line(line: str) -> tuple[Row | None, str]:
    """Parse a line of a JSONL file into an object, with nested keys as dotted paths.

    If the line is not an object, return None and the reason.
    """
    try:
        row = _decode(line)
    except json.JSONDecodeError as error:
        return None, f"{error.msg}, character {error.colno}"
    except RecursionError:
        return None, "nested too deeply"
    if not isinstance(row, dict):
        return None, "not an object"
    return _with_dotted_paths(row), ""


def _dotted(row: Row, prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the values of a nested JSON object with their dotted paths."""
    for key, value in row.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from _dotted(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def _reject(where: str, line: str, fault: str) -> NoReturn:
    if line.strip() == "{":
        raise DataError(
            f"{where}: this is one JSON document, expected one JSON object per line. "
            "Convert it, for example: jq -c . data.json > data.jsonl."
        )
    raise DataError(
        f'{where}: expected a JSON object such as {{"text": "...", "label": "..."}}, '
        f"got {line.strip()[:60]!r} ({fault})."
    )


class _ValueOrList:
    """Converter of JSONL values to strings, or to lists of strings if a column contains lists."""

    def __init__(self) -> None:
        self._holds_lists: dict[str, bool] = {}  # by key, decided by its first value

    def convert(self, value: object, key: str, where: str) -> str | list[str | None] | None:
        """Convert a JSONL value; raise DataError for an object or a mix of values and lists."""
        if value is None:
            return None
        is_list = isinstance(value, list)
        if is_list != self._holds_lists.setdefault(key, is_list):
            raise DataError(
                f"{where}: '{key}' holds {_as_json(value, key, where)[:60]}, but the rows before "
                f"hold {'one value' if is_list else 'lists'}. Write one value in every row or, "
                "if these are labels, a list in every row."
            )
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, list | dict) for item in items):
            raise DataError(
                f"{where}: '{key}' holds {_as_json(value, key, where)[:60]}, expected one value "
                "or a list of labels. Copy what is needed from it into a field of its own."
            )
        strings = [_any_value(item, key, where) for item in items]
        return strings if is_list else strings[0]


def _any_value(value: object, key: str, where: str) -> str | None:
    return value if isinstance(value, str) or value is None else _as_json(value, key, where)


def _json_value(value: object, key: str, where: str) -> str | None:
    return None if value is None else _as_json(value, key, where)


def _as_json(value: object, key: str, where: str) -> str:
    try:
        return _to_json(value)
    except RecursionError:
        raise DataError(f"{where}: '{key}' is nested too deeply. Leave it out.") from None


def _to_json(value: object) -> str:
    """Serialize a value from a JSONL file to JSON, with numbers exactly as they were written."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_to_json, value))}]"
    if isinstance(value, dict):
        items = (f"{_to_json(key)}: {_to_json(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    return json.dumps(value, ensure_ascii=False)


def _warn_of_new_keys(name: str, rows: list[tuple[int, Row]], columns: Sequence[str]) -> None:
    known = set(columns)
    for number, row in rows:
        if not known.issuperset(row):
            new = next(key for key in row if key not in known)
            warnings.warn(
                f"{name}:{number}: the key '{new}' does not occur at the beginning of the file "
                "and is left out.",
                stacklevel=2,
            )
            return


def _string_array(values: Sequence[str | list[str | None] | None]) -> pa.Array:
    kind = LABEL_LISTS if any(isinstance(value, list) for value in values) else pa.string()
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_repair_all(value) for value in values], kind)


def _repair_all(value: str | list[str | None] | None) -> str | list[str | None] | None:
    if isinstance(value, list):
        return [None if item is None else _repair(item) for item in value]
    return None if value is None else _repair(value)


def _repair(text: str) -> str:
    """Replace lone surrogates in a JSON string with U+FFFD, since UTF-8 cannot encode them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
