"""JSON types of the values in ``config.json`` and ``metrics.json``, checked before use."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lamatext.data.text_sketch import TextSketch
from lamatext.errors import ModelError
from lamatext.outliers import STEPS

_LIMIT = 1 << 63  # whole numbers of the saved files fit into 64 bits


class _JsonType(NamedTuple):
    """JSON type of a field: its name in error messages and a function that tests a value."""

    name: str
    matches: Callable[[object], bool]


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < _LIMIT


def _is_sketch(value: object) -> bool:
    with suppress(ValueError):
        return bool(TextSketch.from_json(value))
    return False


def _is_encoding(value: object) -> bool:
    with suppress(LookupError, ValueError):
        return isinstance(value, str) and bool("a".encode(value))
    return False


def _is_separator(value: object) -> bool:
    if not isinstance(value, str):
        return value is None
    return len(value) == 1 and value.isascii() and (value == "\t" or value.isprintable())


def _is_time(value: object) -> bool:
    with suppress(ValueError):
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    return False


NUMBER = _JsonType("a number", _is_number)
FINITE = _JsonType("a finite number", lambda v: _is_number(v) and math.isfinite(v))  # type: ignore[arg-type]
FRACTION = _JsonType("a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1)  # type: ignore[operator]
ABSENT = _JsonType("absent from a multi-label model", lambda _: False)
SHARE_OF_NOISE = _JsonType(
    "a number of at least 0 and below 0.5",  # so that the most probable class stays the same
    lambda v: _is_number(v) and 0 <= v < 0.5,  # type: ignore[operator]
)
COUNT = _JsonType(
    "a whole number of at least 0", lambda v: _is_number(v) and isinstance(v, int) and v >= 0
)
STRING = _JsonType("a string", lambda v: isinstance(v, str))
INTERVAL = _JsonType(
    "a list of two numbers from 0 to 1",
    lambda v: isinstance(v, list) and len(v) == 2 and all(map(FRACTION.matches, v)),
)
INTERVAL_OR_NULL = _JsonType(
    "a list of two numbers from 0 to 1, or null", lambda v: v is None or INTERVAL.matches(v)
)
LIST = _JsonType("a list", lambda v: isinstance(v, list))
OBJECT = _JsonType("an object", lambda v: isinstance(v, dict))
TIME = _JsonType("a time such as 2026-11-16T03:00:00Z", _is_time)
STRINGS = _JsonType(
    "a list of strings",
    lambda v: isinstance(v, list) and bool(v) and all(isinstance(item, str) for item in v),
)
DISTINCT_STRINGS = _JsonType(
    "a list of distinct strings",
    lambda v: STRINGS.matches(v) and len(set(v)) == len(v),  # type: ignore[arg-type, call-overload]
)
ROWS = _JsonType(
    "a list of whole numbers of at least 0",
    lambda v: isinstance(v, list) and all(map(COUNT.matches, v)),
)
STRING_OR_NULL = _JsonType("a string or null", lambda v: v is None or isinstance(v, str))
NUMBER_OR_NULL = _JsonType("a number or null", lambda v: v is None or _is_number(v))
SKETCH = _JsonType("a sketch of the training texts", _is_sketch)
BOOL = _JsonType("true or false", lambda v: isinstance(v, bool))

ENCODING = _JsonType("a text encoding", _is_encoding)
SEPARATOR = _JsonType("one ASCII character or null", _is_separator)
QUOTE = _JsonType("a quote or empty", lambda v: v in ('"', "'", ""))

_Fields = Mapping[str, "_Schema"]


class _Object(NamedTuple):
    """Schema of a JSON object in a saved model's files, with required and optional fields."""

    required: _Fields
    optional: _Fields
    is_closed: bool = False  # whether other fields are errors


_Schema: TypeAlias = "_JsonType | _Object | list[_Schema]"  # a list holds the schema of its items

