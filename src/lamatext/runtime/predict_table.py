"""Predictions for a table: Arrow record batches with label and probability columns added."""

import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamatext.data.readers.table import join_columns
from lamatext.errors import ConfigError, plural
from lamatext.outliers import OUTLIER
from lamatext.runtime.engine import Floats
from lamatext.runtime.predictor import Predictor, round_probability


def predict_batches(  # noqa: PLR0913 - one argument per option of the table
    predictor: Predictor,
    batches: Iterable[pa.RecordBatch],
    text_columns: Sequence[str],
    *,
    top_k: int = 1,
    proba: bool = False,
    unsure: str | None = None,
    outlier: bool = False,
    label_separator: str | None = None,
    rounded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Predict a label for each row of a table and add the results as columns.

    The new columns are ``label`` and ``probability``, after those of the input. A multi-label model
    adds the column ``labels``.

    Args:
        predictor: the model.
        batches: record batches whose text columns are strings.
        text_columns: names of the columns with the texts, which are joined; missing texts are
            read as empty.
        top_k: number of labels, most probable first: ``label_2``, ``probability_2``, …
        proba: whether to add the probability of every label as ``p(LABEL)``.
        unsure: label of the texts whose highest probability is below the model's threshold; None
            assigns a class to every text.
        outlier: whether to add the columns ``outlier_score``, ``outlier`` (true for unusual texts)
            and ``empty`` (true for empty texts).
        label_separator: joins the labels of a multi-label model; None keeps lists.
        rounded: whether to round probabilities, as in the server's responses.
    """
    if unsure is not None:
        predictor.require_threshold(unsure)
    check_label_options(predictor, top_k, label_separator)
    empty = 0
    for batch in batches:
        names = list(batch.schema.names)
        parts = [batch.column(names.index(column)) for column in text_columns]
        texts = join_columns(parts).to_pylist()
        is_empty = [not text.strip() for text in texts]
        empty += sum(is_empty)
        scores = None
        if outlier:
            probabilities, scores, *_ = predictor.assess(texts)
        else:
            probabilities = predictor.predict_proba(texts)
        columns = _label_columns(predictor, probabilities, top_k, label_separator)
        columns |= _probability_columns(predictor, probabilities) if proba else {}
        columns = {name: _rounded(c) if rounded else c for name, c in columns.items()}
        if unsure is not None:
            below = pa.array(predictor.is_unsure(probabilities))
            columns["label"] = pc.if_else(below, unsure, columns["label"])
        if scores is not None:
            columns["outlier_score"] = pa.array(np.round(scores, 6))
            columns["outlier"] = pa.array(scores >= OUTLIER)
            columns["empty"] = pa.array(is_empty, pa.bool_())
        for name in columns:
            names.append(_unused_name(name, names))
        added = zip(names[len(batch.schema) :], columns.values(), strict=True)
        fields = [*batch.schema, *(pa.field(name, column.type) for name, column in added)]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *columns.values()], schema=pa.schema(fields)
        )
    warn_of_empty_rows(empty)


def warn_of_empty_rows(count: int) -> None:
    """Warn about the ``count`` empty texts in a table of predictions, if there are any."""
    if count:
        warnings.warn(
            f"{plural(count, 'text is', 'texts are')} empty: "
            f"{'its prediction is' if count == 1 else 'their predictions are'} not based on any "
            "word.",
            stacklevel=3,
        )


def _probability_columns(predictor: Predictor, probabilities: Floats) -> dict[str, pa.Array]:
    labels = map(str, predictor.classes_.tolist())
    return {f"p({label})": _floats(probabilities[:, i]) for i, label in enumerate(labels)}


def _label_columns(
    predictor: Predictor, probabilities: Floats, top_k: int, separator: str | None
) -> dict[str, pa.Array]:
    if predictor.thresholds is None:
        return _prediction_columns(predictor, probabilities, top_k)
    return {"labels": _labels_column(predictor, probabilities, separator)}


def _prediction_columns(
    predictor: Predictor, probabilities: Floats, top_k: int
) -> dict[str, pa.Array]:
    labels = np.array([str(label) for label in predictor.classes_.tolist()], dtype=object)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    columns: dict[str, pa.Array] = {}
    for rank in range(min(top_k, len(labels))):
        chosen = order[:, rank]
        ending = "" if rank == 0 else f"_{rank + 1}"
        columns[f"label{ending}"] = pa.array(labels[chosen], pa.string())
        columns[f"probability{ending}"] = _floats(probabilities[np.arange(len(chosen)), chosen])
    return columns


def _labels_column(predictor: Predictor, probabilities: Floats, separator: str | None) -> pa.Array:
    assert predictor.thresholds is not None
    names = [str(label) for label in predictor.classes_.tolist()]
    rows = [
        [names[i] for i in np.flatnonzero(flags)]
        for flags in predictor.thresholds.decide(probabilities)
    ]
    if separator is None:
        return pa.array(rows, pa.list_(pa.string()))
    return pa.array([separator.join(row) for row in rows], pa.string())


def check_label_options(predictor: Predictor, top_k: int, separator: str | None) -> None:
    """Raise ConfigError for table prediction options that a multi-label model does not support."""
    if predictor.thresholds is None:
        return
    if top_k > 1:
        raise ConfigError(
            "--top-k: the model gives a text every label that reaches its threshold. Leave it out, "
            "or output the probability of every label with --proba."
        )
    for label in map(str, predictor.classes_.tolist() if separator is not None else ()):
        if not separator or separator in label:
            raise ConfigError(
                f"the label {label!r} contains the separator {separator!r}. Choose another "
                "--label-separator, or write JSONL or Parquet."
            )


def _floats(probabilities: Floats) -> pa.Array:
    """Convert probabilities to an unrounded table column, since rounding would create ties."""
    return pa.array(probabilities.astype(np.float32).astype(np.float64))


def _rounded(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(map(round_probability, column.to_pylist()), column.type)


def _unused_name(name: str, names: list[str]) -> str:
    """Prefix a prediction column's name with ``predicted_`` until no other column has that name."""
    while name in names:
        name = f"predicted_{name}"
    return name
