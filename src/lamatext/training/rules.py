"""Sizes that follow from the data: what a recipe leaves to ``auto``.

The rules know rows, words and classes, never a data set's name. They were found on validation data;
``results/search.json`` has the records.
"""

import numpy as np

from lamatext.settings import Recipe

SHORT = 50  # words a text, on average: below it characters inside words help
FEW_ROWS = 10_000
FEW_WORDS = 2_000_000
STEPS = 1_000  # a network needs about this many to learn anything


def settle(recipe: Recipe, *, rows: int, words: int) -> Recipe:
    """The recipe with a number for every ``auto``, given the training texts and their words."""
    text, training = recipe.text, recipe.training
    values: dict[str, object] = {}
    if text.min_count == "auto":
        values["text.min_count"] = 2 if words < FEW_WORDS else 5
    if text.vector_epochs == "auto":
        values["text.vector_epochs"] = _between(4, 3e7 / words, 30)
    if recipe.wide.characters == "auto":
        values["wide.characters"] = words / rows <= SHORT
    batch = training.batch
    if batch == "auto":
        batch = 32 if rows < FEW_ROWS else 64
        values["training.batch"] = batch
    if training.epochs == "auto":
        values["training.epochs"] = _epochs(rows, words, batch)
    return recipe.with_values(values, where="auto")


def _epochs(rows: int, words: int, batch: int) -> int:
    """6 to 12; fewer on very many words, more where an epoch has only a few steps."""
    floor = min(6, max(2, 6e7 / words))
    steps = -(-rows // batch)
    return max(_between(floor, 8e6 / words, 12), min(60, -(-STEPS // steps)))


def _between(low: float, value: float, high: float) -> int:
    return round(float(np.clip(value, low, high)))