_DATA: _Fields = {
    "source": STRING,
    "texts": COUNT,
    "fingerprint": STRING,
    "training_texts": COUNT,
    "validation_texts": COUNT,
    "test_texts": COUNT,
    "unlabelled_texts": COUNT,
    "folds": COUNT,
    "lesson": STRING,
    "test_source": STRING,
    "test_fingerprint": STRING,
    "validation_fingerprint": STRING,
    "left_out_rows": ROWS,
    "moved_rows": ROWS,
    "sketch": SKETCH,
}
_LAYOUT: _Fields = {
    "text_columns": DISTINCT_STRINGS,
    "label_columns": DISTINCT_STRINGS,
    "label_separator": STRING_OR_NULL,
    "format": STRING_OR_NULL,
    "encoding": ENCODING,
    "separator": SEPARATOR,
    "quote": QUOTE,
    "header": BOOL,
    "merge_labels": BOOL,
    "group_column": STRING_OR_NULL,
    "time_column": STRING_OR_NULL,
}
_ANCESTOR: _Fields = {
    "hash": STRING_OR_NULL,
    "seed": COUNT,
    "validation_fraction": FRACTION,
    "data": OBJECT,
}
_CONTINUATION: _Fields = {
    "data": STRING,
    "is_old": BOOL,
    "metric": STRING,
    "texts": COUNT,
    "folds": COUNT,
    "before": FRACTION,
    "before_interval": INTERVAL,
    "after": FRACTION,
    "after_interval": INTERVAL,
}
_TRAINING: _Fields = {"best_epoch": NUMBER, "validation_accuracy": NUMBER}
_MORE_TRAINING: _Fields = {"seconds": NUMBER, "scales": OBJECT}
_TEST: _Fields = {
    "accuracy": NUMBER,
    "macro_f1": NUMBER,
    "calibration_error": NUMBER,
    "texts": COUNT,
    "accuracy_interval": INTERVAL,
    "macro_f1_interval": INTERVAL_OR_NULL,
    "folds": COUNT,
}
_VALIDATION: _Fields = {"texts": COUNT, "words": COUNT, "unknown_words": COUNT}
_UNSURE: _Fields = {
    "threshold": FRACTION,
    "target_accuracy": FRACTION,
    "answered": FRACTION,
    "accuracy": FRACTION,
    "low": FRACTION,
    "high": FRACTION,
    "texts": COUNT,
}
_TEACHER: _Fields = {
    "name": STRING,
    "variants": COUNT,
    "teachers": COUNT,
    "licence": STRING_OR_NULL,
    "epochs": COUNT,
    "validation_accuracy": NUMBER_OR_NULL,
}
_EXAMPLE: _Fields = {"text": STRING, "label": STRING}
_SEVERAL_LABELS: _Fields = {
    "micro_f1": FRACTION,
    "micro_f1_interval": INTERVAL,
    "mean_average_precision": FRACTION,
    "subset_accuracy": FRACTION,
    "hamming_loss": FRACTION,
}
_FAITHFULNESS: _Fields = {"texts": COUNT, "verdict": STRING}
_EPOCH: _Fields = {"epoch": COUNT, "loss": NUMBER, "accuracy": NUMBER, "seconds": NUMBER}
_LEADERBOARD_ROW: _Fields = {
    "model": STRING,
    "accuracy": FRACTION,
    "macro_f1": NUMBER,
    "bytes": COUNT,
    "texts_per_second": NUMBER,
    "seconds": NUMBER,
}
_LABEL_SCORES: _Fields = {"label": STRING, "texts": COUNT, "f1": NUMBER}
_CONFIG: _Fields = {
    "lamatext": STRING,
    "saved": TIME,
    "versions": OBJECT,
    "architecture": OBJECT,
    "data": _Object({}, _DATA),
    "ancestors": [_Object({**_ANCESTOR, "data": _Object({}, _DATA)}, {})],
    "parameters": OBJECT,
    "unsure": _Object(_UNSURE, {}),
    "teacher": _Object({}, _TEACHER),
    "training": OBJECT,
}
_ROW_SCORES: _Fields = {**_SEVERAL_LABELS, "labels": [_Object(_LABEL_SCORES, {})]}
_METRICS: _Fields = {
    "test": _Object({}, {**_TEST, **_SEVERAL_LABELS}),
    "faithfulness": _Object(_FAITHFULNESS, {}),
    "history": [_Object(_EPOCH, {})],
    "leaderboard": [_Object(_LEADERBOARD_ROW, _ROW_SCORES)],
    "examples": [_Object(_EXAMPLE, {})],
    "continuation": [_Object(_CONTINUATION, {})],
}


