"""Predictions for a table: Arrow record batches with label and probability columns added."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamatext.data.readers.table import join_columns
from lamatext.outliers import OUTLIER
from lamatext.runtime.engine import Floats
from lamatext.runtime.predictor import Predictor


def predict_batches(  # noqa: PLR0913 - one argument per option of the table
    predictor: Predictor,
    batches: Iterable[pa.RecordBatch],
    text_columns: Sequence[str],
    *,
    top_k: int = 1,
    proba: bool = False,
    unsure: str | None = None,
    outlier: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Predict a label for each row of a table, batch by batch, and add the results as columns.

    The new columns are ``label`` and ``probability``, after those of the input.

    Args:
        predictor: the model.
        batches: record batches of string columns.
        text_columns: names of the columns with the texts, which are joined; missing texts are
            read as empty.
        top_k: number of labels, most probable first: ``label_2``, ``probability_2``, …
        proba: whether to add the probability of every label as ``p(LABEL)``.
        unsure: label of the texts whose largest probability is below the model's threshold; None
            gives every text a class.
        outlier: whether to add ``outlier_score`` and ``outlier``, true for unusual texts.
    """
    if unsure is not None:
        predictor.require_threshold()
    for batch in batches:
        names = list(batch.schema.names)
        parts = [batch.column(names.index(column)) for column in text_columns]
        texts = join_columns(parts).to_pylist()
        scores = None
        if outlier:
            probabilities, scores, *_ = predictor.assess(texts)
        else:
            probabilities = predictor.predict_proba(texts)
        columns = _prediction_columns(predictor, probabilities, top_k, proba)
        if unsure is not None:
            below = pa.array(predictor.is_unsure(probabilities))
            columns["label"] = pc.if_else(below, unsure, columns["label"])
        if scores is not None:
            columns["outlier_score"] = pa.array(np.round(scores, 6))
            columns["outlier"] = pa.array(scores >= OUTLIER)
        for name in columns:
            names.append(_unused_name(name, names))
        yield pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=names)


def _prediction_columns(
    predictor: Predictor, probabilities: Floats, top_k: int, proba: bool
) -> dict[str, pa.Array]:
    labels = np.array([str(label) for label in predictor.classes_.tolist()], dtype=object)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    columns: dict[str, pa.Array] = {}
    for rank in range(min(top_k, len(labels))):
        chosen = order[:, rank]
        ending = "" if rank == 0 else f"_{rank + 1}"
        columns[f"label{ending}"] = pa.array(labels[chosen], pa.string())
        columns[f"probability{ending}"] = _rounded(probabilities[np.arange(len(chosen)), chosen])
    if proba:
        columns |= {f"p({label})": _rounded(probabilities[:, i]) for i, label in enumerate(labels)}
    return columns


def _rounded(probabilities: Floats) -> pa.Array:
    return pa.array(np.round(probabilities.astype(np.float64), 6))


def _unused_name(name: str, names: list[str]) -> str:
    """Prefix the name of a prediction column with ``predicted_`` if the table already has it."""
    while name in names:
        name = f"predicted_{name}"
    return name
