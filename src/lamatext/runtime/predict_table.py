"""Predictions as columns beside the columns that came in."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lamatext.explain.classifier_head import Floats
from lamatext.runtime.predictor import Predictor


def predict_batches(
    predictor: Predictor,
    batches: Iterable[pa.RecordBatch],
    text_column: str,
    *,
    top_k: int = 1,
    proba: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Each batch with ``label`` and ``probability`` added; its own columns stay as they are.

    Args:
        predictor: the model.
        batches: string columns, one of them the texts.
        text_column: its name.
        top_k: how many labels, the most probable first: ``label_2``, ``probability_2``, …
        proba: whether to add the probability of every label as ``p(LABEL)``.
    """
    for batch in batches:
        names = list(batch.schema.names)
        texts = batch.column(names.index(text_column)).fill_null("").to_pylist()
        found = _columns(predictor, predictor.predict_proba(texts), top_k, proba)
        for name in found:
            names.append(_free(name, names))
        yield pa.RecordBatch.from_arrays([*batch.columns, *found.values()], names=names)


def _columns(
    predictor: Predictor, probabilities: Floats, top_k: int, proba: bool
) -> dict[str, pa.Array]:
    labels = np.array([str(label) for label in predictor.classes.tolist()], dtype=object)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    columns: dict[str, pa.Array] = {}
    for place in range(min(top_k, len(labels))):
        chosen = order[:, place]
        ending = "" if place == 0 else f"_{place + 1}"
        columns[f"label{ending}"] = pa.array(labels[chosen], pa.string())
        columns[f"probability{ending}"] = _rounded(probabilities[np.arange(len(chosen)), chosen])
    if proba:
        columns |= {f"p({label})": _rounded(probabilities[:, i]) for i, label in enumerate(labels)}
    return columns


def _rounded(probabilities: Floats) -> pa.Array:
    return pa.array(np.round(probabilities.astype(np.float64), 6))


def _free(name: str, taken: list[str]) -> str:
    """The name, or ``predicted_`` before it where the input has such a column already."""
    while name in taken:
        name = f"predicted_{name}"
    return name