def check_config_types(path: Path, config: Mapping[str, Any]) -> None:
    """Check the JSON types of the sections in a saved model's ``config.json``.

    Raises:
        ModelError: a section or one of its fields has the wrong type.
    """
    _check(path, "", config, _Object({}, _CONFIG))
    for entry in (config, *config.get("ancestors", [])):
        if (layout := entry.get("data", {}).get("layout")) is not None:
            _check(path, "data.layout", layout, _Object(_LAYOUT, {}, is_closed=True))
    for name, count in config.get("parameters", {}).items():
        _check(path, f"parameters.{name}", count, COUNT)
    if config.get("training"):
        _check(path, "training", config["training"], _Object(_TRAINING, _MORE_TRAINING))
    if "validation" in config:
        _check_validation(path, config["validation"], len(config["labels"]))
    if "label_noise" in config:
        noise = ABSENT if "multi_label" in config else SHARE_OF_NOISE
        _check(path, "label_noise", config["label_noise"], noise)


def _check_validation(path: Path, section: Any, labels: int) -> None:
    """Check the JSON types of the validation statistics in ``config.json``."""
    _check(path, "validation", section, _Object(_VALIDATION, {}))
    for name, item, size in (("labels", COUNT, labels), ("evidence", FINITE, STEPS + 1)):
        values = section.get(name)
        if (
            not isinstance(values, list)
            or len(values) != size
            or not all(map(item.matches, values))
        ):
            raise _wrong_type(path, f"validation.{name}", f"a list of {size} numbers", values)
    if sorted(section["evidence"]) != section["evidence"]:
        raise _wrong_type(path, "validation.evidence", "ascending", section["evidence"])


def check_metrics_types(path: Path, metrics: Mapping[str, Any]) -> None:
    """Check the JSON types of scores, epochs and leaderboard rows in ``metrics.json``.

    Raises:
        ModelError: a section or one of its fields has the wrong type, or a field is missing.
    """
    present = {name: section for name, section in metrics.items() if section is not None}
    _check(path, "", present, _Object({}, _METRICS))


def _check(path: Path, where: str, value: Any, schema: _Schema) -> None:
    """Check the JSON type of a value and, recursively, of its list items or object fields."""
    if isinstance(schema, _JsonType):
        if not schema.matches(value):
            raise _wrong_type(path, where, schema.name, value)
    elif isinstance(schema, list):
        _check(path, where, value, LIST)
        for number, item in enumerate(value):
            _check(path, f"{where}[{number}]", item, schema[0])
    else:
        _check(path, where, value, OBJECT)
        fields = {**schema.required, **schema.optional}
        for name, field in fields.items():
            if name in value or name in schema.required:
                _check(path, f"{where}.{name}".lstrip("."), value.get(name), field)
        if schema.is_closed and (unknown := value.keys() - fields.keys()):
            raise _wrong_type(path, f"{where}.{min(unknown)}", "absent", "a value")


def _wrong_type(path: Path, where: str, expected: str, value: object) -> ModelError:
    return ModelError(
        f"{path}: expected {where} to be {expected}, got {str(value)[:60]!r}. "
        "Copy the folder again, or train the model again."
    )
