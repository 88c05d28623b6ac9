"""JSON types of the sections in ``config.json`` and ``metrics.json``, checked before their use."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lamatext.data.text_sketch import TextSketch
from lamatext.errors import ModelError
from lamatext.outliers import STEPS

_LIMIT = 1 << 63  # a larger whole number cannot be formatted as a float


class _JsonType(NamedTuple):
    """JSON type of a field, with its name and a function that checks a value."""

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

_Fields = Mapping[str, _JsonType]

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
    "encoding": STRING,
    "separator": STRING_OR_NULL,
    "quote": STRING,
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
_LISTS = {
    "history": _EPOCH,
    "leaderboard": _LEADERBOARD_ROW,
    "examples": _EXAMPLE,
    "continuation": _CONTINUATION,
}


def check_config_types(path: Path, config: Mapping[str, Any]) -> None:
    """Check the JSON types of the sections in ``config.json`` of a saved model.

    Raises:
        ModelError: a section or a field of it has another type.
    """
    _check_type(path, "lamatext", config.get("lamatext", ""), STRING)
    if "saved" in config:
        _check_type(path, "saved", config["saved"], TIME)
    for name in ("data", "training", "versions", "parameters", "architecture"):
        if name in config:
            _check_type(path, name, config[name], OBJECT)
    _check_data(path, "data", config.get("data", {}))
    _check_ancestors(path, config.get("ancestors", []))
    for name, count in config.get("parameters", {}).items():
        _check_type(path, f"parameters.{name}", count, COUNT)
    if "validation" in config:
        _check_validation(path, config["validation"], len(config["labels"]))
    if "unsure" in config:
        _check_fields(path, "unsure", config["unsure"], _UNSURE)
    _check_label_noise(path, config)
    _check_known_fields(path, "teacher", config.get("teacher", {}), _TEACHER)
    if config.get("training"):
        _check_fields(path, "training", config["training"], _TRAINING)
        _check_known_fields(path, "training", config["training"], _MORE_TRAINING)


def _check_label_noise(path: Path, config: Mapping[str, Any]) -> None:
    """Check the JSON type of the estimated share of wrong labels in ``config.json``."""
    if "label_noise" in config:
        noise = ABSENT if "multi_label" in config else SHARE_OF_NOISE
        _check_type(path, "label_noise", config["label_noise"], noise)


def _check_validation(path: Path, section: object, labels: int) -> None:
    """Check the JSON types of the validation statistics in ``config.json``."""
    _check_fields(path, "validation", section, _VALIDATION)
    assert isinstance(section, dict)
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
        ModelError: a section or a field of it has another type, or a field is missing.
    """
    if metrics.get("test") is not None:
        _check_known_fields(path, "test", metrics["test"], {**_TEST, **_SEVERAL_LABELS})
    if metrics.get("faithfulness") is not None:
        _check_fields(path, "faithfulness", metrics["faithfulness"], _FAITHFULNESS)
    for name, fields in _LISTS.items():
        rows = metrics.get(name)
        if rows is None:
            continue
        if not isinstance(rows, list):
            raise _wrong_type(path, name, "a list", rows)
        for number, row in enumerate(rows):
            _check_fields(path, f"{name}[{number}]", row, fields)
            _check_known_fields(path, f"{name}[{number}]", row, _SEVERAL_LABELS)
            _check_label_scores(path, f"{name}[{number}].labels", row.get("labels", []))


def _check_label_scores(path: Path, where: str, rows: object) -> None:
    """Check the JSON types of the scores per label in a leaderboard row of ``metrics.json``."""
    if not isinstance(rows, list):
        raise _wrong_type(path, where, "a list", rows)
    for number, row in enumerate(rows):
        _check_fields(path, f"{where}[{number}]", row, _LABEL_SCORES)


def _check_ancestors(path: Path, ancestors: Any) -> None:
    """Check the JSON types of the list of ancestor models in ``config.json``."""
    _check_type(path, "ancestors", ancestors, LIST)
    for number, ancestor in enumerate(ancestors):
        _check_fields(path, f"ancestors[{number}]", ancestor, _ANCESTOR)
        _check_data(path, f"ancestors[{number}].data", ancestor["data"])


def _check_data(path: Path, where: str, section: Any) -> None:
    """Check the JSON types in the description of the training data in ``config.json``."""
    _check_known_fields(path, where, section, _DATA)
    _check_layout(path, section.get("layout"))


def _check_layout(path: Path, layout: Any) -> None:
    """Check the JSON types in the layout of the training file in ``config.json``.

    Raises an error if one of them has a wrong JSON type or an impossible value.
    """
    if layout is None:
        return
    _check_fields(path, "data.layout", layout, _LAYOUT)
    if unknown := layout.keys() - _LAYOUT.keys():
        raise _wrong_type(path, f"data.layout.{min(unknown)}", "absent", "a value")
    separator, quote = layout.get("separator"), layout["quote"]
    is_printable = separator is None or separator == "\t" or separator.isprintable()
    if separator is not None and not (len(separator) == 1 and separator.isascii() and is_printable):
        raise _wrong_type(path, "data.layout.separator", "one ASCII character", separator)
    if quote not in ('"', "'", ""):
        raise _wrong_type(path, "data.layout.quote", "a quote or empty", quote)
    try:
        "a".encode(layout["encoding"])
    except (LookupError, ValueError):
        expected = "a text encoding"
        raise _wrong_type(path, "data.layout.encoding", expected, layout["encoding"]) from None


def _check_fields(path: Path, where: str, section: object, fields: _Fields) -> None:
    if not isinstance(section, dict):
        raise _wrong_type(path, where, "an object", section)
    for name, expected in fields.items():
        _check_type(path, f"{where}.{name}", section.get(name), expected)


def _check_known_fields(path: Path, where: str, section: object, fields: _Fields) -> None:
    """Check the JSON types of all known fields in a section of ``config.json``."""
    if not isinstance(section, dict):
        raise _wrong_type(path, where, "an object", section)
    for name in fields.keys() & section.keys():
        _check_type(path, f"{where}.{name}", section[name], fields[name])


def _check_type(path: Path, where: str, value: object, expected: _JsonType) -> None:
    if not expected.matches(value):
        raise _wrong_type(path, where, expected.name, value)


def _wrong_type(path: Path, where: str, expected: str, value: object) -> ModelError:
    return ModelError(
        f"{path}: expected {where} to be {expected}, got {str(value)[:60]!r}. "
        "Copy the folder again, or train the model again."
    )
