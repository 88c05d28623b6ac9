"""Formats with one text a line: JSONL, fastText's ``__label__`` lines, plain lines."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NoReturn

import pyarrow as pa

from lamatext.data.readers.compression import Block
from lamatext.data.readers.table import Table
from lamatext.errors import DataError

LABEL_PREFIX = "__label__"

Row = dict[str, object]
Line = tuple[int, str]  # its number, from 1, and its text


class Literal(str):
    """A JSON number as it was written: 1 is "1", 1.0 is "1.0"."""

    __slots__ = ()


_decode = json.JSONDecoder(parse_int=Literal, parse_float=Literal, parse_constant=Literal).decode


def plain_table(name: str, blocks: Iterator[Block]) -> Table:
    """One text a line, in the column ``text``; an empty line is an empty text."""

    def batches(_: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            yield _batch({"text": [text for _, text in _lines(block)]})

    return Table(name, ("text",), batches)


def fasttext_table(name: str, blocks: Iterator[Block]) -> Table:
    """Lines of ``__label__NAME text``, as the columns ``label`` and ``text``."""

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            pairs = [_split_label(name, line) for line in _lines(block) if line[1].strip()]
            columns: Mapping[str, Sequence[str | None]] = {
                "label": [label for label, _ in pairs],
                "text": [text for _, text in pairs],
            }
            yield _batch({column: columns[column] for column in wanted or columns})

    return Table(name, ("label", "text"), batches)


def _split_label(name: str, line: Line) -> tuple[str | None, str]:
    number, text = line
    if not text.startswith(LABEL_PREFIX):
        return None, text
    label, _, rest = text.removeprefix(LABEL_PREFIX).partition(" ")
    if rest.lstrip().startswith(LABEL_PREFIX):
        raise DataError(
            f"{name}:{number}: several labels in one line ({text[:60]!r}); multi-label is not "
            f"supported. Keep one {LABEL_PREFIX} a line."
        )
    return label, rest.lstrip()


def jsonl_table(name: str, blocks: Iterator[Block]) -> Table:
    """One JSON object a line; the columns are the keys of the first block's objects."""
    first = next(blocks, None)
    begun = _objects(name, first) if first else []
    columns = tuple(dict.fromkeys(chain.from_iterable(row for _, row in begun)))
    if not columns:
        raise DataError(f"{name}: the file is empty. Expected one JSON object a line.")

    def batches(wanted: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        write = _any_value if wanted is None else _single_value
        for rows in chain([begun], (_objects(name, block) for block in blocks)):
            if wanted is None:
                _warn_of_new_keys(name, rows, columns)
            yield _batch(
                {
                    column: [write(row.get(column), column, f"{name}:{at}") for at, row in rows]
                    for column in wanted or columns
                }
            )

    return Table(name, columns, batches)


def _objects(name: str, block: Block) -> list[tuple[int, Row]]:
    rows: list[tuple[int, Row]] = []
    for number, line in _lines(block):
        if not line.strip():
            continue
        try:
            row = _decode(line)
        except json.JSONDecodeError as error:
            _refuse(f"{name}:{number}", line, f"{error.msg}, character {error.colno}")
        except RecursionError:
            _refuse(f"{name}:{number}", line, "nested too deeply")
        if not isinstance(row, dict):
            _refuse(f"{name}:{number}", line, "not an object")
        rows.append((number, row))
    return rows


def _refuse(where: str, line: str, fault: str) -> NoReturn:
    if line.strip() in {"[", "{"} or line.lstrip().startswith("[{"):
        raise DataError(
            f"{where}: this is one JSON document, expected one JSON object a line. "
            "Convert it, for example: jq -c '.[]' data.json > data.jsonl."
        )
    raise DataError(
        f'{where}: expected a JSON object such as {{"text": "...", "label": "..."}}, '
        f"got {line.strip()[:60]!r} ({fault})."
    )


def _single_value(value: object, column: str, where: str) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, list | dict):
        raise DataError(
            f"{where}: '{column}' holds {_json(value)[:60]}, expected one value; "
            "multi-label is not supported. Keep one label a row."
        )
    return json.dumps(value)


def _any_value(value: object, _: str, __: str) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    return _json(value)


def _json(value: object) -> str:
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_json(key)}: {_json(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _warn_of_new_keys(name: str, rows: list[tuple[int, Row]], columns: Sequence[str]) -> None:
    known = set(columns)
    for number, row in rows:
        if not known.issuperset(row):
            new = next(key for key in row if key not in known)
            warnings.warn(
                f"{name}:{number}: the key '{new}' is in no row of the file's beginning "
                "and is left out.",
                stacklevel=2,
            )
            return


def _lines(block: Block) -> Iterator[Line]:
    text = block.data.decode().removesuffix("\n")
    for number, line in enumerate(text.split("\n"), start=block.line):
        yield number, line.removesuffix("\r")


def _batch(columns: Mapping[str, Sequence[str | None]]) -> pa.RecordBatch:
    arrays = [_strings(values) for values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _strings(values: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # JSON can escape half a surrogate pair, UTF-8 cannot hold it
        return pa.array([None if v is None else _repaired(v) for v in values], pa.string())


def _repaired(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
