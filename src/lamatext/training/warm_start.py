"""Warm start of a training run: a saved model's weights, extended by new words and new classes.

Old words and classes keep their ids. A new word gets the vector that training would start from,
mapped to the trained word vectors by ridge regression over the words that both have. A new class
gets the mean of the other classes' weights in the network, so that it starts unlikely wherever the
network is sure, and zeros with the bias of a text outside the class in the n-gram model.
The calibration factors are undone first, because they are fitted again; class biases and the
mixture of classes stay in the starting weights.

The new texts may contain texts that the saved model was trained on. Held out, these would show what
it remembers, so they are not used for validation or calibration. If they are the majority, the
n-gram model does not start from the saved one, which would learn them twice.

Shapes: V words, E embedding width, C classes, R rows of n-gram weights, K n-grams.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import nn

from lamatext.data.splits import Split
from lamatext.data.text_sketch import TextSketch
from lamatext.data.word_vectors import Vectors
from lamatext.ngrams.model import NgramModel, NgramTable
from lamatext.saved.model_io import SavedModel, all_training_data, load_network
from lamatext.settings import Recipe

EMBEDDING = "embedding.weight"
RIDGE = 1.0  # pull of the map of word vectors towards 0, in words
OUTSIDE = -1.0  # n-gram score of a text outside a class, just beyond the margin of its SVM
MANY_KNOWN = 0.05  # share of the texts; if the saved model was trained on fewer, that is ignored
MOSTLY_KNOWN = 0.5  # share of the texts from which on the n-gram model is fitted anew
FEWEST_NEW = 20  # validation texts that the saved model was not trained on, to validate with them


def validate_on_new_texts(
    split: Split, texts: pa.ChunkedArray, start: SavedModel, *, multi_label: bool
) -> Split:
    """Move validation texts that a saved model was trained on to the training set of a warm start.

    They are recognized by the saved model's sketch of its training texts. It is a sample, so of
    large training sets it may leave only a part of the new texts for validation. If too few are
    left, all texts are trained on, and the validation texts are no evidence. With several labels
    per text the validation set then stays as it is, because the thresholds are chosen on it.
    """
    described = all_training_data(start.facts, start.recipe)
    facts = [data.facts["sketch"] for data in described if "sketch" in data.facts]
    checks = [TextSketch.from_json(fact).check(texts) for fact in facts]
    if not checks:
        return split
    is_known = np.logical_or.reduce([known for known, _ in checks])
    is_new = np.logical_and.reduce([new for _, new in checks])
    known, checked = is_known.sum(), (is_known | is_new).sum()
    if known < max(1, MANY_KNOWN * checked):
        return split
    validation = split.validation[is_new[split.validation]]
    if len(validation) < FEWEST_NEW:
        validation = split.validation
        moved = validation[:0] if multi_label else validation
    else:
        moved = np.setdiff1d(split.validation, validation)
    train = np.union1d(split.train, moved)
    if known >= MOSTLY_KNOWN * checked:
        return replace(split, train=train, validation=validation, is_mostly_known=True)
    return replace(split, train=train, validation=validation, is_known=is_known)


def extend_word_vectors(trained: Vectors, initial: Vectors, is_used: NDArray[np.bool_]) -> Vectors:
    """Add vectors for new words to a saved model's word vectors, for a warm start.

    Args:
        trained: vectors of the saved model, (V, E).
        initial: untrained vectors of all words, old and new, (V + new, E).
        is_used: which old words have a meaningful initial vector, (V,).
    """
    old = len(trained)
    source, target = initial[:old][is_used].astype(np.float64), trained[is_used]
    width = initial.shape[1]
    matrix = np.linalg.solve(source.T @ source + RIDGE * np.eye(width), source.T @ target)
    return np.concatenate([trained, (initial[old:] @ matrix).astype(np.float32)])


def start_network(
    start: SavedModel, recipe: Recipe, *, classes: int, by_word: Mapping[str, NDArray[Any]]
) -> nn.Module:
    """Build a saved model's network for a warm start, extended by new words and classes.

    Args:
        start: the saved model.
        recipe: its settings, with those of the new training run.
        classes: number of classes: those of the model, followed by new ones.
        by_word: tensors with a row per word of the extended vocabulary; others keep their size.
    """
    network = load_network(start)
    last = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)][-1]
    tensors = dict(start.tensors)
    for name in (f"{last}.weight", f"{last}.bias"):
        rows = tensors[name] / np.float32(calibration_factor(start, "network"))
        mean = rows.mean(axis=0, keepdims=True)
        new = np.repeat(mean, classes - len(start.labels), axis=0)
        tensors[name] = np.concatenate([rows, new])
    tensors |= by_word
    labels = list(range(classes))  # only their number matters here
    return load_network(replace(start, recipe=recipe, labels=labels, tensors=tensors))


def start_ngrams(start: SavedModel, *, classes: int) -> NgramModel | None:
    """Return a saved model's uncalibrated n-grams for a warm start, extended by new classes."""
    if start.ngrams is None:
        return None
    model = start.ngrams.scaled(1 / calibration_factor(start, "ngrams"))
    new = classes - len(start.labels)
    if not new:
        return model
    bias = model.bias
    if len(bias) == 1 and start.thresholds is None:  # two classes share a row
        bias = np.concatenate([-bias, bias])
    tables = tuple(_add_rows(table, len(bias) - len(table.steps), new) for table in model.tables)
    return NgramModel(tables, np.append(bias, np.full(new, OUTSIDE, np.float32)))


def _add_rows(table: NgramTable, opposite: int, new: int) -> NgramTable:
    """Add zero weights for new classes to a saved n-gram table, for a warm start.

    Args:
        table: the table of the old model.
        opposite: 1 if one row served two classes: the first class then gets its negation.
        new: number of new classes, whose weights start at zero.
    """
    zeros = np.zeros((new, len(table.keys)), np.int8)
    return replace(
        table,
        weights=np.concatenate([-table.weights[:opposite], table.weights, zeros]),
        steps=np.concatenate([table.steps[:opposite], table.steps, np.ones(new, np.float32)]),
    )


def calibration_factor(start: SavedModel, part: str) -> float:
    """Return the calibration factor of a saved model's network or n-grams, for a warm start."""
    scales: dict[str, Any] = start.facts.get("training", {}).get("scales", {})
    factor = scales.get(part, 1.0)
    is_usable = isinstance(factor, int | float) and 0 < factor < np.inf
    return float(factor) if is_usable else 1.0
