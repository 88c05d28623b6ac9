"""Sizes that follow from the data: what a recipe leaves to ``auto``.

The rules know rows, words and classes, never a data set's name. They were found on validation data;
``results/search.json`` has the records, and ``results/recipe.json`` those on characters.
"""

from typing import NamedTuple

import numpy as np

from lamatext.settings import Recipe

SHORT = 50  # words a text, on average: below it characters inside words help
NEW = 0.02  # the share of a new text's words that were never seen: above it they help too
FEW_EACH = 250  # texts a class, on average: below it too
MANY_WORDS = 5_000_000  # above it characters take gigabytes to learn from
FEW_ROWS = 10_000
FEW_WORDS = 2_000_000
STEPS = 1_000  # a network needs about this many to learn anything


class Facts(NamedTuple):
    """What the rules know of the training texts."""

    rows: int  # texts
    words: int  # in all of them together
    once: int  # different words that stand there a single time
    classes: int


def settle(recipe: Recipe, facts: Facts) -> Recipe:
    """The recipe with a number for every ``auto``."""
    rows, words = facts.rows, max(1, facts.words)
    text, training = recipe.text, recipe.training
    values: dict[str, object] = {}
    if text.min_count == "auto":
        values["text.min_count"] = 2 if words < FEW_WORDS else 5
    if text.word2vec_epochs == "auto":
        values["text.word2vec_epochs"] = _between(4, 3e7 / words, 30)
    if recipe.ngrams.characters == "auto":
        values["ngrams.characters"] = _characters(facts)
    batch = training.batch_size
    if batch == "auto":
        batch = 32 if rows < FEW_ROWS else 64
        values["training.batch_size"] = batch
    if training.epochs == "auto":
        values["training.epochs"] = _epochs(rows, words, batch)
    return recipe.with_values(values, where="auto")


def _characters(facts: Facts) -> bool:
    """Whether the parts of words are read too: where the words themselves are seen too seldom.

    The share of words that stand once estimates how many of a new text's words were never seen
    (Good 1953, after Turing).
    """
    rows, words, once, classes = facts
    seldom = words <= SHORT * rows or once >= NEW * words or rows < FEW_EACH * classes
    return seldom and words <= MANY_WORDS


def _epochs(rows: int, words: int, batch: int) -> int:
    """6 to 12; fewer on very many words, more where an epoch has only a few steps."""
    floor = min(6, max(2, 6e7 / words))
    steps = -(-rows // batch)
    return max(_between(floor, 8e6 / words, 12), min(60, -(-STEPS // steps)))


def _between(low: float, value: float, high: float) -> int:
    return round(float(np.clip(value, low, high)))
